"""RNNsearch and RNNencdec, transcribed from the paper in plain float64 NumPy.

The paper: D. Bahdanau, K. Cho, Y. Bengio, "Neural Machine Translation by Jointly Learning to Align and Translate",
ICLR 2015. This file follows Section 3.1 (Eq. 4-6) and Appendix A, one sentence and one position at a time: no batch,
no padding, no mask, no dropout. The package is tested against this file, which shares no code with it.

Conventions
-----------
Matrices have the paper's orientation: y = W x with W of shape (outputs, inputs), so ``W @ x``. Sentences are lists of
word ids, used exactly as given: nothing appends an end-of-sentence symbol. The paper counts positions from 1; in the
arrays, x_1 and h_1 are at index 0. ``states`` holds s_0 at index 0, hence s_i at index i.

Sizes: m = word embedding, n = hidden units (of each direction of the encoder, and of the decoder), n' = hidden units
of the alignment model, l = maxout units, p = units per maxout pool (2 in the paper), K_x and K_y = vocabulary sizes.
d is the size of a context vector c_i: 2n for RNNsearch, n for RNNencdec.

Parameters
----------
The paper omits the bias terms "for readability"; those below are the ones that the original code trained. There are
no others: none in the gates, the recurrent matrices, the alignment model, the context's projections, or V_o.

=================  ===========  ==============================================================  ==================
name               shape        where it stands                                                 paper
=================  ===========  ==============================================================  ==================
E_x                (m, K_x)     e(x_j) = E_x x_j + b_Ex, shared by the two directions           A.2.1
b_Ex               (m,)         the same                                                        bias
W_f                (n, m)       h~_j = tanh(W_f e(x_j) + b_f + U_f [r_j o h_{j-1}])             A.2.1, forward
b_f                (n,)         the same                                                        bias
U_f                (n, n)       the same                                                        A.2.1, forward
W_z_f, U_z_f       (n,m) (n,n)  z_j = sigmoid(W_z_f e(x_j) + U_z_f h_{j-1})                     A.2.1, forward
W_r_f, U_r_f       (n,m) (n,n)  r_j = sigmoid(W_r_f e(x_j) + U_r_f h_{j-1})                     A.2.1, forward
W_b, b_b, U_b,     as forward   the same unit, read from x_{T_x} to x_1                         A.2.1, backward (*)
W_z_b, U_z_b,
W_r_b, U_r_b
W_s                (n, n)       s_0 = tanh(W_s <-h_1 + b_s)   [RNNencdec: ->h_{T_x}]            A.2.2
b_s                (n,)         the same                                                        bias
W_a                (n', n)      e_ij = v_a^T tanh(W_a s_{i-1} + U_a h_j)                        A.1.2, A.2.2 (*)
U_a                (n', 2n)     the same                                                        A.1.2, A.2.2 (*)
v_a                (n',)        the same                                                        A.1.2, A.2.2 (*)
E_y                (m, K_y)     e(y_i) = E_y y_i + b_Ey                                         A.2.2
b_Ey               (m,)         the same                                                        bias
W                  (n, m)       s~_i = tanh(W e(y_{i-1}) + b + U [r_i o s_{i-1}] + C c_i)       A.1.1, A.2.2
b                  (n,)         the same                                                        bias
U                  (n, n)       the same                                                        A.1.1, A.2.2
C                  (n, d)       the same                                                        A.1.1, A.2.2
W_z, U_z, C_z      as W, U, C   z_i = sigmoid(W_z e(y_{i-1}) + U_z s_{i-1} + C_z c_i)           A.1.1, A.2.2
W_r, U_r, C_r      as W, U, C   r_i = sigmoid(W_r e(y_{i-1}) + U_r s_{i-1} + C_r c_i)           A.1.1, A.2.2
U_o                (p l, n)     t~_i = U_o s_{i-1} + b_o + V_o e(y_{i-1}) + C_o c_i             A.2.2
b_o                (p l,)       the same                                                        bias
V_o                (p l, m)     the same                                                        A.2.2
C_o                (p l, d)     the same                                                        A.2.2
W_o                (K_y, l)     p(y_i) = softmax(W_o t_i + b_y)                                 A.2.2
b_y                (K_y,)       the same                                                        bias
=================  ===========  ==============================================================  ==================

(*) RNNsearch only. Appendix A.2.2: with c_i fixed to ->h_{T_x}, the model is the RNN Encoder-Decoder. Then there is no
alignment model, and nothing reads the backward states: RNNencdec has a forward encoder only. In this file, a dictionary
of parameters without ``W_a`` is an RNNencdec.
"""

