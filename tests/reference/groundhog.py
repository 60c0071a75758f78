"""The original GroundHog code's RNNsearch and RNNencdec, transcribed in plain float64 NumPy.

It is the code behind Table 1 of D. Bahdanau, K. Cho, Y. Bengio, "Neural Machine Translation by Jointly Learning to
Align and Translate", ICLR 2015, and differs from the paper, whose equation and section numbers stand here. Scoring goes
one sentence and one position at a time: no batch, no padding, no mask, no dropout. The package is tested against this
file, which shares no code with it, nor with ``rnnsearch.py``, the transcription of the paper itself.

Conventions
-----------
Parameters have the names and the orientation of the original's npz files. Matrices are (inputs, outputs), the transpose
of the paper's: ``x @ W``. Therefore every function below that takes a vector, such as s_{i-1} (n,), also takes a matrix
of one vector per row, (rows, n), and then returns one result per row. Only ``beam_search`` uses this, with one row per
hypothesis. Sentences are lists of the original's own word ids and end with the end-of-sentence symbol. The paper counts
positions from 1; in the arrays, x_1 and h_1 are at index 0.

Sizes: n = hidden units (of each direction of the encoder, of the decoder, of the alignment model, and before maxout),
m = word embedding, l = n / 2 maxout units, rank = the width between the two output factors. In the original m and rank
are one setting. d is the size of a context vector c_i: 2n for RNNsearch, n for RNNencdec. K_x and K_y are the
vocabulary sizes ``n_source`` and ``n_target``.

Parameters
----------
``{d}`` is ``enc``, the forward direction, or ``back_enc``, the backward one. A name without a bias ``b_...`` beside it
has none.

=======================================  ============  =====================================================
name                                     shape         where it stands
=======================================  ============  =====================================================
W_0_enc_approx_embdr, b_...              (K_x, m) (m)  e(x_j) = E_x x_j + b, shared by the two directions
W_0_{d}_input_embdr_0, b_...             (m, n) (n)    h~_j = tanh(W e(x_j) + b + U [r_j o h_{j-1}])
W_{d}_transition_0                       (n, n)        the same, U
W_0_{d}_update_embdr_0                   (m, n)        z_j = sigmoid(W_z e(x_j) + U_z h_{j-1})
G_{d}_transition_0                       (n, n)        the same, U_z
W_0_{d}_reset_embdr_0                    (m, n)        r_j = sigmoid(W_r e(x_j) + U_r h_{j-1})
R_{d}_transition_0                       (n, n)        the same, U_r
W_0_dec_initializer_0, b_...             (n, n) (n)    s_0 = tanh(W_s <-h_1 + b)   [RNNencdec: ->h_{T_x}]
B_dec_transition_0  (*)                  (n, n)        e_ij = v_a^T tanh(W_a s_{i-1} + U_a h_j), W_a
A_dec_transition_0  (*)                  (2n, n)       the same, U_a
D_dec_transition_0  (*)                  (n, 1)        the same, v_a
W_0_dec_approx_embdr, b_...              (K_y, m) (m)  e(y_i) = E_y y_i + b
W_0_dec_input_embdr_0, b_...             (m, n) (n)    s~_i = tanh(W e(y_i) + b + U [r_i o s_{i-1}] + C c_i)
W_dec_transition_0                       (n, n)        the same, U
W_0_dec_dec_inputter_0                   (d, n)        the same, C
W_0_dec_update_embdr_0                   (m, n)        z_i = sigmoid(W_z e(y_i) + U_z s_{i-1} + C_z c_i)
G_dec_transition_0                       (n, n)        the same, U_z
W_0_dec_dec_updater_0                    (d, n)        the same, C_z
W_0_dec_reset_embdr_0                    (m, n)        r_i = sigmoid(W_r e(y_i) + U_r s_{i-1} + C_r c_i)
R_dec_transition_0                       (n, n)        the same, U_r
W_0_dec_dec_reseter_0                    (d, n)        the same, C_r
W_0_dec_hid_readout_0, b_...             (n, n) (n)    t~_i = U_o s_{i-1} + b + V_o e(y_{i-1}) + C_o c_i
W_0_dec_prev_readout_0                   (m, n)        the same, V_o
W_0_dec_repr_readout                     (d, n)        the same, C_o
W1_dec_deep_softmax                      (l, rank)     p(y_i) = softmax(W_o t_i + b), W_o in two factors: W1
W2_dec_deep_softmax                      (rank, K_y)   the same, W2
b_dec_deep_softmax                       (K_y)         the same, b
=======================================  ============  =====================================================

(*) RNNsearch only, and so is everything named ``back_enc``. A model without ``A_dec_transition_0`` is an RNNencdec.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Parameters: TypeAlias = Mapping[str, Array]
Words: TypeAlias = int | Sequence[int]  # one word, or one word per row
Layer: TypeAlias = Literal["enc", "back_enc", "dec"]
Hypothesis: TypeAlias = tuple[list[int], float]  # the words, end-of-sentence included, and the cost -log p(y | x)


def parameter_shapes(
    *, n: int, m: int, n_source: int, n_target: int, rank: int, encdec: bool
) -> dict[str, tuple[int, ...]]:
    """The table at the top of this file as a dictionary: name -> shape."""
    d = n if encdec else 2 * n
    shapes: dict[str, tuple[int, ...]] = {}
    for side, words in (("enc", n_source), ("dec", n_target)):
        shapes |= {f"W_0_{side}_approx_embdr": (words, m), f"b_0_{side}_approx_embdr": (m,)}
    for layer in ["enc", "dec"] if encdec else ["enc", "back_enc", "dec"]:
        shapes |= {f"W_0_{layer}_{part}_embdr_0": (m, n) for part in ("input", "update", "reset")}
        shapes |= {f"{matrix}_{layer}_transition_0": (n, n) for matrix in "WGR"}
        shapes[f"b_0_{layer}_input_embdr_0"] = (n,)
    shapes |= {"W_0_dec_initializer_0": (n, n), "b_0_dec_initializer_0": (n,)}
    if not encdec:
        shapes |= {"B_dec_transition_0": (n, n), "A_dec_transition_0": (2 * n, n), "D_dec_transition_0": (n, 1)}
    shapes |= {f"W_0_dec_dec_{part}_0": (d, n) for part in ("inputter", "updater", "reseter")}
    shapes |= {"W_0_dec_hid_readout_0": (n, n), "b_0_dec_hid_readout_0": (n,)}
    shapes |= {"W_0_dec_prev_readout_0": (m, n), "W_0_dec_repr_readout": (d, n)}
    shapes |= {"W1_dec_deep_softmax": (n // 2, rank), "W2_dec_deep_softmax": (rank, n_target)}
    return shapes | {"b_dec_deep_softmax": (n_target,)}


def random_parameters(rng: np.random.Generator, **sizes: Any) -> dict[str, Array]:
    """Draw every parameter at random, for comparing implementations (this is not the original's initialisation).

    The ``sizes`` are those of :func:`parameter_shapes`.
    """
    params: dict[str, Array] = {}
    for name, shape in parameter_shapes(**sizes).items():
        if name in ("W_0_enc_approx_embdr", "W_0_dec_approx_embdr", "D_dec_transition_0"):
            deviation = 1.0
        elif len(shape) == 1:
            deviation = 0.5
        else:
            deviation = 1.0 / np.sqrt(shape[0])
        params[name] = rng.normal(0.0, deviation, size=shape)
    return params


def constant_model(probabilities: Sequence[float]) -> dict[str, Array]:
    """A model whose word probabilities are always the same: all parameters are zero but the last bias."""
    shapes = parameter_shapes(n=6, m=4, n_source=7, n_target=len(probabilities), rank=4, encdec=False)
    params = {name: np.zeros(shape) for name, shape in shapes.items()}
    with np.errstate(divide="ignore"):
        params["b_dec_deep_softmax"] = np.log(np.array(probabilities))
    return params


def is_encdec(params: Parameters) -> bool:
    """True for RNNencdec, the model without an alignment model."""
    return "A_dec_transition_0" not in params


def in_float64(params: Mapping[str, NDArray]) -> dict[str, Array]:
    """The same parameters in float64, in which everything here is computed; the npz files hold float32."""
    return {name: np.asarray(params[name], dtype=np.float64) for name in params}


def sigmoid(x: Array) -> Array:
    """sigmoid(x) = 1 / (1 + exp(-x)), entry by entry."""
    return 1.0 / (1.0 + np.exp(-x))


def gated_unit(params: Parameters, layer: Layer, h_prev: Array, inputs: tuple[Array, Array, Array]) -> Array:
    """One step of the gated hidden unit of a layer: h_prev (n,) -> h (n,)::

    z  = sigmoid(update_input + U_z h_prev)
    r  = sigmoid(reset_input  + U_r h_prev)
    h~ = tanh(candidate_input + U [r o h_prev])
    h  = (1 - z) o h_prev + z o h~
    """
    candidate_input, update_input, reset_input = inputs
    z = sigmoid(update_input + h_prev @ params[f"G_{layer}_transition_0"])
    r = sigmoid(reset_input + h_prev @ params[f"R_{layer}_transition_0"])
    candidate = np.tanh(candidate_input + (r * h_prev) @ params[f"W_{layer}_transition_0"])
    return (1.0 - z) * h_prev + z * candidate


def encoder_step(params: Parameters, direction: Literal["enc", "back_enc"], h_prev: Array, word: int) -> Array:
    """One step of one direction of the encoder, h_{j-1} (n,) -> h_j (n,) (A.2.1), with e(x_j) = E_x x_j + b."""
    e = params["W_0_enc_approx_embdr"][word] + params["b_0_enc_approx_embdr"]
    candidate_input = e @ params[f"W_0_{direction}_input_embdr_0"] + params[f"b_0_{direction}_input_embdr_0"]
    gates = (e @ params[f"W_0_{direction}_{gate}_embdr_0"] for gate in ("update", "reset"))
    return gated_unit(params, direction, h_prev, (candidate_input, *gates))


def encode(params: Parameters, x_ids: Sequence[int]) -> Array:
    """The annotations h_1 .. h_{T_x}, as rows: (T_x, 2n) for RNNsearch, (T_x, n) for RNNencdec (A.2.1)::

    ->h_0         = 0,   ->h_j = gated unit of (->h_{j-1}, x_j),   j = 1 .. T_x
    <-h_{T_x + 1} = 0,   <-h_j = gated unit of (<-h_{j+1}, x_j),   j = T_x .. 1
    h_j = [->h_j ; <-h_j]                                          (forward half first)
    """
    forward = read(params, "enc", x_ids)
    if is_encdec(params):
        return forward
    backward = read(params, "back_enc", reversed(x_ids))[::-1]
    return np.concatenate([forward, backward], axis=1)


def read(params: Parameters, direction: Literal["enc", "back_enc"], words: Iterable[int]) -> Array:
    """The states of one direction, as rows, in the order in which it reads."""
    states = [np.zeros(len(params["W_enc_transition_0"]))]
    for word in words:
        states.append(encoder_step(params, direction, states[-1], word))
    return np.array(states[1:])


def initial_state(params: Parameters, annotations: Array) -> Array:
    """s_0, (n,)::

    RNNsearch:   s_0 = tanh(W_s <-h_1 + b)        <-h_1 is the last n entries of the first annotation
    RNNencdec:   s_0 = tanh(W_s ->h_{T_x} + b)    ->h_{T_x} has read the end-of-sentence token
    """
    n = params["W_0_dec_initializer_0"].shape[0]
    summary = annotations[-1] if is_encdec(params) else annotations[0, n:]
    return np.tanh(summary @ params["W_0_dec_initializer_0"] + params["b_0_dec_initializer_0"])


def attend(params: Parameters, s_prev: Array, annotations: Array) -> tuple[Array, Array]:
    """The weights alpha_i1 .. alpha_{i T_x} of the annotations, (T_x,), for one s_{i-1} (n,), and c_i (2n,) (Eq. 5)::

    e_ij     = v_a^T tanh(W_a s_{i-1} + U_a h_j)
    alpha_ij = exp(e_ij) / sum_k exp(e_ik)
    c_i      = sum_j alpha_ij h_j

    RNNencdec has no weights, and c_i = ->h_{T_x}.
    """
    if is_encdec(params):
        return np.zeros(len(annotations)), annotations[-1]
    query = s_prev @ params["B_dec_transition_0"]
    energies = np.array(
        [
            np.tanh(query + key) @ params["D_dec_transition_0"][:, 0]
            for key in annotations @ params["A_dec_transition_0"]
        ]
    )
    exponentials = np.exp(energies - energies.max())
    alpha = exponentials / exponentials.sum()
    return alpha, sum(weight * h for weight, h in zip(alpha, annotations, strict=True))


def embed_target(params: Parameters, words: Words) -> Array:
    """e(y_i) = E_y y_i + b, (m,). Table, "biases": "trained: both embedding tables (620, added to every embedding)"."""
    return params["W_0_dec_approx_embdr"][words] + params["b_0_dec_approx_embdr"]


def decoder_step(params: Parameters, s_prev: Array, y: Words, c: Array) -> Array:
    """s_i = f(s_{i-1}, y_i, c_i), (n,), with y_i where the paper has y_{i-1}::

    z_i  = sigmoid(W_z e(y_i) + U_z s_{i-1} + C_z c_i)
    r_i  = sigmoid(W_r e(y_i) + U_r s_{i-1} + C_r c_i)
    s~_i = tanh(W e(y_i) + b + U [r_i o s_{i-1}] + C c_i)
    s_i  = (1 - z_i) o s_{i-1} + z_i o s~_i
    """
    e = embed_target(params, y)
    candidate_input = e @ params["W_0_dec_input_embdr_0"] + params["b_0_dec_input_embdr_0"]
    candidate_input = candidate_input + c @ params["W_0_dec_dec_inputter_0"]
    update_input = e @ params["W_0_dec_update_embdr_0"] + c @ params["W_0_dec_dec_updater_0"]
    reset_input = e @ params["W_0_dec_reset_embdr_0"] + c @ params["W_0_dec_dec_reseter_0"]
    return gated_unit(params, "dec", s_prev, (candidate_input, update_input, reset_input))


def maxout(t_tilde: Array) -> Array:
    """t_j = max{t~_{2j-1}, t~_{2j}}, (n,) -> (n / 2,). Table, "maxout": "the same: adjacent pairs, 1000 → 500"."""
    return np.maximum(t_tilde[..., 0::2], t_tilde[..., 1::2])


def readout(params: Parameters, s_prev: Array, y_prev: Words | None, c: Array) -> Array:
    """log p(y_i | y_1 .. y_{i-1}, x) for every word of the target vocabulary, (K_y,)::

    t~_i   = U_o s_{i-1} + b + V_o e(y_{i-1}) + C_o c_i         without V_o e(y_{i-1}) at i = 1
    t_i    = maxout(t~_i)
    p(y_i) = softmax(W2 (W1 t_i) + b)
    """
    t_tilde = s_prev @ params["W_0_dec_hid_readout_0"] + params["b_0_dec_hid_readout_0"]
    t_tilde = t_tilde + c @ params["W_0_dec_repr_readout"]
    if y_prev is not None:
        t_tilde = t_tilde + embed_target(params, y_prev) @ params["W_0_dec_prev_readout_0"]
    hidden = maxout(t_tilde) @ params["W1_dec_deep_softmax"]
    scores = hidden @ params["W2_dec_deep_softmax"] + params["b_dec_deep_softmax"]
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def score(params: Mapping[str, NDArray], x_ids: Sequence[int], y_ids: Sequence[int]) -> tuple[Array, Array | None]:
    """log p(y_i | y_1 .. y_{i-1}, x) of every word of y, (T_y,), and alpha (T_y, T_x), or None for RNNencdec::

    alpha_i, c_i = attend(s_{i-1}, h_1 .. h_{T_x})
    p(y_i)  = g(s_{i-1}, y_{i-1}, c_i)
    s_i     = f(s_{i-1}, y_i, c_i)
    """
    params = in_float64(params)
    annotations = encode(params, x_ids)
    s = initial_state(params, annotations)
    word_log_probs = np.zeros(len(y_ids))
    alignments = np.zeros((len(y_ids), len(x_ids)))
    y_prev = None
    for i, y in enumerate(y_ids):
        alignments[i], c = attend(params, s, annotations)
        word_log_probs[i] = readout(params, s, y_prev, c)[y]
        s = decoder_step(params, s, y, c)
        y_prev = y
    return word_log_probs, None if is_encdec(params) else alignments


def cheapest(costs: Array, count: int) -> list[int]:
    """The positions of the ``count`` lowest finite costs, lowest first; fewer if there are not as many."""
    positions = np.argsort(costs, kind="stable")[:count]
    return [int(position) for position in positions if np.isfinite(costs[position])]


def search_once(
    params: Parameters, x_ids: Sequence[int], beam: int, eos: int, unk: int, ban_unknown: bool
) -> list[Hypothesis]:
    """One pass of the search: the finished hypotheses, lowest cost first; may be empty. See ``beam_search``."""
    annotations = encode(params, x_ids)
    finished: list[Hypothesis] = []
    words: list[list[int]] = [[]]  # the words of each live hypothesis; at first one hypothesis without words
    costs = np.zeros(1)  # -log p of those words
    states = initial_state(params, annotations)[None, :]  # s_{i-1}, one row per hypothesis

    for k in range(3 * len(x_ids)):
        if beam == 0 or len(words) == 0:
            break

        # The log-probabilities of the next word of each live hypothesis, (hypotheses, K_y).
        contexts = np.stack([attend(params, s, annotations)[1] for s in states])
        y_prev = None if k == 0 else [ids[-1] for ids in words]
        log_probs = readout(params, states, y_prev, contexts)
        if ban_unknown:
            log_probs[:, unk] = -np.inf
        if k < len(x_ids) // 2:
            log_probs[:, eos] = -np.inf

        # The best of all their continuations.
        K_y = log_probs.shape[1]
        next_costs = (costs[:, None] - log_probs).flatten()
        live_words, live_costs, live_from = [], [], []
        for position in cheapest(next_costs, beam):
            origin, word = position // K_y, position % K_y
            if word == eos:
                finished.append(([*words[origin], word], float(next_costs[position])))
                beam -= 1
            else:
                live_words.append([*words[origin], word])
                live_costs.append(next_costs[position])
                live_from.append(origin)

        # The unfinished hypotheses read their new words.
        if len(live_words) > 0:
            new_words = [ids[-1] for ids in live_words]
            states = decoder_step(params, states[live_from], new_words, contexts[live_from])
        words, costs = live_words, np.array(live_costs)

    return sorted(finished, key=lambda hypothesis: hypothesis[1])


def beam_search(
    params: Mapping[str, NDArray], x_ids: Sequence[int], beam: int, eos: int, unk: int, ban_unknown: bool = False
) -> list[Hypothesis]:
    """The finished translations of x as (words with end-of-sentence, cost), lowest cost first; may be empty."""
    params = in_float64(params)
    finished = search_once(params, x_ids, beam, eos, unk, ban_unknown)
    if len(finished) == 0 and ban_unknown:
        finished = search_once(params, x_ids, beam, eos, unk, ban_unknown=False)
    while len(finished) == 0 and beam < 500:
        beam = 2 * beam
        finished = search_once(params, x_ids, beam, eos, unk, ban_unknown=False)
    return finished
