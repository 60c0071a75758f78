"""tree2seq's search against a transcription of the original's, and against recorded translations."""

from pathlib import Path

import numpy as np
import pytest
import torch

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.search import Hypothesis, SearchOptions
from rnnsearch_fairseq.search.length_statistics import LengthStatistics
from rnnsearch_fairseq.search.steps import Finished
from rnnsearch_fairseq.search.tree2seq import Tree2SeqBeam
from tests.builders import EOS, PAD
from tests.plugin import builders as trees
from tests.plugin.builders import EXACT, Original
from tests.reference import tree2seq as reference
from tests.reference.recorded import needs_tree2seq
from tests.search import builders


@pytest.fixture(scope="module")
def original() -> Original:
    return Original("softmax")


def recorded_ids(original: Original, hypothesis: Hypothesis) -> list[int]:
    return [original.target.index(number) for number in hypothesis.words]


@needs_tree2seq
@pytest.mark.parametrize("records", ["dev", "dev_failed_parse"])
@pytest.mark.parametrize(("beam", "name"), [(1, "greedy"), (5, "beam5")])
def test_recorded_translations(original: Original, records: str, beam: int, name: str) -> None:
    sentences = original.described[records]
    sample = original.batch(sentences, True)
    found = builders.search([original.model], sample, search="tree2seq", beam=beam, max_len_b=50)
    eos, words = original.described["tgt_eos"], original.described["tgt_vocab"]
    for record, hypotheses in zip(sentences, found, strict=True):
        assert recorded_ids(original, hypotheses[0]) == [*record[name], eos]
        listed = record["greedy_scored" if beam == 1 else "beam5_nbest"]
        texts = ["".join(f"{words[number]} " for number in recorded_ids(original, h)) for h in hypotheses]
        assert texts == [entry["text"] for entry in listed]
        np.testing.assert_allclose([h.score for h in hypotheses], [entry["score"] for entry in listed], **EXACT)
        for hypothesis in hypotheses:
            assert hypothesis.logprobs.sum() == pytest.approx(hypothesis.score, abs=1e-10)
            assert len(hypothesis.weights) == len(hypothesis.words) == len(hypothesis.logprobs)


@pytest.mark.parametrize("beam", [2, 6])
@pytest.mark.parametrize("max_words", [2, 4, 30])
def test_length_statistics_as_in_the_transcription(tmp_path: Path, beam: int, max_words: int) -> None:
    model = trees.make_model()
    model.decoder.network.to_vocabulary.bias.data[[EOS, PAD]] = torch.tensor([2.0, -1e4], dtype=torch.float64)
    statistics = LengthStatistics({(1, 1): 2, (1, 3): 1, (2, 4): 3, (2, 2): 1, (3, 2): 1})  # no source of four words
    path = tmp_path / "lengths"
    path.write_text(statistics.write())
    options = {"search": "tree2seq", "beam": beam, "max_len_b": max_words, "length_statistics": str(path)}
    found = builders.search([model], trees.make_batch(trees.SOURCES, trees.TARGETS, trees.TREES, True), **options)
    params = {name.replace("network.", ""): array.detach().numpy() for name, array in model.named_parameters()}
    counts = {n: {t: pairs for (s, t), pairs in statistics.counts.items() if s == n} for n in statistics.totals}
    for source, tree, hypotheses in zip(trees.SOURCES, trees.TREES, found, strict=True):
        tree = 0 if tree == [0] else tree
        expected = reference.beam_search(params, source, tree, beam, EOS, max_words, counts)
        assert [h.words for h in hypotheses] == [words for words, _ in expected]
        np.testing.assert_allclose([h.score for h in hypotheses], [score for _, score in expected], **EXACT)
        for h in hypotheses:  # the length's term belongs to the score, and to no word
            term = statistics.log_prob(len(source) - 1, len(h.words) - 1) if h.words[-1] == EOS else 0.0
            assert h.logprobs.sum().item() + term == pytest.approx(h.score, abs=1e-10)


def test_of_equal_scores_the_unfinished_come_first_and_the_search_goes_on() -> None:
    beam = Tree2SeqBeam(SearchOptions(beam=4), length=3)
    beam.finished = [Finished(score, 0, (score, 0, EOS)) for score in (-1.0, -2.0)]
    candidates = [(-1.0, 0, 7), (-2.0, 0, 8), (-2.5, 1, 9)]
    before = list(beam.finished)
    assert beam.advance(candidates, 1) == candidates[:2]
    assert beam.finished == before


def test_missing_and_malformed_statistics_are_refused(tmp_path: Path) -> None:
    for text in ("3\t4\n", "3\t4\t1\n3\tx\t1\n", "3\t4\t-1\n", "# source words, target words, pairs\n"):
        (tmp_path / "lengths").write_text(text)
        with pytest.raises(InputError, match=r"lengths: .*recipes\.trees\.lengths"):
            LengthStatistics.read(tmp_path / "lengths")
    with pytest.raises(InputError, match="nothing"):
        LengthStatistics.read(tmp_path / "nothing")