# ruff: noqa: E741 (l is the paper's letter)

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Parameters: TypeAlias = Mapping[str, Array]


def parameter_shapes(
    *, n: int, m: int, l: int, n_prime: int, pool: int, K_x: int, K_y: int, encdec: bool
) -> dict[str, tuple[int, ...]]:
    """The table at the top of this file as a dictionary: name -> shape."""
    d = n if encdec else 2 * n
    shapes: dict[str, tuple[int, ...]] = {"E_x": (m, K_x), "b_Ex": (m,), "E_y": (m, K_y), "b_Ey": (m,)}
    for unit in ["", "_f"] if encdec else ["", "_f", "_b"]:
        shapes |= {f"{name}{unit}": (n, m) for name in ("W", "W_z", "W_r")}
        shapes |= {f"{name}{unit}": (n, n) for name in ("U", "U_z", "U_r")}
        shapes[f"b{unit}"] = (n,)
    shapes |= {"C": (n, d), "C_z": (n, d), "C_r": (n, d), "W_s": (n, n), "b_s": (n,)}
    if not encdec:
        shapes |= {"W_a": (n_prime, n), "U_a": (n_prime, 2 * n), "v_a": (n_prime,)}
    shapes |= {"U_o": (pool * l, n), "b_o": (pool * l,), "V_o": (pool * l, m), "C_o": (pool * l, d)}
    return shapes | {"W_o": (K_y, l), "b_y": (K_y,)}


def random_parameters(rng: np.random.Generator, **sizes: Any) -> dict[str, Array]:
    """Draw every parameter at random, for comparing implementations (this is not the paper's initialisation, B.1).

    The ``sizes`` are those of :func:`parameter_shapes`.
    """
    params: dict[str, Array] = {}
    for name, shape in parameter_shapes(**sizes).items():
        if name in ("E_x", "E_y", "v_a"):
            deviation = 1.0
        elif len(shape) == 1:
            deviation = 0.5
        else:
            deviation = 1.0 / np.sqrt(shape[1])
        params[name] = rng.normal(0.0, deviation, size=shape)
    return params


def is_encdec(params: Parameters) -> bool:
    """True for RNNencdec, the model without an alignment model."""
    return "W_a" not in params


def sigmoid(x: Array) -> Array:
    """sigmoid(x) = 1 / (1 + exp(-x)), entry by entry."""
    return 1.0 / (1.0 + np.exp(-x))


def gated_unit(params: Parameters, unit: str, s_prev: Array, inputs: tuple[Array, Array, Array]) -> Array:
    """One step of the gated hidden unit (A.1.1; in the encoder A.2.1): s_{i-1} (n,) -> s_i (n,)::

    z_i  = sigmoid(update_input + U_z s_{i-1})
    r_i  = sigmoid(reset_input  + U_r s_{i-1})
    s~_i = tanh(candidate_input + U [r_i o s_{i-1}])
    s_i  = (1 - z_i) o s_{i-1} + z_i o s~_i
    """
    candidate_input, update_input, reset_input = inputs
    z = sigmoid(update_input + params[f"U_z{unit}"] @ s_prev)
    r = sigmoid(reset_input + params[f"U_r{unit}"] @ s_prev)
    candidate = np.tanh(candidate_input + params[f"U{unit}"] @ (r * s_prev))
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
    candidate_input = params[f"W_{direction}"] @ e + params[f"b_{direction}"]
    gates = params[f"W_z_{direction}"] @ e, params[f"W_r_{direction}"] @ e
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
    return np.tanh(params["W_s"] @ summary + params["b_s"])


def align(params: Parameters, s_prev: Array, annotations: Array) -> Array:
    """The weights alpha_i1 .. alpha_{i T_x} of the annotations, (T_x,) (Eq. 6 and A.1.2). RNNsearch only::

    e_ij     = a(s_{i-1}, h_j) = v_a^T tanh(W_a s_{i-1} + U_a h_j)
    alpha_ij = exp(e_ij) / sum_k exp(e_ik)
    """
    energies = np.array([params["v_a"] @ np.tanh(params["W_a"] @ s_prev + params["U_a"] @ h) for h in annotations])
    exponentials = np.exp(energies - energies.max())
    return exponentials / exponentials.sum()


