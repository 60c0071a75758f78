"""Checks of the transcription of the tree-to-sequence model, against the original's own numbers and by hand.

The first half needs ``shared/reference/tree2seq-model``: two models trained by the original C++ program and what it
says of them (float64). The second half needs nothing: models so small or so plain that the answer can be worked out.
"""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.reference import tree2seq
from tests.reference.recorded import TREE2SEQ, needs_tree2seq
from tests.reference.tree2seq import Array, Hypothesis, Kind, LengthStatistics, State, Tree

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
    """What is in a JSON file of theirs."""
    return json.loads((TREE2SEQ / name).read_text(encoding="utf-8"))


def recorded_arrays(name: str) -> dict[str, Array]:
    """What is in an npz file of theirs, without the matrices that the C++ "allocates and dumps but never uses here"."""
    with np.load(TREE2SEQ / name) as arrays:
        return tree2seq.in_float64({name: arrays[name] for name in arrays.files if not name.startswith("unused.")})


def recorded_blackout() -> tuple[dict[str, Array], Array]:
    """The parameters of the BlackOut model, and w = 1/Q, a constant that is beside them in the file."""
    params = recorded_arrays("blackout.npz")
    weights = params.pop("blackOut.distWeight")
    return params, weights


# ---------------------------------------------------------------------------------------------------------------------
# Against the original's own numbers
# ---------------------------------------------------------------------------------------------------------------------


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
    """For BlackOut as well: "Development perplexity and decoding use the full softmax over the same weights."."""
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
    """All five hypotheses, unfinished ones too, with their scores and in their order."""
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

    # The mean of log Q over the negatives, against its expectation under Q (which the gold word's absence and the
    # table's rounding hardly change) and four standard deviations of it. Under count^0.3 or ^0.5 it is 11 of them away.
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
    """One entry of every parameter, of those whose gradient is not zero, drawn at random."""
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


# ---------------------------------------------------------------------------------------------------------------------
# By hand: the model
# ---------------------------------------------------------------------------------------------------------------------

TINY = {"d": 4, "m": 3, "n_source": 7, "n_target": 5}  # four sizes that cannot be taken for one another
KINDS: tuple[Kind, ...] = ("tree", "sequential", "embedding_leaves", "unit_leaves")
SRC = [3, 5, 0, 2, 4, 6]  # 6 ends the sentence
TREE: Tree = [[0, 1], [2, 3]]  # word 4 is the final punctuation
TGT = [2, 0, 4]


def tiny_parameters(kind: Kind = "tree", seed: int = 1, blackout: bool = False, **sizes: int) -> dict[str, Array]:
    sizes = {**TINY, **({"m": 4} if kind == "embedding_leaves" else {}), **sizes}
    return tree2seq.random_parameters(np.random.default_rng(seed), **sizes, kind=kind, blackout=blackout)


def tree_of(kind: Kind) -> Tree | None:
    return None if kind == "sequential" else TREE


def logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def assert_states(actual: State, expected: State) -> None:
    np.testing.assert_allclose(actual.h, expected.h, rtol=0, atol=1e-14)
    np.testing.assert_allclose(actual.c, expected.c, rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("blackout", [False, True])
def test_random_parameters(kind: Kind, blackout: bool) -> None:
    params = tiny_parameters(kind, blackout=blackout)
    m = 4 if kind == "embedding_leaves" else 3
    shapes = tree2seq.parameter_shapes(**{**TINY, "m": m}, kind=kind, blackout=blackout)
    assert {name: array.shape for name, array in params.items()} == shapes
    assert all(np.abs(array).min() > 0 for array in params.values())
    assert tree2seq.kind(params) == kind


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        # Embeddings 3·7 + 3·5; an LSTM gate 4·3 + 4·4 + 4 = 32, with input feeding 48; a Tree-LSTM gate 2·16 + 4 = 36;
        # s~ 2·16 + 4; output 4·5 + 5.
        ("tree", 36 + 4 * 32 + 2 * 5 * 36 + 4 * 48 + 36 + 25),
        ("sequential", 36 + 4 * 32 + 4 * 48 + 36 + 25),
        ("unit_leaves", 36 + 3 * 12 + 2 * 5 * 36 + 4 * 48 + 36 + 25),
        ("embedding_leaves", 48 + 2 * 5 * 36 + 4 * 52 + 36 + 25),  # with m = 4
    ],
)
def test_parameter_counts(kind: Kind, count: int) -> None:
    assert sum(array.size for array in tiny_parameters(kind).values()) == count


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parsed", [True, False])
def test_probabilities_sum_to_one(kind: Kind, parsed: bool) -> None:
    params = tiny_parameters(kind)
    tree = tree_of(kind) if parsed else None
    for j in range(len(TGT)):
        total = 0.0
        for word in range(TINY["n_target"]):
            word_log_probs, attention = tree2seq.score(params, SRC, tree, [*TGT[:j], word])
            total += np.exp(word_log_probs[-1])
        assert total == pytest.approx(1.0, abs=1e-12)
        assert attention.shape == (j + 1, len(SRC) + (0 if tree is None else 3))
        assert attention.min() > 0
        np.testing.assert_allclose(attention.sum(axis=1), 1.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_has_a_part(kind: Kind) -> None:
    """But one: where leaves have no cell, the start has nothing to forget of its left child, end-of-sentence."""
    params = tiny_parameters(kind)
    before, _ = tree2seq.score(params, SRC, tree_of(kind), TGT)
    for name in params:
        changed = {**params, name: params[name] * 1.5}
        after, _ = tree2seq.score(changed, SRC, tree_of(kind), TGT)
        if kind == "embedding_leaves" and name in ("initDecTree.WhflL", "initDecTree.WhflR", "initDecTree.bfl"):
            assert after[-1] == before[-1], name
        else:
            assert abs(after[-1] - before[-1]) > 1e-6, name


def test_no_word_before_the_first() -> None:
    """First word: "s_1 predicts y_1 directly: no begin-of-sentence embedding is consumed"."""
    params = tiny_parameters()
    before, _ = tree2seq.score(params, SRC, TREE, TGT)
    for name in params:
        if name == "targetEmbed" or name.startswith("dec."):
            changed = {**params, name: params[name] + 1.0}
            after, _ = tree2seq.score(changed, SRC, TREE, TGT)
            assert after[0] == before[0], name
            assert abs(after[1] - before[1]) > 1e-6, name


def test_encoder_step_of_scalars() -> None:
    """The encoder's "c = i∘u + f∘c_prev; h = o∘tanh(c)", with d = m = 1 and every weight another number."""
    params = {"sourceEmbed": np.array([[9.0, 0.5]])}
    for g, (w_x, w_h, b) in {
        "i": (0.1, 0.2, 0.3),
        "f": (0.4, -0.5, 0.6),
        "o": (-0.7, 0.8, 0.9),
        "u": (1, 2, -1),
    }.items():
        params |= {f"enc.Wx{g}": np.array([[w_x]]), f"enc.Wh{g}": np.array([[w_h]]), f"enc.b{g}": np.array([b])}
    state = tree2seq.encoder_step(params, State(np.array([0.25]), np.array([-2.0])), word=1)
    i = logistic(0.1 * 0.5 + 0.2 * 0.25 + 0.3)
    f = logistic(0.4 * 0.5 - 0.5 * 0.25 + 0.6)
    o = logistic(-0.7 * 0.5 + 0.8 * 0.25 + 0.9)
    u = math.tanh(0.5 + 2 * 0.25 - 1)
    c = i * u + f * -2.0
    assert_states(state, State(np.array([o * math.tanh(c)]), np.array([c])))


def test_tree_lstm_of_scalars() -> None:
    """The ten matrices: "each forget gate sees both children", and multiplies its own child's cell."""
    weights = {  # of h_left, of h_right, bias
        "i": (0.1, 0.2, 0.3),
        "fl": (0.4, -0.5, 0.6),
        "fr": (-0.7, 0.8, 0.9),
        "o": (1.1, -1.2, 0.2),
        "u": (0.3, 1.4, -0.1),
    }
    params = {}
    for g, (w_left, w_right, b) in weights.items():
        params |= {f"encTree.Wh{g}L": np.array([[w_left]]), f"encTree.Wh{g}R": np.array([[w_right]])}
        params |= {f"encTree.b{g}": np.array([b])}
    left, right = State(np.array([0.5]), np.array([2.0])), State(np.array([-0.25]), np.array([-3.0]))
    i = logistic(0.1 * 0.5 + 0.2 * -0.25 + 0.3)
    f_left = logistic(0.4 * 0.5 - 0.5 * -0.25 + 0.6)
    f_right = logistic(-0.7 * 0.5 + 0.8 * -0.25 + 0.9)
    o = logistic(1.1 * 0.5 - 1.2 * -0.25 + 0.2)
    u = math.tanh(0.3 * 0.5 + 1.4 * -0.25 - 0.1)
    c = i * u + f_left * 2.0 + f_right * -3.0
    node = tree2seq.tree_lstm(params, "encTree", left, right)
    assert_states(node, State(np.array([o * math.tanh(c)]), np.array([c])))


def test_phrases_are_in_pre_order() -> None:
    params = tiny_parameters()
    encoding = tree2seq.encode(params, SRC, [[0, [1, 2]], [3, 4]])
    words = encoding.words
    assert encoding.spans == [(0, 5), (0, 3), (1, 3), (3, 5)]

    inner = tree2seq.tree_lstm(params, "encTree", words[1], words[2])
    left = tree2seq.tree_lstm(params, "encTree", words[0], inner)
    right = tree2seq.tree_lstm(params, "encTree", words[3], words[4])
    root = tree2seq.tree_lstm(params, "encTree", left, right)
    for actual, expected in zip(encoding.phrases, [root, left, inner, right]):
        assert_states(actual, expected)
    assert encoding.root is not None
    assert_states(encoding.root, root)
    assert encoding.keys.shape == (6 + 4, TINY["d"])
    np.testing.assert_array_equal(encoding.keys[5], words[5].h)
    np.testing.assert_array_equal(encoding.keys[6], root.h)


def test_n_leaves_give_n_minus_1_phrases() -> None:
    params = tiny_parameters()
    src = [*range(6), *range(6), 6]
    tree: Tree = 0
    for leaf in range(1, 11):
        tree = [tree, leaf]
        encoding = tree2seq.encode(params, src, tree)
        assert len(encoding.phrases) == len(encoding.spans) == leaf
        assert encoding.spans == [(0, last) for last in range(leaf + 1, 1, -1)]


def test_words_are_encoded_forward_only() -> None:
    """The states of words up to one that changes stay; those after it do not; nor does any phrase it is in."""
    params = tiny_parameters()
    before = tree2seq.encode(params, SRC, TREE)
    after = tree2seq.encode(params, [3, 5, 1, 2, 4, 6], TREE)
    same = [np.array_equal(a.h, b.h) for a, b in zip(before.words, after.words)]
    assert same == [True, True, False, False, False, False]
    same = [np.array_equal(a.h, b.h) for a, b in zip(before.phrases, after.phrases)]
    assert same == [False, True, False]


def test_failed_parse() -> None:
    """What is left of the tree: "Failed parse: root h = c = 0, no phrase nodes"."""
    params = tiny_parameters()
    encoding = tree2seq.encode(params, SRC, None)
    zero = State(np.zeros(4), np.zeros(4))
    assert (encoding.phrases, encoding.spans) == ([], [])
    assert encoding.root is not None
    assert_states(encoding.root, zero)
    assert encoding.keys.shape == (len(SRC), 4)
    for word, expected in zip(encoding.words, tree2seq.encode(params, SRC, TREE).words):
        assert_states(word, expected)

    # Still the second Tree-LSTM, of which the right child's matrices have no part; and none of the first.
    decoding = tree2seq.decode(params, SRC, None, TGT)
    assert_states(decoding.states[0], tree2seq.tree_lstm(params, "initDecTree", encoding.words[-1], zero))
    assert decoding.attention.shape == (len(TGT), len(SRC))
    for name in params:
        if name.startswith("encTree.") or (name.startswith("initDecTree.") and name.endswith("R")):
            changed = {**params, name: params[name] + 1.0}
            np.testing.assert_array_equal(tree2seq.decode(changed, SRC, None, TGT).log_probs, decoding.log_probs)


def test_single_leaf() -> None:
    """No phrase node; the root is that leaf's state, and this is not a failed parse."""
    params = tiny_parameters()
    src = [3, 4, 6]
    encoding = tree2seq.encode(params, src, 0)
    assert (encoding.phrases, encoding.spans) == ([], [])
    assert encoding.root is not None
    assert_states(encoding.root, encoding.words[0])
    assert encoding.keys.shape == (3, 4)
    decoding = tree2seq.decode(params, src, 0, TGT)
    assert_states(decoding.states[0], tree2seq.tree_lstm(params, "initDecTree", encoding.words[2], encoding.words[0]))
    assert np.abs(decoding.log_probs - tree2seq.decode(params, src, None, TGT).log_probs).max() > 1e-3


def test_what_is_no_tree() -> None:
    params = tiny_parameters()
    for tree, message in [
        ([0, 5], "no word 5 that can be a leaf"),  # end-of-sentence
        ([0, -1], "no word -1"),
        ([0, [1]], "two children, not 1"),
        ([0, 1, 2], "two children, not 3"),
        ([1, 0], "not side by side"),
        ([0, 2], "not side by side"),
    ]:
        with pytest.raises(ValueError, match=message):
            tree2seq.encode(params, SRC, tree)
    with pytest.raises(ValueError, match="no use for a tree"):
        tree2seq.encode(tiny_parameters("sequential"), SRC, TREE)
    with pytest.raises(ValueError, match="not even an end-of-sentence"):
        tree2seq.encode(params, [], None)


def test_sequential_baseline() -> None:
    """What ANMT is: "the same without the tree; s_1 = (h_n, c_n)", the state at end-of-sentence."""
    full = tiny_parameters()
    params = {name: array for name, array in full.items() if "Tree." not in name}
    assert tree2seq.kind(params) == "sequential"
    encoding = tree2seq.encode(params, SRC, None)
    decoding = tree2seq.decode(params, SRC, None, TGT)
    assert_states(decoding.states[0], encoding.words[-1])
    for word, expected in zip(encoding.words, tree2seq.encode(full, SRC, TREE).words):
        assert_states(word, expected)

    # Where the second Tree-LSTM copies its left child's cell, the full model with a failed parse has the same c_1.
    opened = {name: np.zeros_like(array) for name, array in full.items() if name.startswith("initDecTree.")}
    opened |= {"initDecTree.bfl": np.full(4, 50.0), "initDecTree.bo": np.full(4, 50.0)}
    copied = tree2seq.decode({**full, **opened}, SRC, None, TGT).states[0]
    np.testing.assert_allclose(copied.c, decoding.states[0].c, rtol=0, atol=1e-14)
    np.testing.assert_allclose(copied.h, np.tanh(decoding.states[0].c), rtol=0, atol=1e-14)


def test_reversed_source() -> None:
    assert tree2seq.reverse_source([3, 5, 0, 6]) == [0, 5, 3, 6]
    assert tree2seq.reverse_source([6]) == [6]
    params = tiny_parameters("sequential")
    forward = tree2seq.score(params, SRC, None, TGT)[0]
    backward = tree2seq.score(params, tree2seq.reverse_source(SRC), None, TGT)[0]
    assert np.abs(forward - backward).min() > 1e-6


def test_ablation_leaves() -> None:
    """A word's state is of the word alone. In the one reading it is the embedding; in the other, a Tree-LSTM unit."""
    params = tiny_parameters("embedding_leaves")
    for word, state in zip(SRC, tree2seq.encode(params, SRC, TREE).words):
        assert_states(state, State(params["sourceEmbed"][:, word], np.zeros(4)))
    with pytest.raises(ValueError, match="size 3 is no hidden state of size 4"):
        tree2seq.parameter_shapes(**TINY, kind="embedding_leaves")

    params = tiny_parameters("unit_leaves")
    encoding = tree2seq.encode(params, SRC, TREE)
    for word, state in zip(SRC, encoding.words):
        for k in range(TINY["d"]):
            a = {}
            for g in "iou":
                a[g] = params[f"encTree.b{g}"][k]
                for e in range(TINY["m"]):
                    a[g] += params[f"encTree.Wx{g}"][k, e] * params["sourceEmbed"][e, word]
            c = logistic(a["i"]) * math.tanh(a["u"])
            assert state.c[k] == pytest.approx(c, abs=1e-14)
            assert state.h[k] == pytest.approx(logistic(a["o"]) * math.tanh(c), abs=1e-14)
    assert_states(encoding.phrases[1], tree2seq.tree_lstm(params, "encTree", encoding.words[0], encoding.words[1]))


def test_attention_by_hand() -> None:
    """Products log 1, log 2 and log 5: the weights are one, two and five eighths."""
    keys = np.array([[0.0, 7.0], [math.log(2.0), -1.0], [math.log(5.0), 3.0]])
    alpha, context = tree2seq.attend(np.array([1.0, 0.0]), keys)
    np.testing.assert_allclose(alpha, [0.125, 0.25, 0.625], rtol=0, atol=1e-14)
    np.testing.assert_allclose(
        context, [0.25 * math.log(2.0) + 0.625 * math.log(5.0), 0.125 * 7 - 0.25 + 0.625 * 3], rtol=0, atol=1e-14
    )
    alpha, _ = tree2seq.attend(np.array([1000.0, 0.0]), keys)  # does not overflow
    np.testing.assert_allclose(alpha, [0.0, 0.0, 1.0], rtol=0, atol=1e-14)


def test_two_decoder_steps_written_out() -> None:
    """Input feeding: s_2 is of y_1, (s_1, c_1) and s~_1; then s~_2 is of s_2 and d_2, and p(y_2) of s~_2."""
    params = tiny_parameters()
    decoding = tree2seq.decode(params, SRC, TREE, TGT)
    keys = tree2seq.encode(params, SRC, TREE).keys
    s_1, s_2 = decoding.states[0], decoding.states[1]

    word_and_attention = np.concatenate([params["targetEmbed"][:, TGT[0]], decoding.s_tilde[0]])  # README: [y; s~]
    a = {}
    for g in "ifou":
        w = np.concatenate([params[f"dec.Wx{g}"], params[f"dec.Wa{g}"]], axis=1)  # README: "the W is [Wx, Wa]"
        a[g] = w @ word_and_attention + params[f"dec.Wh{g}"] @ s_1.h + params[f"dec.b{g}"]
    gate = {g: 1.0 / (1.0 + np.exp(-a[g])) for g in "ifo"}
    c = gate["i"] * np.tanh(a["u"]) + gate["f"] * s_1.c
    assert_states(s_2, State(gate["o"] * np.tanh(c), c))

    alpha = np.exp(keys @ s_2.h) / np.exp(keys @ s_2.h).sum()
    np.testing.assert_allclose(decoding.attention[1], alpha, rtol=0, atol=1e-14)
    np.testing.assert_allclose(decoding.contexts[1], alpha @ keys, rtol=0, atol=1e-14)
    w_d = np.concatenate([params["Wst"], params["Wct"]], axis=1)
    s_tilde = np.tanh(w_d @ np.concatenate([s_2.h, alpha @ keys]) + params["bs"])
    np.testing.assert_allclose(decoding.s_tilde[1], s_tilde, rtol=0, atol=1e-14)
    z = s_tilde @ params["softmax.weight"] + params["softmax.bias"]
    np.testing.assert_allclose(np.exp(decoding.log_probs[1]), np.exp(z) / np.exp(z).sum(), rtol=0, atol=1e-14)


def test_output_weights_of_zero() -> None:
    """With "softmax and BlackOut weights 0", as at the start, every word has the same probability."""
    for output in ("softmax", "blackOut"):
        params = tiny_parameters(blackout=output == "blackOut")
        params = {**params, f"{output}.weight": np.zeros((4, 5)), f"{output}.bias": np.zeros(5)}
        word_log_probs, _ = tree2seq.score(params, SRC, TREE, TGT)
        np.testing.assert_allclose(word_log_probs, -math.log(5), rtol=0, atol=1e-14)


def test_float32_parameters_are_computed_with_in_float64() -> None:
    params = {name: array.astype(np.float32) for name, array in tiny_parameters().items()}
    word_log_probs, _ = tree2seq.score(params, SRC, TREE, TGT)
    expected, _ = tree2seq.score(tree2seq.in_float64(params), SRC, TREE, TGT)
    np.testing.assert_array_equal(word_log_probs, expected)
    assert word_log_probs.dtype == np.float64


# ---------------------------------------------------------------------------------------------------------------------
# By hand: BlackOut
# ---------------------------------------------------------------------------------------------------------------------

COUNTS = [1, 32, 243]  # to the power of 0.4: 1, 4, 9


def test_sampling_distribution_and_table() -> None:
    np.testing.assert_allclose(tree2seq.sampling_distribution(COUNTS), [1 / 14, 4 / 14, 9 / 14], rtol=1e-14)
    np.testing.assert_allclose(tree2seq.sampling_weights(COUNTS), [14, 14 / 4, 14 / 9], rtol=1e-14)
    np.testing.assert_allclose(tree2seq.sampling_distribution(COUNTS, beta=0.0), 1 / 3, rtol=1e-14)
    np.testing.assert_allclose(tree2seq.sampling_distribution(COUNTS, beta=1.0), np.array(COUNTS) / 276, rtol=1e-14)
    # 276 / 14 = 19.7; four times that is 78.9, nine times 177.4: each is rounded down.
    assert tree2seq.sampling_table(COUNTS) == [0] * 19 + [1] * 78 + [2] * 177


def test_drawn_samples() -> None:
    rng = np.random.default_rng(3)
    table = tree2seq.sampling_table(COUNTS)
    samples = tree2seq.draw_samples(rng, table, gold=2, k=20_000)
    assert samples[0] == 2
    assert len(samples) == 20_001
    assert set(samples[1:]) == {0, 1}
    # What is left of the table is 19 and 78 of 97; four standard deviations.
    p = 19 / 97
    assert abs(samples.count(0) - 20_000 * p) < 4 * math.sqrt(20_000 * p * (1 - p))
    with pytest.raises(ValueError, match="nothing but the gold word"):
        tree2seq.draw_samples(rng, [2, 2, 2], gold=2, k=1)


def test_blackout_loss_of_a_word_by_hand() -> None:
    """Numerators 8 (gold), 4 and 4: p~ is 1/2, 1/4, 1/4, so the loss is log 2 + 2 log(4/3)."""
    z = np.array([math.log(2.0), math.log(0.5), 100.0, 0.0])
    weights = np.array([4.0, 8.0, 1.0, 4.0])
    expected = math.log(2) + 2 * math.log(4 / 3)
    assert tree2seq.blackout_token_loss(z, [0, 1, 3], weights) == pytest.approx(expected, abs=1e-14)
    # A duplicate counts twice: 8, 4, 4, 4.
    expected = -math.log(0.4) - 3 * math.log(0.8)
    assert tree2seq.blackout_token_loss(z, [0, 1, 3, 3], weights) == pytest.approx(expected, abs=1e-14)
    # Only the ratios of the weights matter, and only the differences of the scores, however great.
    loss = tree2seq.blackout_token_loss(z + 1000.0, [0, 1, 3, 3], 0.01 * weights)
    assert loss == pytest.approx(expected, abs=1e-12)


def test_blackout_loss_of_a_sentence() -> None:
    params = tiny_parameters(blackout=True)
    weights = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    samples = [[2, 1, 3], [0, 4, 4], [4, 0, 2]]
    log_probs = tree2seq.decode(params, SRC, TREE, TGT).log_probs
    expected = sum(tree2seq.blackout_token_loss(log_probs[j], samples[j], weights) for j in range(3))
    loss = tree2seq.blackout_loss(params, SRC, TREE, TGT, samples, weights)
    assert loss == pytest.approx(expected, abs=1e-12)
    # With one negative, the other word of a vocabulary of two, and equal weights: twice the softmax's loss.
    params = tiny_parameters(blackout=True, n_target=2)
    loss = tree2seq.blackout_loss(params, SRC, TREE, [0, 1], [[0, 1], [1, 0]], np.ones(2))
    assert loss == pytest.approx(-2 * tree2seq.score(params, SRC, TREE, [0, 1])[0].sum(), abs=1e-12)
    with pytest.raises(ValueError, match="begin with that word"):
        tree2seq.blackout_loss(params, SRC, TREE, [0, 1], [[0, 1], [0, 1]], np.ones(2))


# ---------------------------------------------------------------------------------------------------------------------
# By hand: the search
# ---------------------------------------------------------------------------------------------------------------------

SHORT = [3, 5, 6]  # two words and end-of-sentence


def constant_model(probabilities: Sequence[float]) -> dict[str, Array]:
    """A model that gives the words these probabilities whatever it has read: all parameters zero, but the last bias."""
    sizes = {**TINY, "n_target": len(probabilities)}
    params = {name: np.zeros(shape) for name, shape in tree2seq.parameter_shapes(**sizes).items()}
    with np.errstate(divide="ignore"):
        params["softmax.bias"] = np.log(np.array(probabilities))
    return params


def assert_hypotheses(hypotheses: list[Hypothesis], expected: list[tuple[list[int], float]]) -> None:
    """The same words in the same order, and the same scores; ``expected`` has the probability in place of the score."""
    assert [words for words, _ in hypotheses] == [words for words, _ in expected]
    for (_, total), (_, probability) in zip(hypotheses, expected):
        assert total == pytest.approx(math.log(probability), abs=1e-12)


def search_from_scratch(
    params: dict[str, Array],
    src: list[int],
    tree: Tree | None,
    beam: int,
    eos: int,
    max_words: int,
    statistics: LengthStatistics | None,
) -> tuple[list[Hypothesis], bool]:
    """The same search over whole sentences, each scored from its first word by ``score``.

    And whether any finished hypothesis lost its place to others.
    """
    kept: list[Hypothesis] = [([], 0.0)]
    crowded_out = False
    for _ in range(max_words):
        candidates: list[Hypothesis] = []
        for words, total in kept:
            if words[-1:] == [eos]:
                candidates.append((words, total))
                continue
            for word in range(params["targetEmbed"].shape[1]):
                total = float(tree2seq.score(params, src, tree, [*words, word])[0].sum())
                if word == eos and statistics is not None and len(src) - 1 in statistics:
                    seen = statistics[len(src) - 1]
                    if len(words) not in seen:
                        continue
                    total += math.log(seen[len(words)]) - math.log(sum(seen.values()))
                candidates.append(([*words, word], total))
        candidates.sort(key=lambda candidate: candidate[1], reverse=True)
        ends = [words for words, _ in kept if words[-1:] == [eos]]
        kept = candidates[:beam]
        crowded_out = crowded_out or any(words not in [words for words, _ in kept] for words in ends)
        if kept[0][0][-1] == eos:
            break
    return kept, crowded_out


@pytest.mark.parametrize("statistics", [None, {2: {1: 2, 3: 4, 4: 1}, 3: {0: 1}}, {1: {1: 1}, 3: {0: 1}}])
def test_search_finds_what_scoring_from_scratch_finds(statistics: LengthStatistics | None) -> None:
    crowded_out = False
    for seed in range(6):
        params = tiny_parameters(seed=seed)
        params["softmax.weight"] = 3.0 * params["softmax.weight"]
        for beam in (1, 2, 3, 40):
            found = tree2seq.beam_search(params, SHORT, [0, 1], beam, 4, max_words=4, statistics=statistics)
            expected, crowded = search_from_scratch(params, SHORT, [0, 1], beam, 4, 4, statistics)
            assert [words for words, _ in found] == [words for words, _ in expected]
            np.testing.assert_allclose([total for _, total in found], [total for _, total in expected], atol=1e-12)
            crowded_out = crowded_out or crowded
    assert crowded_out or statistics is not None


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_is_a_beam_of_one(kind: Kind) -> None:
    lengths = set()
    for seed in range(20):
        params = tiny_parameters(kind, seed=seed)
        words, total = tree2seq.greedy(params, SRC, tree_of(kind), eos=1, max_words=6)
        ((expected_words, expected_total),) = tree2seq.beam_search(params, SRC, tree_of(kind), 1, eos=1, max_words=6)
        assert words == expected_words
        assert total == pytest.approx(expected_total, abs=1e-12)
        assert total == pytest.approx(tree2seq.score(params, SRC, tree_of(kind), words)[0].sum(), abs=1e-12)
        lengths.add(len(words))
    assert len(lengths) > 1


def test_the_finished_keep_their_slot_and_the_best_ends_the_search() -> None:
    """Words of .6 and end-of-sentence at .4: the end is second at first, and then first, before the second word."""
    params = constant_model([0.6, 0.4])
    hypotheses = tree2seq.beam_search(params, SHORT, None, 2, eos=1)
    assert_hypotheses(hypotheses, [([1], 0.4), ([0, 0], 0.36)])
    # A third place is the next end's; there is no fourth continuation.
    hypotheses = tree2seq.beam_search(params, SHORT, None, 4, eos=1)
    assert_hypotheses(hypotheses, [([1], 0.4), ([0, 0], 0.36), ([0, 1], 0.24)])
    # The greedy search never ends by itself.
    assert_hypotheses([tree2seq.greedy(params, SHORT, None, eos=1)], [([0] * 50, 0.6**50)])


def test_the_search_goes_on_until_the_best_is_finished() -> None:
    """The end is in the beam from the first step on, and the best at the 27th: .9^26 > .06 > .9^27."""
    params = constant_model([0.9, 0.06, 0.04])
    hypotheses = tree2seq.beam_search(params, SHORT, None, 2, eos=1)
    assert_hypotheses(hypotheses, [([1], 0.06), ([0] * 27, 0.9**27)])
    hypotheses = tree2seq.beam_search(params, SHORT, None, 2, eos=1, max_words=26)
    assert_hypotheses(hypotheses, [([0] * 26, 0.9**26), ([1], 0.06)])


def test_the_longest_translation() -> None:
    """Likelier words than the end, and only one place: ``max_words`` steps, nothing finished."""
    params = constant_model([0.5, 0.4, 0.1])
    assert_hypotheses(tree2seq.beam_search(params, SHORT, None, 1, eos=2), [([0] * 50, 0.5**50)])
    hypotheses = tree2seq.beam_search(params, SHORT, None, 2, eos=2, max_words=3)
    assert_hypotheses(hypotheses, [([0, 0, 0], 0.125), ([0, 0, 1], 0.1)])
    # The end takes a step: two words need three.
    params = constant_model([0.01, 0.99])
    hypotheses = tree2seq.beam_search(params, SHORT, None, 1, eos=1, max_words=2, statistics={2: {2: 1}})
    assert_hypotheses(hypotheses, [([0, 0], 0.01**2)])
    hypotheses = tree2seq.beam_search(params, SHORT, None, 1, eos=1, max_words=3, statistics={2: {2: 1}})
    assert_hypotheses(hypotheses, [([0, 0, 1], 0.01**2 * 0.99)])
    with pytest.raises(ValueError, match="at least 1"):
        tree2seq.beam_search(params, SHORT, None, 0, eos=2)


def test_equal_scores() -> None:
    params = constant_model([0.25, 0.25, 0.25, 0.25])
    hypotheses = tree2seq.beam_search(params, SHORT, None, 3, eos=3, max_words=2)
    assert [words for words, _ in hypotheses] == [[0, 0], [0, 1], [0, 2]]


def test_no_continuation_of_probability_zero() -> None:
    params = constant_model([0.5, 0.5, 0.0])
    hypotheses = tree2seq.beam_search(params, SHORT, None, 10, eos=2, max_words=1)
    assert_hypotheses(hypotheses, [([0], 0.5), ([1], 0.5)])
    # And if there is nothing but the end, and the end is forbidden:
    params = constant_model([0.0, 0.0, 1.0])
    assert tree2seq.beam_search(params, SHORT, None, 10, eos=2, statistics={2: {1: 1}}) == []


def test_counted_lengths() -> None:
    """The lengths are "without" end-of-sentence, which is 9 here."""
    pairs = [([1, 2, 9], [3, 9]), ([4, 4, 9], [3, 3, 3, 9]), ([5, 6, 9], [7, 9]), ([1, 9], [9])]
    assert tree2seq.count_lengths(pairs) == {2: {1: 2, 3: 1}, 1: {0: 1}}


def test_length_term() -> None:
    statistics = {2: {1: 2, 3: 1}, 1: {0: 1}}
    assert tree2seq.length_term(statistics, 2, 1) == pytest.approx(math.log(2 / 3), abs=1e-14)
    assert tree2seq.length_term(statistics, 2, 3) == pytest.approx(math.log(1 / 3), abs=1e-14)
    assert tree2seq.length_term(statistics, 1, 0) == 0.0
    assert tree2seq.length_term(statistics, 2, 2) == -math.inf  # a target length never seen for a seen source length
    assert tree2seq.length_term({2: {1: 2, 3: 0}}, 2, 3) == -math.inf
    assert tree2seq.length_term(statistics, 5, 3) == 0.0  # an unseen source length
    assert tree2seq.length_term(None, 2, 2) == 0.0


def test_length_statistics_in_the_search() -> None:
    """Where "the length term is added once, when end-of-sentence is chosen", the unfinished compete without it.

    Word .6, end .4; no word has p = 1/4 and one word has 3/4. Step 1: [word] .6, [end] .4 · 1/4 = .1. Step 2: [word,
    word] .36, [word, end] .24 · 3/4 = .18, which crowds out [end]. Step 3: .216 before .18, and two words are too many
    for an end. Step 4: .18 before .1296.
    """
    params = constant_model([0.6, 0.4])
    statistics = {2: {0: 1, 1: 3}}
    hypotheses = tree2seq.beam_search(params, SHORT, None, 2, eos=1, statistics=statistics)
    assert_hypotheses(hypotheses, [([0, 1], 0.18), ([0, 0, 0, 0], 0.1296)])
    hypotheses = tree2seq.beam_search(params, SHORT, None, 2, eos=1, max_words=2, statistics=statistics)
    assert_hypotheses(hypotheses, [([0, 0], 0.36), ([0, 1], 0.18)])
    # Counted with end-of-sentence, the source would have three: an unseen length, and nothing is added or forbidden.
    hypotheses = tree2seq.beam_search(params, SHORT, None, 2, eos=1, statistics={3: {0: 1, 1: 3}})
    assert_hypotheses(hypotheses, [([1], 0.4), ([0, 0], 0.36)])


def test_an_unseen_target_length_forbids_the_end() -> None:
    params = constant_model([0.01, 0.99])
    hypotheses = tree2seq.beam_search(params, SHORT, None, 3, eos=1, statistics={2: {4: 7}})
    assert_hypotheses(hypotheses, [([0, 0, 0, 0, 1], 0.01**4 * 0.99), ([0, 0, 0, 0, 0], 0.01**5)])
    hypotheses = tree2seq.beam_search(params, SHORT, None, 3, eos=1, statistics={1: {4: 7}})
    assert_hypotheses(hypotheses, [([1], 0.99), ([0], 0.01)])
