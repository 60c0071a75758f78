"""Reports of fairseq's searches."""

import torch
from fairseq.search import BeamSearch
from torch import Tensor

from rnnsearch_fairseq.search.progress import ReportingSearch
from tests.builders import EOS, make_dictionary


def test_the_best_unfinished_hypothesis_of_each_sentence_is_reported_by_its_id() -> None:
    dictionary = make_dictionary(6)
    reports: list[dict[int, Tensor]] = []
    inner = BeamSearch(dictionary)
    search = ReportingSearch(dictionary, inner, reports.append)
    lprobs = torch.randn(2, 2, len(dictionary), generator=torch.Generator().manual_seed(1)).log_softmax(-1)
    tokens = torch.tensor([[EOS, 4], [EOS, 5], [EOS, 6], [EOS, EOS]])  # two beams of two; the last is finished
    scores = torch.tensor([[[-2.0], [-1.0]], [[-3.0], [-1.0]]])
    found = search.step(1, lprobs.clone(), scores, tokens, torch.tensor([7, 9]))
    assert [{name: words.tolist() for name, words in report.items()} for report in reports] == [{7: [5], 9: [6]}]
    assert all(map(torch.equal, found, inner.step(1, lprobs.clone(), scores, tokens, torch.tensor([7, 9]))))
    search.step(0, lprobs, scores[:, :, :0], tokens[:, :1], torch.tensor([7, 9]))
    assert len(reports) == 1, "before the first word there is nothing to report"
