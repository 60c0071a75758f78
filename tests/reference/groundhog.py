"""The original GroundHog code's RNNsearch and RNNencdec, and its beam search, in plain float64 NumPy.

It is the code behind Table 1 of the paper. Its networks are those of ``rnnsearch.py``, with four differences:

- The first readout sees no word: t~_1 has no V_o e(y_0).
- s_i = f(s_{i-1}, y_i, c_i), where the paper has y_{i-1}: a position ends with the update of the state.
- The alignment model has n units, and there are n units before maxout, in pairs.
- W_o is a product of two matrices.

Arrays have the names and the orientation of the original's npz files. A matrix is (inputs, outputs), the transpose of
the paper's. Sentences are lists of the original's own word ids and end with the end-of-sentence symbol.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from recipes.groundhog.files import Settings, Symbols
from tests.reference.rnnsearch import Array, attend, decoder_step, encode, initial_state, is_encdec, readout

Arrays: TypeAlias = Mapping[str, NDArray]
Hypothesis: TypeAlias = tuple[list[int], float]  # the words, end-of-sentence included, and the cost -log p(y | x)

# The array of each parameter of the paper, except W_o^T = W1_dec_deep_softmax W2_dec_deep_softmax.
NAMES = {"E_x": "W_0_enc_approx_embdr", "b_Ex": "b_0_enc_approx_embdr"}
NAMES |= {"E_y": "W_0_dec_approx_embdr", "b_Ey": "b_0_dec_approx_embdr"}
for _unit, _layer in (("_f", "enc"), ("_b", "back_enc"), ("", "dec")):
    NAMES |= {f"W{_unit}": f"W_0_{_layer}_input_embdr_0", f"b{_unit}": f"b_0_{_layer}_input_embdr_0"}
    NAMES |= {f"W_z{_unit}": f"W_0_{_layer}_update_embdr_0", f"W_r{_unit}": f"W_0_{_layer}_reset_embdr_0"}
    NAMES |= {f"U{_unit}": f"W_{_layer}_transition_0", f"U_z{_unit}": f"G_{_layer}_transition_0"}
    NAMES[f"U_r{_unit}"] = f"R_{_layer}_transition_0"
NAMES |= {"W_s": "W_0_dec_initializer_0", "b_s": "b_0_dec_initializer_0"}
NAMES |= {"W_a": "B_dec_transition_0", "U_a": "A_dec_transition_0", "v_a": "D_dec_transition_0"}
NAMES |= {"C": "W_0_dec_dec_inputter_0", "C_z": "W_0_dec_dec_updater_0", "C_r": "W_0_dec_dec_reseter_0"}
NAMES |= {"U_o": "W_0_dec_hid_readout_0", "b_o": "b_0_dec_hid_readout_0"}
NAMES |= {"V_o": "W_0_dec_prev_readout_0", "C_o": "W_0_dec_repr_readout", "b_y": "b_dec_deep_softmax"}


def random_arrays(n: int, m: int, n_source: int, n_target: int, encdec: bool = False) -> dict[str, Array]:
    """Draw every array at random, for comparing implementations (this is not the original's initialisation).

    n is the number of hidden units, and m the width of a word's embedding and between the factors of W_o.
    """
    symbols = (Symbols(size, end=size - 1, unknown=1) for size in (n_source, n_target))
    settings, rng, arrays = Settings(not encdec, n, m, 2, *symbols), np.random.default_rng(1), {}
    sizes = settings.sizes() | {"a": n}
    for name, axes in (item for origins in settings.parameters().values() for item in origins.items()):
        deviation = 1.0 if axes in ("xm", "ym", "a1") else 0.5 if len(axes) == 1 else sizes[axes[0]] ** -0.5
        arrays[name] = rng.normal(0.0, deviation, size=[sizes[axis] for axis in axes])
    return arrays


def constant_model(probabilities: Sequence[float]) -> dict[str, Array]:
    """A model whose word probabilities are always the same: all arrays are zero but the last bias."""
    arrays = random_arrays(n=6, m=4, n_source=7, n_target=len(probabilities))
    with np.errstate(divide="ignore"):
        biases = np.log(np.array(probabilities))
    return {name: np.zeros_like(array) for name, array in arrays.items()} | {"b_dec_deep_softmax": biases}


def in_the_papers_names(arrays: Arrays) -> dict[str, Array]:
    """The parameters of ``rnnsearch.py`` in float64; the npz files hold float32."""
    arrays = {name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()}
    params = {symbol: arrays[name].T for symbol, name in NAMES.items() if name in arrays}
    if "v_a" in params:
        params["v_a"] = params["v_a"][0]
    return params | {"W_o": (arrays["W1_dec_deep_softmax"] @ arrays["W2_dec_deep_softmax"]).T}


def score(arrays: Arrays, x_ids: Sequence[int], y_ids: Sequence[int]) -> tuple[Array, Array | None]:
    """log p(y_i | y_1 .. y_{i-1}, x) of every word of y, (T_y,), and alpha (T_y, T_x), or None for RNNencdec."""
    params = in_the_papers_names(arrays)
    annotations = encode(params, x_ids)
    s, y_prev = initial_state(params, annotations), None
    log_probs, alignments = [], []
    for y in y_ids:
        alpha, c = attend(params, s, annotations)
        log_probs.append(readout(params, s, y_prev, c, pool=2)[y])
        alignments.append(alpha)
        s, y_prev = decoder_step(params, s, y, c), y
    return np.array(log_probs), None if is_encdec(params) else np.array(alignments)


def search_once(
    params: Mapping[str, Array], x_ids: Sequence[int], beam: int, eos: int, unk: int, ban_unknown: bool
) -> list[Hypothesis]:
    """One pass of the search: the finished hypotheses, lowest cost first; may be empty. See ``beam_search``."""
    annotations = encode(params, x_ids)
    finished: list[Hypothesis] = []
    words: list[list[int]] = [[]]  # the words of each live hypothesis; at first one hypothesis without words
    costs = np.zeros(1)  # -log p of those words
    states = initial_state(params, annotations)[None, :]  # s_{i-1}, one row per hypothesis
    for k in range(3 * len(x_ids)):
        contexts = np.stack([attend(params, s, annotations)[1] for s in states])
        log_probs = readout(params, states, [ids[-1] for ids in words] if k else None, contexts, pool=2)
        if ban_unknown:
            log_probs[:, unk] = -np.inf
        if k < len(x_ids) // 2:
            log_probs[:, eos] = -np.inf
        # The best of all continuations, and for each the hypothesis that it continues.
        next_costs = (costs[:, None] - log_probs).flatten()
        best = np.argsort(next_costs, kind="stable")[:beam]
        best = best[np.isfinite(next_costs[best])]
        origins, next_words = np.divmod(best, log_probs.shape[1])
        continued = [[*words[origin], int(word)] for origin, word in zip(origins, next_words)]
        ends = next_words == eos
        finished += [(ids, float(next_costs[p])) for ids, p, end in zip(continued, best, ends) if end]
        beam -= ends.sum()
        # The unfinished hypotheses read their new words.
        words = [ids for ids, end in zip(continued, ends) if not end]
        costs, origins = next_costs[best[~ends]], origins[~ends]
        if not words:
            break
        states = decoder_step(params, states[origins], next_words[~ends], contexts[origins])
    return sorted(finished, key=lambda hypothesis: hypothesis[1])


def beam_search(
    arrays: Arrays, x_ids: Sequence[int], beam: int, eos: int, unk: int, ban_unknown: bool = False
) -> list[Hypothesis]:
    """The finished translations of x as (words with end-of-sentence, cost), lowest cost first; may be empty."""
    params = in_the_papers_names(arrays)
    finished = search_once(params, x_ids, beam, eos, unk, ban_unknown)
    if len(finished) == 0 and ban_unknown:
        finished = search_once(params, x_ids, beam, eos, unk, ban_unknown=False)
    while len(finished) == 0 and beam < 500:
        beam = 2 * beam
        finished = search_once(params, x_ids, beam, eos, unk, ban_unknown=False)
    return finished
