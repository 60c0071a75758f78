"""Searches of tiny models, by ours and by fairseq's search."""

from collections.abc import Sequence
from typing import Any

import torch
from fairseq.models import BaseFairseqModel
from fairseq.sequence_generator import SequenceGenerator

from rnnsearch_fairseq.modules.tree_lstm import Forest
from rnnsearch_fairseq.plugin.tasks import halves
from rnnsearch_fairseq.search import Hypothesis, OnStep, SearchModel, SearchOptions, make_search
from tests.builders import UNK

FAIRSEQS_NAMES = {"beam": "beam_size", "lenpen": "len_penalty", "unkpen": "unk_penalty"}
Sample = dict[str, Any]


def search(
    models: Sequence[BaseFairseqModel], sample: Sample, on_step: OnStep | None = None, **options: Any
) -> list[list[Hypothesis]]:
    trees = sample["net_input"].get("trees")
    words, forest = sample["net_input"]["src_tokens"], None if trees is None else Forest(*trees)
    model = SearchModel([halves(model) for model in models])
    return make_search(SearchOptions(**options)).search(model, words, forest, on_step)


def assert_as_by_fairseq(models: Sequence[BaseFairseqModel], sample: Sample, **options: Any) -> list[list[Hypothesis]]:
    """Our hypotheses, which must be those of fairseq's search."""
    theirs = {FAIRSEQS_NAMES.get(name, name): value for name, value in options.items()}
    theirs["normalize_scores"] = not theirs.pop("unnormalized", False)
    generator = SequenceGenerator(list(models), models[0].decoder.dictionary, **theirs)
    found, expected = search(models, sample, **options), generator.generate(models, sample)
    for ours, others in zip(found, expected, strict=True):
        assert [hypothesis.words for hypothesis in ours] == [other["tokens"].tolist() for other in others]
        for hypothesis, other in zip(ours, others):
            assert abs(hypothesis.score - float(other["score"])) < 2e-5
            # Differences of totals, of which fairseq keeps 24 bits; its own include the penalty of unknown words.
            penalties = torch.tensor(hypothesis.words).eq(UNK) * min(options.get("unkpen", 0.0), 1e9)
            assert_close(hypothesis.logprobs - penalties, other["positional_scores"], atol=1e-4)
            if hypothesis.weights is not None:
                assert_close(hypothesis.weights[:, : len(other["attention"])].T, other["attention"], atol=2e-5)
    return found


def assert_close(found: torch.Tensor, expected: torch.Tensor, atol: float = 1e-10) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=atol, check_dtype=False)
