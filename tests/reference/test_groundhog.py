"""Checks of the transcription of the original code's model, against the original's own numbers and by hand.

The first half needs ``shared/reference/groundhog-model``: two models trained by the original program and what it says
of them (float32). The second half needs nothing: models so small or so plain that the answer can be worked out.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from tests.reference import groundhog
from tests.reference.groundhog import Array, Hypothesis
from tests.reference.recorded import RECORDED, needs_recorded, recorded

# How far the original's float32 is from float64. README.md of the recorded numbers has 1.5e-5 for a sentence, to two
# digits; it is 1.517e-5 in one of the 50 (the 22nd), where a step of float32 is 3.8e-6, and under 1.0e-5 in all others.
SENTENCE_TOLERANCE = 1.52e-5
WORD_TOLERANCE = 1.0e-5
ALIGNMENT_TOLERANCE = 1.4e-7
COST_TOLERANCE = 1e-3  # of the sum over 20 sentences

UNK, EOS = 1, 5000  # of the recorded models


def recorded_parameters(model: str) -> dict[str, Array]:
    with np.load(RECORDED / f"{model}_model.npz") as arrays:
        return groundhog.in_float64(arrays)


# ---------------------------------------------------------------------------------------------------------------------
# Against the original's own numbers
# ---------------------------------------------------------------------------------------------------------------------


@needs_recorded
@pytest.mark.parametrize("model", ["search", "encdec"])
def test_shapes_are_those_of_the_recorded_model(model: str) -> None:
    state = recorded(f"{model}_state.json")
    expected = groundhog.parameter_shapes(
        n=state["dim"],
        m=state["rank_n_approx"],
        n_source=state["n_sym_source"],
        n_target=state["n_sym_target"],
        rank=state["rank_n_approx"],
        encdec=not state["search"],
    )
    params = recorded_parameters(model)
    assert {name: array.shape for name, array in params.items()} == expected
    assert groundhog.is_encdec(params) == (model == "encdec")


@needs_recorded
@pytest.mark.parametrize(
    ("model", "scores_file", "count"),
    [("search", "search_scores_50.json", 50), ("encdec", "encdec_scores_first25.json", 25)],
)
def test_scores_are_the_recorded_ones(model: str, scores_file: str, count: int) -> None:
    params = recorded_parameters(model)
    scores = recorded(scores_file)
    assert len(scores) == count
    for pair, expected in zip(recorded("pairs_50.json"), scores):
        word_log_probs, alignments = groundhog.score(params, pair["x"], pair["y"])
        assert word_log_probs.shape == (len(pair["y"]),)
        np.testing.assert_allclose(word_log_probs, expected["word_logprobs"], rtol=0, atol=WORD_TOLERANCE)
        assert word_log_probs.sum() == pytest.approx(expected["logprob"], rel=0, abs=SENTENCE_TOLERANCE)
        if model == "search":
            assert alignments is not None
            np.testing.assert_allclose(alignments, expected["alignment"], rtol=0, atol=ALIGNMENT_TOLERANCE)
        else:
            assert alignments is None


@needs_recorded
def test_translations_are_the_recorded_ones() -> None:
    params = recorded_parameters("search")
    expected = recorded("search_translations_20.json")
    source_ids = recorded("vocab.en.json")
    target_words = {i: word for word, i in recorded("vocab.fr.json").items()}

    translations: dict[str, list[str]] = {"raw": [], "normalized": [], "unknown_banned": []}
    total_cost = {"raw": 0.0, "normalized": 0.0, "unknown_banned": 0.0}

    def add(mode: str, ids: list[int], cost: float) -> None:
        assert ids[-1] == EOS
        translations[mode].append(" ".join(target_words[i] for i in ids[:-1]))
        total_cost[mode] += cost

    for sentence in expected["source"]:
        x_ids = [source_ids.get(word, UNK) for word in sentence.split()] + [EOS]

        finished = groundhog.beam_search(params, x_ids, expected["beam"], EOS, UNK)
        ids, cost = groundhog.best(finished, normalize=False)
        add("raw", ids, cost)
        ids, cost = groundhog.best(finished, normalize=True)
        add("normalized", ids, cost / len(ids))

        finished = groundhog.beam_search(params, x_ids, expected["beam"], EOS, UNK, ban_unknown=True)
        ids, cost = groundhog.best(finished, normalize=False)
        add("unknown_banned", ids, cost)

    assert len(expected["source"]) == 20
    for mode in translations:
        assert translations[mode] == expected[mode], mode
        assert total_cost[mode] == pytest.approx(expected["total_cost"][mode], rel=0, abs=COST_TOLERANCE), mode


# ---------------------------------------------------------------------------------------------------------------------
# By hand: the model
# ---------------------------------------------------------------------------------------------------------------------

TINY = {"n": 6, "m": 4, "n_source": 7, "n_target": 5, "rank": 3}  # five sizes that cannot be taken for one another


def tiny_parameters(encdec: bool, seed: int = 1, **sizes: int) -> dict[str, Array]:
    return groundhog.random_parameters(np.random.default_rng(seed), **{**TINY, **sizes}, encdec=encdec)


def test_parameter_counts_of_the_paper() -> None:
    sizes = {"n": 1000, "m": 620, "n_source": 30_001, "n_target": 30_001, "rank": 620}
    assert groundhog.count_parameters(**sizes, encdec=False) == 84_349_101
    assert groundhog.count_parameters(**sizes, encdec=True) == 72_487_101


@pytest.mark.parametrize("encdec", [False, True])
def test_count_agrees_with_shapes(encdec: bool) -> None:
    shapes = groundhog.parameter_shapes(**TINY, encdec=encdec)
    assert sum(int(np.prod(shape)) for shape in shapes.values()) == groundhog.count_parameters(**TINY, encdec=encdec)
    params = tiny_parameters(encdec)
    assert {name: array.shape for name, array in params.items()} == shapes
    assert all(np.abs(array).min() > 0 for array in params.values())
    assert groundhog.is_encdec(params) == encdec


@pytest.mark.parametrize("encdec", [False, True])
def test_probabilities_sum_to_one(encdec: bool) -> None:
    params = tiny_parameters(encdec)
    x_ids, y_ids = [3, 0, 5, 6], [2, 0, 4]
    for i in range(len(y_ids)):
        total = 0.0
        for word in range(TINY["n_target"]):
            word_log_probs, alignments = groundhog.score(params, x_ids, [*y_ids[:i], word])
            total += np.exp(word_log_probs[-1])
        assert total == pytest.approx(1.0, abs=1e-12)
        if encdec:
            assert alignments is None
        else:
            assert alignments is not None
            assert alignments.shape == (i + 1, len(x_ids))
            assert alignments.min() > 0
            np.testing.assert_allclose(alignments.sum(axis=1), 1.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize("encdec", [False, True])
def test_no_word_before_the_first(encdec: bool) -> None:
    """Table, "first step": target embeddings, with their bias, and V_o have no part in the first word's probability."""
    params = tiny_parameters(encdec)
    before, _ = groundhog.score(params, [3, 5, 6], [2, 4])
    for name in ("W_0_dec_approx_embdr", "b_0_dec_approx_embdr", "W_0_dec_prev_readout_0"):
        changed = {**params, name: params[name] + 1.0}
        after, _ = groundhog.score(changed, [3, 5, 6], [2, 4])
        assert after[0] == before[0], name
        assert abs(after[1] - before[1]) > 1e-3, name


