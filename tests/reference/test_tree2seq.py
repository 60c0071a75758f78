"""The transcription of the tree-to-sequence model against numbers recorded from the original.

They are in ``shared/reference/tree2seq-model``: two models trained by the original C++ program, and what it says of
them (float64).
"""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.reference import tree2seq
from tests.reference.recorded import TREE2SEQ, needs_tree2seq
from tests.reference.tree2seq import Array

pytestmark = pytest.mark.slow
# Both sides are float64. What was measured: words, probes and scores of hypotheses 1.8e-14, sentence totals 2.9e-14,
# attention 8.4e-17, BlackOut losses 3.6e-15. The limits leave room for another machine's order of summation.
WORD_TOLERANCE = 1e-13
TOTAL_TOLERANCE = 5e-13
ATTENTION_TOLERANCE = 1e-15
# Finite differences of fourth order: 4.2e-11 was measured, for gradient entries of 3e-6 to 2.6.
GRADIENT_STEP = 1e-3
GRADIENT_TOLERANCE = 2e-10

SECTIONS = ("dev", "train40", "dev_failed_parse")


def recorded(name: str) -> Any:
    """The contents of a recorded JSON file."""
    return json.loads((TREE2SEQ / name).read_text(encoding="utf-8"))


def recorded_arrays(name: str) -> dict[str, Array]:
    """The arrays of a recorded npz file, without those that the C++ "allocates and dumps but never uses here"."""
    with np.load(TREE2SEQ / name) as arrays:
        return tree2seq.in_float64({name: arrays[name] for name in arrays.files if not name.startswith("unused.")})


def recorded_blackout() -> tuple[dict[str, Array], Array]:
    """The parameters of the BlackOut model, and the constant w = 1/Q from the same file."""
    params = recorded_arrays("blackout.npz")
    weights = params.pop("blackOut.distWeight")
    return params, weights


@needs_tree2seq
@pytest.mark.parametrize("blackout", [False, True])
def test_shapes_are_those_of_the_recorded_model(blackout: bool) -> None:
    config = recorded("blackout_gradcheck.json" if blackout else "softmax.json")["config"]
    data = recorded("softmax.json")
    params = recorded_blackout()[0] if blackout else recorded_arrays("softmax.npz")
    assert config["blackout"] == blackout
    expected = tree2seq.parameter_shapes(
        d=config["hidden"],
        m=config["embed"],
        n_source=len(data["src_vocab"]),
        n_target=len(data["tgt_vocab"]),
        blackout=blackout,
    )
    assert {name: array.shape for name, array in params.items()} == expected
    assert tree2seq.kind(params) == "tree"


@needs_tree2seq
@pytest.mark.parametrize("section", SECTIONS)
def test_scores_are_the_recorded_ones(section: str) -> None:
    params = recorded_arrays("softmax.npz")
    sentences = recorded("softmax.json")[section]
    assert len(sentences) == (40 if section == "train40" else 10)
    for sentence in sentences:
        assert (sentence["tree"] is None) == (section == "dev_failed_parse")
        word_log_probs, _ = tree2seq.score(params, sentence["src"], sentence["tree"], sentence["tgt"])
        np.testing.assert_allclose(word_log_probs, sentence["logprobs"], rtol=0, atol=WORD_TOLERANCE)
        assert word_log_probs.sum() == pytest.approx(sentence["total"], rel=0, abs=TOTAL_TOLERANCE)
        assert word_log_probs.sum() == pytest.approx(sentence["total_calcLoss"], rel=0, abs=TOTAL_TOLERANCE)


