"""Tree2SeqSearch against a transcription of the original's search, and against recorded translations."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.search.length_statistics import LengthStatistics
from rnnsearch_fairseq.search.tree2seq import Tree2SeqSearch, _Beam
from tests.builders import EOS
from tests.models.builders import SOURCES, TARGETS, TREES, Original, make_batch, make_model
from tests.reference import tree2seq as reference
from tests.reference.recorded import TREE2SEQ, needs_tree2seq

EXACT = {"rtol": 0, "atol": 1e-10}


def search(original: Original, records: list[dict[str, Any]], beam: int, left: bool = True, **options: Any) -> Any:
    sample = original.batch(records, left)
    generator = Tree2SeqSearch([original.model], original.model.decoder.dictionary, beam_size=beam, **options)
    return generator.generate([original.model], sample)


@pytest.fixture(scope="module")
def original() -> Original:
    return Original("softmax")


def recorded_ids(original: Original, hypothesis: dict[str, Any]) -> list[int]:
    return [original.target.index(number) for number in hypothesis["tokens"].tolist()]


@needs_tree2seq
@pytest.mark.parametrize("together", [True, False], ids=["batched", "alone"])
@pytest.mark.parametrize("records", ["dev", "dev_failed_parse"])
@pytest.mark.parametrize(("beam", "name"), [(1, "greedy"), (5, "beam5")])
def test_recorded_translations(original: Original, records: str, beam: int, name: str, together: bool) -> None:
    given = original.described[records]
    batches = [given] if together else [[record] for record in given]
    found = [hypotheses for batch in batches for hypotheses in search(original, batch, beam, max_len_b=50)]
    eos, words = original.described["tgt_eos"], original.described["tgt_vocab"]
    for record, hypotheses in zip(given, found, strict=True):
        best = recorded_ids(original, hypotheses[0])
        assert best[-1] == eos
        assert best[:-1] == record[name]
        listed = record["greedy_scored" if beam == 1 else "beam5_nbest"]
        texts = ["".join(f"{words[number]} " for number in recorded_ids(original, h)) for h in hypotheses]
        assert texts == [entry["text"] for entry in listed]
        scores = [h["score"].item() for h in hypotheses]
        np.testing.assert_allclose(scores, [entry["score"] for entry in listed], **EXACT)
        for hypothesis in hypotheses:
            assert hypothesis["positional_scores"].sum() == pytest.approx(hypothesis["score"].item(), abs=1e-10)
            assert hypothesis["attention"].shape[1] == len(hypothesis["tokens"])


@needs_tree2seq
@pytest.mark.parametrize("beam", [2, 6])
@pytest.mark.parametrize("max_words", [4, 30])
def test_length_statistics_as_in_the_transcription(
    original: Original, tmp_path: Path, beam: int, max_words: int
) -> None:
    given = original.described["dev"][:6]
    lengths = [(len(r["src"]) - 1, len(r["tgt"]) - 1) for r in original.described["train40"]]
    lengths += [(len(record["src"]) - 1, 3 + number) for number, record in enumerate(given[:4])]
    statistics = LengthStatistics.count(lengths)
    path = tmp_path / "lengths"
    path.write_text(statistics.write())
    with np.load(TREE2SEQ / "softmax.npz") as arrays:
        params = reference.in_float64({n: arrays[n] for n in arrays.files if not n.startswith("unused.")})
    options = {"max_len_b": max_words, "length_statistics": str(path)}
    eos = original.described["tgt_eos"]
    for record, hypotheses in zip(given, search(original, given, beam, **options), strict=True):
        counts = {source: dict(of_source) for source, of_source in statistics.counts.items()}
        expected = reference.beam_search(params, record["src"], record["tree"], beam, eos, max_words, counts)
        assert [recorded_ids(original, h) for h in hypotheses] == [list(words) for words, _ in expected]
        np.testing.assert_allclose([h["score"].item() for h in hypotheses], [s for _, s in expected], **EXACT)


@needs_tree2seq
@pytest.mark.parametrize("beam", [1, 4])
def test_what_is_not_a_number_is_impossible(beam: int) -> None:
    """All continuations of a word with a NaN embedding are impossible, and take no place in the beam."""
    original = Original("softmax")
    given = original.described["dev"][:4]
    damaged = given[0]["beam5"][0]
    with np.load(TREE2SEQ / "softmax.npz") as arrays:
        params = reference.in_float64({n: arrays[n] for n in arrays.files if not n.startswith("unused.")})
    params["targetEmbed"][:, damaged] = math.nan
    with torch.no_grad():
        original.model.decoder.translator.embedding.weight[original.target[damaged]] = math.nan
    eos = original.described["tgt_eos"]
    for record, hypotheses in zip(given, search(original, given, beam, max_len_b=12), strict=True):
        expected = reference.beam_search(params, record["src"], record["tree"], beam, eos, 12)
        if not expected:  # no hypothesis is left
            expected = [((eos,), -math.inf)]
        assert [recorded_ids(original, h) for h in hypotheses] == [list(words) for words, _ in expected]
        np.testing.assert_allclose([h["score"].item() for h in hypotheses], [s for _, s in expected], **EXACT)


def test_of_equal_scores_the_unfinished_come_first_and_the_search_goes_on() -> None:
    finished = [{"score": torch.tensor(-1.0)}, {"score": torch.tensor(-2.0)}]
    best = [-1.0, -2.0, -2.5], [0, 0, 1], [7, 8, 9]
    beam = _Beam.choose(*best, finished, size=4)
    assert beam.places == [(0, 7, -1.0), finished[0], (0, 8, -2.0), finished[1]]
    assert not beam.best_is_finished(EOS)


def test_what_is_impossible_takes_no_place_in_the_beam() -> None:
    finished = [{"score": torch.tensor(-9.0)}]
    beam = _Beam.choose([-1.0, math.nan, -math.inf], [0, 0, 1], [7, 8, 9], finished, size=3)
    assert beam.places == [(0, 7, -1.0), finished[0]]
    nothing = _Beam.choose([math.nan, -math.inf], [0, 0], [7, 8], [], size=2)
    assert nothing.places == []
    assert nothing.best_is_finished(EOS)


# -- the statistics themselves --


def test_probabilities_are_relative_frequencies() -> None:
    statistics = LengthStatistics.count([(3, 2), (3, 2), (3, 5), (4, 1)])
    assert statistics.log_prob(3, 2) == pytest.approx(math.log(2 / 3))
    assert statistics.log_prob(3, 4) == -math.inf, "a target length never seen with this source length"
    assert statistics.log_prob(9, 4) == 0, "a source length never seen"


def test_smoothing_leaves_nothing_impossible() -> None:
    statistics = LengthStatistics({3: Counter({2: 2, 5: 1})}, smoothing=0.5)
    total = sum(math.exp(statistics.log_prob(3, length)) for length in range(6))
    assert total == pytest.approx(1)
    assert math.exp(statistics.log_prob(3, 2)) == pytest.approx(2.5 / 6)
    assert math.exp(statistics.log_prob(9, 2)) == pytest.approx(1 / 6)
    assert statistics.log_prob(3, 40) > -math.inf


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    statistics = LengthStatistics.count([(3, 2), (3, 2), (3, 5), (0, 1)])
    path = tmp_path / "lengths"
    path.write_text(statistics.write())
    assert LengthStatistics.read(path) == statistics


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it holds no lengths"),
        ("3\t4\n", "line 1: not two lengths"),
        ("3\t4\t1\n3\tx\t1\n", "line 2: not two lengths"),
        ("3\t4\t-1\n", "line 1: not two lengths"),
        ("3\t4\t" + "9" * 30, "line 1: not two lengths"),
        ("3\t4\t0\n", "line 1: lengths without pairs"),
        ("3\t4\t1\n3\t4\t2\n", "line 2: lengths without pairs, or lengths that an earlier line has"),
        ("\x00", "line 1: not two lengths"),
    ],
)
def test_malformed_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "lengths"
    path.write_text(text)
    with pytest.raises(InputError, match=f"{message}.*; write it by rnnsearch lengths"):
        LengthStatistics.read(path)


def test_a_missing_file_and_a_negative_smoothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--length-statistics .*nothing: cannot be read"):
        LengthStatistics.read(tmp_path / "nothing")
    with pytest.raises(InputError, match="--length-smoothing is -1"):
        LengthStatistics.read(tmp_path / "nothing", smoothing=-1)


@needs_tree2seq
def test_tokens_end_with_what_was_scored(original: Original) -> None:
    (hypotheses,) = search(original, original.described["dev"][:1], beam=3, max_len_b=2)
    assert all(len(h["tokens"]) == len(h["positional_scores"]) <= 2 for h in hypotheses)
    assert torch.tensor(EOS) not in hypotheses[0]["tokens"][:-1]


def test_an_ensemble_of_three_widths_averages_probabilities() -> None:
    models = [make_model(hidden_size=size) for size in (4, 6, 9)]
    sample = make_batch(SOURCES, TARGETS, TREES)
    generator = Tree2SeqSearch(models, models[0].decoder.dictionary, beam_size=3, max_len_b=6)
    for number, hypotheses in enumerate(generator.generate(models, sample)):
        tokens = hypotheses[0]["tokens"].tolist()
        alone = make_batch([SOURCES[number]], [tokens], [TREES[number]])
        probabilities = [torch.softmax(model(**alone["net_input"])[0][0], dim=-1) for model in models]
        mean = torch.stack(probabilities).mean(dim=0)[range(len(tokens)), tokens].log()
        torch.testing.assert_close(hypotheses[0]["positional_scores"], mean, **EXACT)