@pytest.mark.parametrize("encdec", [False, True])
def test_every_parameter_has_a_part(encdec: bool) -> None:
    params = tiny_parameters(encdec)
    x_ids, y_ids = list(range(TINY["n_source"])), [*range(TINY["n_target"]), 0]
    before, _ = groundhog.score(params, x_ids, y_ids)
    for name in params:
        changed = {**params, name: params[name] * 1.5}
        after, _ = groundhog.score(changed, x_ids, y_ids)
        assert abs(after[-1] - before[-1]) > 1e-6, name


def test_initial_state_is_of_the_direction_that_ends_at_the_decoder() -> None:
    """Table, "s_0": of <-h_1 for RNNsearch, of ->h_T for RNNencdec. Either has read the whole sentence."""
    params = tiny_parameters(encdec=False)
    s_0 = groundhog.decode(params, [3, 5, 6], [])[2][0]
    forward = {**params, "W_0_enc_input_embdr_0": params["W_0_enc_input_embdr_0"] + 1.0}
    backward = {**params, "W_0_back_enc_input_embdr_0": params["W_0_back_enc_input_embdr_0"] + 1.0}
    np.testing.assert_array_equal(groundhog.decode(forward, [3, 5, 6], [])[2][0], s_0)
    assert np.abs(groundhog.decode(backward, [3, 5, 6], [])[2][0] - s_0).min() > 1e-6

    for encdec in (False, True):
        params = tiny_parameters(encdec)
        s_0 = groundhog.decode(params, [3, 5, 6], [])[2][0]
        for other in ([2, 5, 6], [3, 2, 6], [3, 5, 2]):
            assert np.abs(groundhog.decode(params, other, [])[2][0] - s_0).min() > 1e-6, (encdec, other)