def context(alpha: Array, annotations: Array) -> Array:
    """c_i = sum_j alpha_ij h_j, (2n,) (Eq. 5)."""
    return sum(weight * h for weight, h in zip(alpha, annotations, strict=True))


def embed_target(params: Parameters, word: int) -> Array:
    """e(y_i) = E_y y_i + b_Ey, (m,)."""
    return params["E_y"][:, word] + params["b_Ey"]


def decoder_step(params: Parameters, s_prev: Array, y_prev: int, c: Array) -> Array:
    """s_i = f(s_{i-1}, y_{i-1}, c_i), (n,) (Eq. 4, A.1.1, A.2.2)::

    z_i  = sigmoid(W_z e(y_{i-1}) + U_z s_{i-1} + C_z c_i)
    r_i  = sigmoid(W_r e(y_{i-1}) + U_r s_{i-1} + C_r c_i)
    s~_i = tanh(W e(y_{i-1}) + b + U [r_i o s_{i-1}] + C c_i)
    s_i  = (1 - z_i) o s_{i-1} + z_i o s~_i
    """
    e = embed_target(params, y_prev)
    candidate_input = params["W"] @ e + params["b"] + params["C"] @ c
    gates = params["W_z"] @ e + params["C_z"] @ c, params["W_r"] @ e + params["C_r"] @ c
    return gated_unit(params, "", s_prev, (candidate_input, *gates))


def maxout(t_tilde: Array, pool: int) -> Array:
    """t_ij = max of the j-th run of ``pool`` adjacent entries of t~_i: (p l,) -> (l,) (A.2.2)."""
    return np.array([max(t_tilde[start : start + pool]) for start in range(0, len(t_tilde), pool)])


def readout(params: Parameters, s: Array, y_prev: int, c: Array, pool: int) -> Array:
    """log p(y_i | y_1 .. y_{i-1}, x) for every word of the target vocabulary, (K_y,) (A.2.2)::

    t~_i   = U_o s + b_o + V_o e(y_{i-1}) + C_o c_i
    t_i    = maxout(t~_i)
    p(y_i) = softmax(W_o t_i + b_y)
    """
    t_tilde = params["U_o"] @ s + params["b_o"] + params["V_o"] @ embed_target(params, y_prev) + params["C_o"] @ c
    scores = params["W_o"] @ maxout(t_tilde, pool) + params["b_y"]
    shifted = scores - scores.max()
    return shifted - np.log(np.exp(shifted).sum())


def decode(
    params: Parameters,
    x_ids: Sequence[int],
    previous_ids: Sequence[int],
    readout_state: str = "previous",
    pool: int = 2,
) -> dict[str, Array]:
    """Run the model over one sentence pair, with the previous words given (Eq. 4-6, A.2.2)::

    alpha_i = align(s_{i-1}, h_1 .. h_{T_x})                        Eq. 6, A.1.2
    c_i     = sum_j alpha_ij h_j             [RNNencdec: ->h_{T_x}]  Eq. 5
    s_i     = f(s_{i-1}, y_{i-1}, c_i)                               A.1.1
    p(y_i)  = g(y_{i-1}, s, c_i)                                     A.2.2
    """
    encdec = is_encdec(params)
    annotations = encode(params, x_ids)
    T_y = len(previous_ids)
    log_probs = np.zeros((T_y, params["W_o"].shape[0]))
    alignments = np.zeros((T_y, len(x_ids)))
    states = np.zeros((T_y + 1, params["W_s"].shape[0]))
    states[0] = initial_state(params, annotations)
    for i in range(1, T_y + 1):
        s_prev, y_prev = states[i - 1], previous_ids[i - 1]
        if encdec:
            c = annotations[-1]
        else:
            alignments[i - 1] = align(params, s_prev, annotations)
            c = context(alignments[i - 1], annotations)
        states[i] = decoder_step(params, s_prev, y_prev, c)
        log_probs[i - 1] = readout(params, s_prev if readout_state == "previous" else states[i], y_prev, c, pool)
    return {"log_probs": log_probs, "states": states} | ({} if encdec else {"alignments": alignments})


def sentence_log_prob(params: Parameters, x_ids: Sequence[int], y_ids: Sequence[int], y_0: int) -> float:
    """log p(y | x) = sum_i log p(y_i | y_1 .. y_{i-1}, x), for y = y_1 .. y_{T_y} after the word y_0."""
    log_probs = decode(params, x_ids, [y_0, *y_ids[:-1]])["log_probs"]
    return sum(float(log_probs[i, y]) for i, y in enumerate(y_ids))
