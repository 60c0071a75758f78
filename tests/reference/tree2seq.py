"""The tree-to-sequence model of Eriguchi, Hashimoto and Tsuruoka (ACL 2016), transcribed in plain float64 NumPy.

The formulas are the paper's, with the details of its authors' code. Everything goes one sentence, one node, one
position, one hypothesis at a time: no batch, no padding, no mask. The package is tested against this file, which shares
no code with it, nor with the other transcriptions here. It computes losses but no gradients.

Conventions
-----------
Parameters have the names and the orientation of the original program's arrays. The matrices are (outputs, inputs), used
as ``W @ x``; embeddings and output weights are (size, vocabulary), one column per word. Sentences are lists of word ids
and end with the end-of-sentence symbol; "len" never counts it. Positions are counted from 0 in the arrays and in the
trees, and from 1 in the formulas (s_1, y_1).

A tree is a word position (a leaf) or a list of two trees. Sentence-final punctuation and end-of-sentence are words but
not leaves. None is a failed parse.

Sizes: m = word embedding, d = every hidden state, K_x and K_y = the vocabularies.

Parameters
----------
g is a gate, i, f, o or u (u is the candidate, with tanh); of a Tree-LSTM i, fl, fr, o or u.

==============================  ==========================  ==========================================================
name                            shape                       where it stands
==============================  ==========================  ==========================================================
sourceEmbed, targetEmbed        (m, K_x) (m, K_y)           e(x_j), e(y_j): columns
enc.Wx{g}, enc.Wh{g}, enc.b{g}  (d, m) (d, d) (d)           encoder LSTM
encTree.Wh{g}L, ...R, .b{g}     (d, d) (d, d) (d)           Tree-LSTM over the phrase nodes
initDecTree, as encTree         (d, d) (d, d) (d)           Tree-LSTM for the decoder's start
dec.Wx{g}, .Wh{g}, .Wa{g}       (d, m) (d, d) (d, d)        decoder LSTM on e(y_{j-1}), s_{j-1} and s~_{j-1}
dec.b{g}                        (d)                         the same
Wst, Wct, bs                    (d, d) (d, d) (d)           s~_j = tanh(W_d [s_j; d_j] + b_d), W_d = [Wst, Wct]
softmax.weight, softmax.bias    (d, K_y) (K_y)              p(y_j) = softmax(weight^T s~_j + bias)
==============================  ==========================  ==========================================================
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Parameters: TypeAlias = Mapping[str, Array]
Tree: TypeAlias = int | Sequence["Tree"]
Hypothesis: TypeAlias = tuple[list[int], float]  # the words, with end-of-sentence if it is finished, and the score
LengthStatistics: TypeAlias = Mapping[int, Mapping[int, int]]  # source length -> target length -> number of pairs

LSTM_GATES = ("i", "f", "o", "u")
TREE_GATES = ("i", "fl", "fr", "o", "u")


@dataclass(frozen=True)
class State:
    """The hidden state h and the cell state c of one LSTM step or one Tree-LSTM node, (d,) each."""

    h: Array
    c: Array


def in_float64(params: Mapping[str, NDArray]) -> dict[str, Array]:
    """The same parameters in float64, in which everything here is computed."""
    return {name: np.asarray(params[name], dtype=np.float64) for name in params}


def sigmoid(x: Array) -> Array:
    """sigma(x) = 1 / (1 + exp(-x)), entry by entry."""
    return 1.0 / (1.0 + np.exp(-x))


def lstm_step(params: Parameters, layer: str, previous: State, x: Array, s_tilde: Array | None = None) -> State:
    """One step of an LSTM on the input x (m,); the decoder's reads s~_{j-1} (d,), too."""
    a = {}
    for g in LSTM_GATES:
        a[g] = params[f"{layer}.Wx{g}"] @ x + params[f"{layer}.Wh{g}"] @ previous.h + params[f"{layer}.b{g}"]
        if s_tilde is not None:
            a[g] = a[g] + params[f"{layer}.Wa{g}"] @ s_tilde
    i, f, o, u = sigmoid(a["i"]), sigmoid(a["f"]), sigmoid(a["o"]), np.tanh(a["u"])
    c = i * u + f * previous.c
    return State(o * np.tanh(c), c)


def encoder_step(params: Parameters, previous: State, word: int) -> State:
    """One step of the encoder's LSTM: (h_{j-1}, c_{j-1}) and x_j -> (h_j, c_j)."""
    return lstm_step(params, "enc", previous, params["sourceEmbed"][:, word])


def tree_lstm(params: Parameters, layer: Literal["encTree", "initDecTree"], left: State, right: State) -> State:
    """One node of a binary Tree-LSTM, from its two children."""
    a = {}
    for g in TREE_GATES:
        a[g] = params[f"{layer}.Wh{g}L"] @ left.h + params[f"{layer}.Wh{g}R"] @ right.h + params[f"{layer}.b{g}"]
    i, f_left, f_right = sigmoid(a["i"]), sigmoid(a["fl"]), sigmoid(a["fr"])
    o, u = sigmoid(a["o"]), np.tanh(a["u"])
    c = i * u + f_left * left.c + f_right * right.c
    return State(o * np.tanh(c), c)


def encode_words(params: Parameters, src: Sequence[int]) -> list[State]:
    """(h_j, c_j) of every word, end-of-sentence included; from h_0 = c_0 = 0 ("over the words and end-of-sentence")."""
    d = len(params["enc.bi"])
    states = [State(np.zeros(d), np.zeros(d))]
    for word in src:
        states.append(encoder_step(params, states[-1], word))
    return states[1:]