def test_the_next_state_reads_the_word_just_written() -> None:
    """Table, "decoder update": s_1 = f(s_0, y_1, c_1), written out; and c_1 is alpha_1's mean of the annotations."""
    params = tiny_parameters(encdec=False)
    x_ids, y_ids = [3, 5, 6], [2, 4]
    _, alignments, states = groundhog.decode(params, x_ids, y_ids)
    assert alignments is not None
    s_0 = states[0]
    c_1 = alignments[0] @ groundhog.encode(params, x_ids)
    e = params["W_0_dec_approx_embdr"][y_ids[0]] + params["b_0_dec_approx_embdr"]
    from_word = {gate: e @ params[f"W_0_dec_{gate}_embdr_0"] for gate in ("input", "update", "reset")}

    z = from_word["update"] + s_0 @ params["G_dec_transition_0"] + c_1 @ params["W_0_dec_dec_updater_0"]
    z = 1.0 / (1.0 + np.exp(-z))
    r = from_word["reset"] + s_0 @ params["R_dec_transition_0"] + c_1 @ params["W_0_dec_dec_reseter_0"]
    r = 1.0 / (1.0 + np.exp(-r))
    candidate = from_word["input"] + params["b_0_dec_input_embdr_0"] + c_1 @ params["W_0_dec_dec_inputter_0"]
    candidate = np.tanh(candidate + (r * s_0) @ params["W_dec_transition_0"])
    np.testing.assert_allclose(states[1], (1 - z) * s_0 + z * candidate, rtol=0, atol=1e-12)


def test_maxout_takes_adjacent_pairs() -> None:
    np.testing.assert_array_equal(groundhog.maxout(np.array([1.0, 4.0, -2.0, -3.0, 0.0, 0.0])), [4.0, -2.0, 0.0])
    np.testing.assert_array_equal(groundhog.maxout(np.array([[1.0, 2.0], [4.0, 3.0]])), [[2.0], [4.0]])


def test_float32_parameters_are_computed_with_in_float64() -> None:
    params = {name: array.astype(np.float32) for name, array in tiny_parameters(encdec=False).items()}
    word_log_probs, _ = groundhog.score(params, [3, 5, 6], [2, 4])
    expected, _ = groundhog.score({name: array.astype(np.float64) for name, array in params.items()}, [3, 5, 6], [2, 4])
    np.testing.assert_array_equal(word_log_probs, expected)


# ---------------------------------------------------------------------------------------------------------------------
# By hand: the search
# ---------------------------------------------------------------------------------------------------------------------


def constant_model(probabilities: Sequence[float]) -> dict[str, Array]:
    """A model that gives the words these probabilities whatever it has read: all parameters zero, but the last bias."""
    sizes = {**TINY, "n_target": len(probabilities)}
    params = {name: np.zeros(shape) for name, shape in groundhog.parameter_shapes(**sizes, encdec=False).items()}
    with np.errstate(divide="ignore"):
        params["b_dec_deep_softmax"] = np.log(np.array(probabilities))
    return params


