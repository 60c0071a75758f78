"""RNNsearch and RNNencdec, transcribed from the paper in plain float64 NumPy.

The paper: D. Bahdanau, K. Cho, Y. Bengio, "Neural Machine Translation by Jointly Learning to Align and Translate",
ICLR 2015. This file follows Section 3.1 (Eq. 4-6) and Appendix A, one sentence and one position at a time: no batch,
no padding, no mask, no dropout. The package is tested against this file, which shares no code with it.

Conventions
-----------
Matrices have the paper's orientation: y = W x with W of shape (outputs, inputs). W x is written ``x @ W.T``: with a
matrix of one vector per row in place of x, the decoder's functions return one result per row. Sentences are lists of
word ids, used exactly as given: nothing appends an end-of-sentence symbol. The paper counts positions from 1; in the
arrays, x_1 and h_1 are at index 0.

Sizes: m = word embedding, n = hidden units (of each direction of the encoder, and of the decoder), n' = hidden units
of the alignment model, l = maxout units, p = units per maxout pool (2 in the paper), K_x and K_y = vocabulary sizes.
d is the size of a context vector c_i: 2n for RNNsearch, n for RNNencdec.

Parameters
----------
The paper omits the bias terms "for readability"; those below are the ones that the original code trained. There are
no others: none in the gates, the recurrent matrices, the alignment model, the context's projections, or V_o.

The equations at each function name them. The names of the forward encoder's unit are W_f, b_f, U_f, W_z_f, U_z_f, W_r_f
and U_r_f. The backward encoder's end in _b, and the decoder's have no ending.

Appendix A.2.2: with c_i fixed to ->h_{T_x}, the model is the RNN Encoder-Decoder. Then there is no alignment model, and
nothing reads the backward states: RNNencdec has a forward encoder only. In this file, a dictionary of parameters
without ``W_a`` is an RNNencdec.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Parameters: TypeAlias = Mapping[str, Array]
Words: TypeAlias = int | Sequence[int]  # one word, or one word per row


def is_encdec(params: Parameters) -> bool:
    """True for RNNencdec, the model without an alignment model."""
    return "W_a" not in params


def sigmoid(x: Array) -> Array:
    """sigmoid(x) = 1 / (1 + exp(-x)), entry by entry."""
    return 1.0 / (1.0 + np.exp(-x))


def gated_unit(params: Parameters, unit: str, s_prev: Array, inputs: tuple[Array, Array, Array]) -> Array:
    """One step of the gated hidden unit (A.1.1; in the encoder A.2.1): s_{i-1} (n,) -> s_i (n,).

    Its equations stand at the encoder's step and the decoder's, which give the products for s~_i, z_i and r_i.
    """
    candidate_input, update_input, reset_input = inputs
    z = sigmoid(update_input + s_prev @ params[f"U_z{unit}"].T)
    r = sigmoid(reset_input + s_prev @ params[f"U_r{unit}"].T)
    candidate = np.tanh(candidate_input + (r * s_prev) @ params[f"U{unit}"].T)
    return (1.0 - z) * s_prev + z * candidate


def encoder_step(params: Parameters, direction: Literal["f", "b"], h_prev: Array, word: int) -> Array:
    """One step of one direction of the encoder (A.2.1), h_{j-1} (n,) -> h_j (n,)::

    e(x_j) = E_x x_j + b_Ex                 x_j is one-hot, so that E_x x_j is a column of E_x
    z_j  = sigmoid(W_z e(x_j) + U_z h_{j-1})
    r_j  = sigmoid(W_r e(x_j) + U_r h_{j-1})
    h~_j = tanh(W e(x_j) + b + U [r_j o h_{j-1}])
    h_j  = (1 - z_j) o h_{j-1} + z_j o h~_j
    """
    e = params["E_x"][:, word] + params["b_Ex"]
    candidate_input = e @ params[f"W_{direction}"].T + params[f"b_{direction}"]
    gates = e @ params[f"W_z_{direction}"].T, e @ params[f"W_r_{direction}"].T
    return gated_unit(params, f"_{direction}", h_prev, (candidate_input, *gates))


def encode(params: Parameters, x_ids: Sequence[int]) -> Array:
    """The annotations h_1 .. h_{T_x}, as rows: (T_x, 2n) for RNNsearch, (T_x, n) for RNNencdec::

    ->h_0         = 0,   ->h_j = gated unit of (->h_{j-1}, x_j),   j = 1 .. T_x
    <-h_{T_x + 1} = 0,   <-h_j = gated unit of (<-h_{j+1}, x_j),   j = T_x .. 1
    h_j = [->h_j ; <-h_j]                                          (forward half first, Section 3.2)
    """
    forward = read(params, "f", x_ids)
    if is_encdec(params):
        return forward
    backward = read(params, "b", reversed(x_ids))[::-1]
    return np.concatenate([forward, backward], axis=1)


def read(params: Parameters, direction: Literal["f", "b"], words: Iterable[int]) -> Array:
    """The states of one direction, as rows, in the order in which it reads."""
    states = [np.zeros(len(params["U_f"]))]
    for word in words:
        states.append(encoder_step(params, direction, states[-1], word))
    return np.array(states[1:])


def initial_state(params: Parameters, annotations: Array) -> Array:
    """s_0, (n,) (A.2.2)::

    RNNsearch:   s_0 = tanh(W_s <-h_1 + b_s)        <-h_1 is the backward half of the first annotation: the
                                                    backward state that has read the whole sentence
    RNNencdec:   s_0 = tanh(W_s ->h_{T_x} + b_s)    ->h_{T_x} is the forward state that has
    """
    n = params["W_s"].shape[0]
    summary = annotations[-1] if is_encdec(params) else annotations[0, n:]
    return np.tanh(summary @ params["W_s"].T + params["b_s"])


def attend(params: Parameters, s_prev: Array, annotations: Array) -> tuple[Array | None, Array]:
    """The weights alpha_i1 .. alpha_{i T_x} of the annotations, (T_x,) (Eq. 6, A.1.2), and c_i (2n,) (Eq. 5)::

    e_ij     = a(s_{i-1}, h_j) = v_a^T tanh(W_a s_{i-1} + U_a h_j)
    alpha_ij = exp(e_ij) / sum_k exp(e_ik)
    c_i      = sum_j alpha_ij h_j

    RNNencdec has no weights, and c_i = ->h_{T_x}.
    """
    if is_encdec(params):
        return None, annotations[-1]
    energies = np.array([params["v_a"] @ np.tanh(params["W_a"] @ s_prev + params["U_a"] @ h) for h in annotations])
    exponentials = np.exp(energies - energies.max())
    alpha = exponentials / exponentials.sum()
    return alpha, sum(weight * h for weight, h in zip(alpha, annotations, strict=True))


def embed_target(params: Parameters, y: Words) -> Array:
    """e(y_i) = E_y y_i + b_Ey, (m,)."""
    return params["E_y"].T[y] + params["b_Ey"]


def decoder_step(params: Parameters, s_prev: Array, y_prev: Words, c: Array) -> Array:
    """s_i = f(s_{i-1}, y_{i-1}, c_i), (n,) (Eq. 4, A.1.1, A.2.2)::

    z_i  = sigmoid(W_z e(y_{i-1}) + U_z s_{i-1} + C_z c_i)
    r_i  = sigmoid(W_r e(y_{i-1}) + U_r s_{i-1} + C_r c_i)
    s~_i = tanh(W e(y_{i-1}) + b + U [r_i o s_{i-1}] + C c_i)
    s_i  = (1 - z_i) o s_{i-1} + z_i o s~_i
    """
    e = embed_target(params, y_prev)
    candidate_input = e @ params["W"].T + params["b"] + c @ params["C"].T
    gates = (e @ params[f"W_{gate}"].T + c @ params[f"C_{gate}"].T for gate in "zr")
    return gated_unit(params, "", s_prev, (candidate_input, *gates))


def maxout(t_tilde: Array, pool: int) -> Array:
    """t_ij = max of the j-th run of ``pool`` adjacent entries of t~_i: (p l,) -> (l,) (A.2.2)."""
    return np.max([t_tilde[..., place::pool] for place in range(pool)], axis=0)


def readout(params: Parameters, s: Array, y_prev: Words | None, c: Array, pool: int) -> Array:
    """log p(y_i | y_1 .. y_{i-1}, x) for every word of the target vocabulary, (K_y,) (A.2.2)::

    t~_i   = U_o s + b_o + V_o e(y_{i-1}) + C_o c_i        without V_o e(y_{i-1}) if there is no word y_{i-1}
    t_i    = maxout(t~_i)
    p(y_i) = softmax(W_o t_i + b_y)
    """
    t_tilde = s @ params["U_o"].T + params["b_o"] + c @ params["C_o"].T
    if y_prev is not None:
        t_tilde = t_tilde + embed_target(params, y_prev) @ params["V_o"].T
    scores = maxout(t_tilde, pool) @ params["W_o"].T + params["b_y"]
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def decode(
    params: Parameters,
    x_ids: Sequence[int],
    previous_ids: Sequence[int],
    readout_state: str = "previous",
    pool: int = 2,
) -> tuple[Array, Array | None]:
    """log p of all words (T_y, K_y), and alpha (T_y, T_x) or None, with the previous words given (Eq. 4-6, A.2.2)::

    alpha_i, c_i = attend(s_{i-1}, h_1 .. h_{T_x})
    s_i          = f(s_{i-1}, y_{i-1}, c_i)
    p(y_i)       = g(y_{i-1}, s_{i-1} or s_i, c_i)
    """
    annotations = encode(params, x_ids)
    s = initial_state(params, annotations)
    log_probs, alignments = [], []
    for y_prev in previous_ids:
        alpha, c = attend(params, s, annotations)
        s_prev, s = s, decoder_step(params, s, y_prev, c)
        log_probs.append(readout(params, s_prev if readout_state == "previous" else s, y_prev, c, pool))
        alignments.append(alpha)
    return np.array(log_probs), None if is_encdec(params) else np.array(alignments)