@needs_tree2seq
@pytest.mark.parametrize(("section", "count"), [("dev", 3), ("dev_failed_parse", 1)])
def test_attention_and_states_are_the_recorded_ones(section: str, count: int) -> None:
    params = recorded_arrays("softmax.npz")
    sentences = [sentence for sentence in recorded("softmax.json")[section] if "probe" in sentence]
    assert len(sentences) == count
    for sentence in sentences:
        encoding = tree2seq.encode(params, sentence["src"], sentence["tree"])
        decoding = tree2seq.decode(params, sentence["src"], sentence["tree"], sentence["tgt"])
        assert encoding.root is not None
        assert [list(span) for span in encoding.spans] == sentence["phrase_spans"]
        np.testing.assert_allclose(decoding.attention, sentence["attention"], rtol=0, atol=ATTENTION_TOLERANCE)

        states = {
            "h_word0": encoding.words[0].h,
            "h_eos": encoding.words[-1].h,
            "c_eos": encoding.words[-1].c,
            "h_root": encoding.root.h,
            "c_root": encoding.root.c,
            "s1": decoding.states[0].h,
            "c1": decoding.states[0].c,
            "d1": decoding.contexts[0],
            "s_tilde1": decoding.s_tilde[0],
        }
        assert set(states) == set(sentence["probe"])
        for name, state in states.items():
            np.testing.assert_allclose(state, sentence["probe"][name], rtol=0, atol=WORD_TOLERANCE, err_msg=name)


@needs_tree2seq
@pytest.mark.parametrize("blackout", [False, True])
def test_development_loss_is_that_of_the_last_epoch(blackout: bool) -> None:
    """Also for BlackOut: "Development perplexity and decoding use the full softmax over the same weights."."""
    params = recorded_blackout()[0] if blackout else recorded_arrays("softmax.npz")
    epoch = recorded("blackout_gradcheck.json" if blackout else "softmax.json")["epochs"][-1]
    loss, words = 0.0, 0
    for sentence in recorded("softmax.json")["dev"]:
        loss -= tree2seq.score(params, sentence["src"], sentence["tree"], sentence["tgt"])[0].sum()
        words += len(sentence["tgt"])  # end-of-sentence included
    assert loss == pytest.approx(epoch["dev_loss_total"], rel=0, abs=10 * TOTAL_TOLERANCE)
    assert math.exp(loss / words) == pytest.approx(epoch["dev_ppl"], rel=1e-13)


@needs_tree2seq
@pytest.mark.parametrize("section", ["dev", "dev_failed_parse"])
def test_greedy_translations_are_the_recorded_ones(section: str) -> None:
    params = recorded_arrays("softmax.npz")
    data = recorded("softmax.json")
    eos = data["tgt_eos"]
    for sentence in data[section]:
        words, total = tree2seq.greedy(params, sentence["src"], sentence["tree"], eos)
        assert words == [*sentence["greedy"], eos]
        (expected,) = sentence["greedy_scored"]
        assert [data["tgt_vocab"][word] for word in words] == expected["text"].split()
        assert total == pytest.approx(expected["score"], rel=0, abs=WORD_TOLERANCE)


@needs_tree2seq
@pytest.mark.parametrize("section", ["dev", "dev_failed_parse"])
def test_beam_translations_are_the_recorded_ones(section: str) -> None:
    """All five hypotheses, also unfinished ones, with their scores and in their order."""
    params = recorded_arrays("softmax.npz")
    data = recorded("softmax.json")
    eos = data["tgt_eos"]
    unfinished = 0
    for sentence in data[section]:
        hypotheses = tree2seq.beam_search(params, sentence["src"], sentence["tree"], 5, eos)
        assert hypotheses[0][0] == [*sentence["beam5"], eos]
        texts = [[data["tgt_vocab"][word] for word in words] for words, _ in hypotheses]
        assert texts == [expected["text"].split() for expected in sentence["beam5_nbest"]]
        scores = [total for _, total in hypotheses]
        expected_scores = [expected["score"] for expected in sentence["beam5_nbest"]]
        np.testing.assert_allclose(scores, expected_scores, rtol=0, atol=WORD_TOLERANCE)
        unfinished += sum(words[-1] != eos for words, _ in hypotheses)
    assert unfinished > 0


@needs_tree2seq
def test_sampling_weights_are_the_recorded_ones() -> None:
    """With the unknown word at the mass of all rare words, and end-of-sentence at the number of sentences."""
    data = recorded("blackout_gradcheck.json")
    _, weights = recorded_blackout()
    assert data["tgt_counts"][data["tgt_eos"]] == 500
    np.testing.assert_allclose(tree2seq.sampling_weights(data["tgt_counts"]), weights, rtol=1e-14)