def assert_hypotheses(finished: list[Hypothesis], expected: list[tuple[list[int], float]]) -> None:
    """The same words in the same order, and the same costs; ``expected`` has the probability in place of the cost."""
    assert [ids for ids, _ in finished] == [ids for ids, _ in expected]
    for (_, cost), (_, probability) in zip(finished, expected):
        assert cost == pytest.approx(-np.log(probability), abs=1e-12)


@pytest.mark.parametrize("encdec", [False, True])
@pytest.mark.parametrize("length", [1, 2])
def test_a_wide_beam_finds_every_translation(encdec: bool, length: int) -> None:
    """Wide enough to drop nothing, the search lists every sentence of an allowed length, at its forced score."""
    params = tiny_parameters(encdec, n_target=4)
    x_ids, eos = [3, 5][:length], 3
    finished = groundhog.beam_search(params, x_ids, 10_000, eos, unk=1)

    expected = {}
    for words in range(length // 2, 3 * length):
        for prefix in itertools.product([0, 1, 2], repeat=words):
            y_ids = [*prefix, eos]
            expected[tuple(y_ids)] = -groundhog.score(params, x_ids, y_ids)[0].sum()
    assert len(finished) == len(expected)
    found = {tuple(ids): cost for ids, cost in finished}
    assert found == pytest.approx(expected, abs=1e-10)
    assert list(found.values()) == sorted(found.values())


@pytest.mark.parametrize("encdec", [False, True])
def test_a_narrow_beam_finds_costs_that_are_forced_scores(encdec: bool) -> None:
    params = tiny_parameters(encdec, n_target=30)
    x_ids, eos, beam = [3, 5, 0, 6, 2], 29, 4
    finished = groundhog.beam_search(params, x_ids, beam, eos, unk=1)
    assert 1 <= len(finished) <= beam
    assert len({tuple(ids) for ids, _ in finished}) == len(finished)
    for ids, cost in finished:
        assert ids.index(eos) == len(ids) - 1
        assert len(x_ids) // 2 + 1 <= len(ids) <= 3 * len(x_ids)
        assert cost == pytest.approx(-groundhog.score(params, x_ids, ids)[0].sum(), abs=1e-10)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_shortest_and_longest_translation(length: int) -> None:
    """floor(len/2) words come before the earliest end-of-sentence, and the last one allowed is word 3·len."""
    params = constant_model([0.0, 0.0, 0.5, 0.5])
    finished = groundhog.beam_search(params, [2] * length, 100, eos=3, unk=1)
    expected = [([2] * words + [3], 0.5 ** (words + 1)) for words in range(length // 2, 3 * length)]
    assert_hypotheses(finished, expected)


def test_each_finished_hypothesis_shrinks_the_beam() -> None:
    """With a beam of 3 there are three finished ones, and the search does not go on."""
    params = constant_model([0.0, 0.0, 0.5, 0.5])
    finished = groundhog.beam_search(params, [2, 2, 2, 2], 3, eos=3, unk=1)
    assert_hypotheses(finished, [([2, 2, 3], 0.125), ([2, 2, 2, 3], 0.0625), ([2, 2, 2, 2, 3], 0.03125)])

    # Here the last place is never the end-of-sentence's: the word is likelier. So it comes to nothing, after two.
    params = constant_model([0.0, 0.0, 0.9, 0.1])
    finished = groundhog.beam_search(params, [2, 2, 2, 2], 3, eos=3, unk=1)
    assert_hypotheses(finished, [([2, 2, 3], 0.9**2 * 0.1), ([2, 2, 2, 3], 0.9**3 * 0.1)])


def test_the_beam_is_of_all_hypotheses_together() -> None:
    """Two words of .5 and .4, and the end at .1: the end is in once there are five places for all hypotheses together.

    At the second step, the first at which it may be, the pairs of words (.25, .2, .2, .16) come before [2, end] (.05);
    with four places it is the same at every later step.
    """
    params = constant_model([0.0, 0.0, 0.5, 0.1, 0.4])
    assert groundhog.search_once(params, [2, 2], 4, eos=3, unk=1, ban_unknown=False) == []
    finished = groundhog.search_once(params, [2, 2], 5, eos=3, unk=1, ban_unknown=False)
    assert_hypotheses(finished[:1], [([2, 3], 0.05)])


def test_ban_is_not_renormalised() -> None:
    params = constant_model([0.0, 0.5, 0.4, 0.1])
    x_ids = [2, 2, 2, 2]
    finished = groundhog.beam_search(params, x_ids, 2, eos=3, unk=1, ban_unknown=True)
    assert_hypotheses(finished, [([2, 2, 3], 0.4**2 * 0.1)])  # renormalised, it would be .8² × .2
    with_unknown = groundhog.beam_search(params, x_ids, 20, eos=3, unk=1)
    assert any(1 in ids for ids, _ in with_unknown)


def test_nothing_finished_under_the_ban_then_the_unknown_word_is_allowed() -> None:
    """Every word but the unknown one and the end has probability zero, and the end alone is too short."""
    params = constant_model([0.0, 0.9, 0.0, 0.1])
    x_ids = [2, 2, 2, 2, 2]
    assert groundhog.search_once(params, x_ids, 2, eos=3, unk=1, ban_unknown=True) == []
    # The same beam of 2: one end-of-sentence, then a beam of 1, which the unknown word keeps. Four places would
    # have finished three.
    finished = groundhog.beam_search(params, x_ids, 2, eos=3, unk=1, ban_unknown=True)
    assert_hypotheses(finished, [([1, 1, 3], 0.9**2 * 0.1)])
    # With a beam of 1 the unknown word keeps it to the end, and only then is the beam doubled.
    finished = groundhog.beam_search(params, x_ids, 1, eos=3, unk=1, ban_unknown=True)
    assert_hypotheses(finished, [([1, 1, 3], 0.9**2 * 0.1)])


def test_nothing_finished_then_the_beam_is_doubled_below_500() -> None:
    """599 words, each likelier than the end: a beam finds the end only at the first step, and from 600 places on."""
    words = 599
    probabilities = np.ones(words + 1)
    probabilities[-1] = 0.5
    probabilities /= probabilities.sum()
    params = constant_model(probabilities)
    eos, x_ids = words, [2]  # of one word: the end is never forbidden, and there are three steps

    finished = groundhog.beam_search(params, x_ids, 499, eos, unk=1)  # 998 places
    assert_hypotheses(finished[:1], [([eos], float(probabilities[-1]))])
    assert groundhog.beam_search(params, x_ids, 500, eos, unk=1) == []  # 500 is not below 500
    assert groundhog.beam_search(params, x_ids, 256, eos, unk=1) == []  # 512 is not either
    finished = groundhog.beam_search(params, x_ids, 150, eos, unk=1)  # 300, 600
    assert_hypotheses(finished[:1], [([eos], float(probabilities[-1]))])


def test_no_translation_at_all() -> None:
    params = constant_model([0.0, 0.5, 0.5, 0.0])
    params["b_dec_deep_softmax"][2] = -np.inf  # one live hypothesis, whatever the beam
    assert groundhog.beam_search(params, [2, 2], 10, eos=3, unk=1) == []
    assert groundhog.beam_search(params, [2, 2], 10, eos=3, unk=1, ban_unknown=True) == []
    with pytest.raises(ValueError, match="no finished hypothesis"):
        groundhog.best([], normalize=False)


def test_best_counts_the_end_of_sentence_as_a_word() -> None:
    short, long = ([2, 9], 3.0), ([2, 2, 9], 4.0)
    assert groundhog.best([long, short], normalize=False) == short
    assert groundhog.best([short, long], normalize=True) == long  # 3.0 / 2 against 4.0 / 3; the cost stays the total
    short, long = ([2, 9], 2.0), ([2, 2, 9], 3.3)
    assert (
        groundhog.best([long, short], normalize=True) == short
    )  # 2.0 / 2 against 3.3 / 3; not 2.0 / 1 against 3.3 / 2