def encode_tree(params: Parameters, tree: Tree, words: Sequence[State]) -> tuple[State, list[State]]:
    """The state of a tree's top node, and the states of all its phrase nodes in pre-order."""
    if isinstance(tree, int):
        return words[tree], []
    left, left_phrases = encode_tree(params, tree[0], words)
    right, right_phrases = encode_tree(params, tree[1], words)
    state = tree_lstm(params, "encTree", left, right)
    return state, [state, *left_phrases, *right_phrases]


def encode(params: Parameters, src: Sequence[int], tree: Tree | None) -> tuple[State, Array]:
    """(s_1, c_1), and the states that the decoder attends to, (words + phrases, d).

    The words come first, end-of-sentence included, then the phrases in pre-order: the root, its left subtree, its right
    subtree. Without a parse, the root of (s_1, c_1) = Tree-LSTM(end-of-sentence, root) is zero.
    """
    words = encode_words(params, src)
    if tree is None:
        d = len(params["encTree.bi"])
        root, phrases = State(np.zeros(d), np.zeros(d)), []
    else:
        root, phrases = encode_tree(params, tree, words)
    start = tree_lstm(params, "initDecTree", words[-1], root)
    return start, np.array([state.h for state in [*words, *phrases]])


def attend(s: Array, keys: Array) -> tuple[Array, Array]:
    """alpha_j over the keys, (keys,), and the context d_j = sum alpha h, (d,)."""
    products = np.array([s @ key for key in keys])
    exponentials = np.exp(products - products.max())
    alpha = exponentials / exponentials.sum()
    return alpha, sum(weight * key for weight, key in zip(alpha, keys, strict=True))


def attentional_state(params: Parameters, s: Array, context: Array) -> Array:
    """The vector the word is predicted from: "s~_j = tanh(W_d [s_j; d_j] + b_d)", (d,)."""
    return np.tanh(params["Wst"] @ s + params["Wct"] @ context + params["bs"])


def log_softmax(z: Array) -> Array:
    """log p, where p_i = e^{z_i} / sum e^{z_k}."""
    shifted = z - z.max()
    return shifted - np.log(np.exp(shifted).sum())


def decoder_step(params: Parameters, previous: State, y: int, s_tilde: Array) -> State:
    """(s_j, c_j) from (s_{j-1}, c_{j-1}), the word y_{j-1} and s~_{j-1}."""
    return lstm_step(params, "dec", previous, params["targetEmbed"][:, y], s_tilde)


def blackout_token_loss(z: Array, samples: Sequence[int], weights: Array) -> float:
    """The loss of one target word from its scores z (K_y,); ``samples`` begins with the gold word."""
    logs = np.array([np.log(weights[word]) + z[word] for word in samples])
    p = np.exp(logs - logs.max())
    p = p / p.sum()
    return float(-np.log(p[0]) - sum(np.log1p(-p_i) for p_i in p[1:]))


@dataclass(frozen=True)
class Partial:
    """A hypothesis in the beam. Its last word was predicted from ``state`` and ``s_tilde``."""

    words: list[int]
    score: float
    state: State | None
    s_tilde: Array | None


def length_term(statistics: LengthStatistics | None, source_length: int, target_length: int) -> float:
    """log p(len(y) | len(x)), the relative frequency among the pairs whose source has that length."""
    if statistics is None or source_length not in statistics:
        return 0.0
    of_source = statistics[source_length]
    count = of_source.get(target_length, 0)
    if count == 0:
        return -np.inf
    return float(np.log(count / sum(of_source.values())))


def beam_search(
    params: Mapping[str, NDArray],
    src: Sequence[int],
    tree: Tree | None,
    beam: int,
    eos: int,
    max_words: int = 50,
    statistics: LengthStatistics | None = None,
) -> list[Hypothesis]:
    """The beam when the search ends, best first. The first hypothesis is the translation; any may be unfinished."""
    params = in_float64(params)
    start, keys = encode(params, src, tree)
    hypotheses = [Partial([], 0.0, None, None)]

    for _ in range(max_words):
        # (score, the finished hypothesis or the one to continue, the next word or None if finished)
        candidates: list[tuple[float, Partial, int | None]] = []
        for hypothesis in hypotheses:
            if is_finished(hypothesis.words, eos):
                candidates.append((hypothesis.score, hypothesis, None))
                continue
            state = start
            if hypothesis.words:
                state = decoder_step(params, hypothesis.state, hypothesis.words[-1], hypothesis.s_tilde)
            _, context = attend(state.h, keys)
            s_tilde = attentional_state(params, state.h, context)
            log_probs = log_softmax(params["softmax.weight"].T @ s_tilde + params["softmax.bias"])
            log_probs[eos] += length_term(statistics, len(src) - 1, len(hypothesis.words))

            continued = Partial(hypothesis.words, hypothesis.score, state, s_tilde)
            for word in range(len(log_probs)):
                if log_probs[word] > -np.inf:
                    candidates.append((hypothesis.score + float(log_probs[word]), continued, word))

        candidates.sort(key=lambda candidate: -candidate[0])
        hypotheses = [
            of if word is None else Partial([*of.words, word], total, of.state, of.s_tilde)
            for total, of, word in candidates[:beam]
        ]
        if len(hypotheses) == 0 or is_finished(hypotheses[0].words, eos):
            break

    return [(hypothesis.words, hypothesis.score) for hypothesis in hypotheses]


def is_finished(words: Sequence[int], eos: int) -> bool:
    """True if end-of-sentence has been chosen."""
    return len(words) > 0 and words[-1] == eos