@needs_tree2seq
def test_recorded_samples_are_such_as_the_table_gives() -> None:
    data = recorded("blackout_gradcheck.json")
    table = set(tree2seq.sampling_table(data["tgt_counts"]))
    q = tree2seq.sampling_distribution(data["tgt_counts"])
    negatives, duplicates = [], 0
    for sentence in data["grad_check"]["blackout_samples"]:
        for gold, *drawn in sentence:
            assert len(drawn) == data["config"]["K"]
            assert gold not in drawn
            assert set(drawn) <= table
            negatives += drawn
            duplicates += len(set(drawn)) < len(drawn)
    assert duplicates > 0

    # The mean of log Q over the negatives is within four standard deviations of its expectation under Q, which the
    # absence of the gold word and the table's rounding hardly change. With count^0.3 or ^0.5 it would be 11 away.
    logs = np.log(q)
    mean = (q * logs).sum()
    deviation = math.sqrt((q * (logs - mean) ** 2).sum() / len(negatives))
    assert abs(logs[negatives].mean() - mean) < 4 * deviation


def training_sentences(indices: Sequence[int]) -> list[dict[str, Any]]:
    sentences = recorded("train_ids.json")
    return [sentences[i] for i in indices]


@needs_tree2seq
def test_losses_are_the_recorded_ones() -> None:
    check = recorded("softmax.json")["grad_check"]
    params = recorded_arrays("softmax.npz")
    assert len(check["loss"]) == 4
    for sentence, expected in zip(training_sentences(check["sentences"]), check["loss"]):
        loss = -tree2seq.score(params, sentence["src"], sentence["tree"], sentence["tgt"])[0].sum()
        assert loss == pytest.approx(expected, rel=0, abs=TOTAL_TOLERANCE)

    check = recorded("blackout_gradcheck.json")["grad_check"]
    params, weights = recorded_blackout()
    sentences = training_sentences(check["sentences"])
    assert len(check["loss"]) == len(check["blackout_samples"]) == 4
    for sentence, samples, expected in zip(sentences, check["blackout_samples"], check["loss"]):
        loss = tree2seq.blackout_loss(params, sentence["src"], sentence["tree"], sentence["tgt"], samples, weights)
        assert loss == pytest.approx(expected, rel=0, abs=TOTAL_TOLERANCE)


def derivative(f: Callable[[float], float]) -> float:
    """f'(0), by central differences of fourth order."""
    x = GRADIENT_STEP
    return (8 * (f(x) - f(-x)) - (f(2 * x) - f(-2 * x))) / (12 * x)


@needs_tree2seq
@pytest.mark.parametrize("blackout", [False, True])
def test_gradients_are_the_recorded_ones(blackout: bool) -> None:
    """One random entry with a nonzero gradient of every parameter."""
    check = recorded("blackout_gradcheck.json" if blackout else "softmax.json")["grad_check"]
    sentences = training_sentences(check["sentences"])
    gradients = recorded_arrays("blackout_grad.npz" if blackout else "softmax_grad.npz")
    if blackout:
        params, weights = recorded_blackout()
    else:
        params, weights = recorded_arrays("softmax.npz"), np.zeros(0)
    assert set(gradients) == set(params)

    def loss(changed: dict[str, Array]) -> float:
        """README: "the loss SUMMED over the first four training sentences"."""
        total = 0.0
        for i, sentence in enumerate(sentences):
            src, tree, tgt = sentence["src"], sentence["tree"], sentence["tgt"]
            if blackout:
                total += tree2seq.blackout_loss(changed, src, tree, tgt, check["blackout_samples"][i], weights)
            else:
                total -= tree2seq.score(changed, src, tree, tgt)[0].sum()
        return float(total)

    rng = np.random.default_rng(7)
    for name, gradient in gradients.items():
        entries = np.argwhere(gradient != 0.0)
        entry = tuple(entries[rng.integers(len(entries))])

        def moved(x: float, name: str = name, entry: tuple[int, ...] = entry) -> float:
            array = params[name].copy()
            array[entry] += x
            return loss({**params, name: array})

        assert derivative(moved) == pytest.approx(gradient[entry], rel=0, abs=GRADIENT_TOLERANCE), (name, entry)
