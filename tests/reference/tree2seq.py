"""The tree-to-sequence model of Eriguchi, Hashimoto and Tsuruoka (ACL 2016), transcribed in plain float64 NumPy.

The formulas are the paper's, with the details of its authors' code. Everything goes one sentence, one node, one
position, one hypothesis at a time: no batch, no padding, no mask. The package is tested against this file, which shares
no code with it. It computes losses but no gradients.

``params`` are the arrays of a ``Tree2Seq``, by their names there. A layer's rows are those of its gates: i, f, o and u
(the candidate, with tanh), or i, f_left, f_right, o and u of a Tree-LSTM. Sentences are lists of word ids and end with
the end-of-sentence symbol; "len" never counts it. A tree is a word position (a leaf) or a list of two trees, and None
is a failed parse. Sentence-final punctuation and end-of-sentence are words but not leaves.

Sizes: d = every hidden state, K_y = the target vocabulary.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from tests.reference.rnnsearch import Array, Parameters, sigmoid

Tree: TypeAlias = int | Sequence["Tree"]
Hypothesis: TypeAlias = tuple[list[int], float]  # the words, with end-of-sentence if it is finished, and the score
LengthStatistics: TypeAlias = Mapping[int, Mapping[int, int]]  # source length -> target length -> number of pairs


class State(NamedTuple):
    """The hidden state h and the cell state c of one LSTM step or one Tree-LSTM node, (d,) each."""

    h: Array
    c: Array


class Position(NamedTuple):
    """A target position: its (s_j, c_j), s~_j (d,), alpha_j (keys,), and log p of each word (K_y,)."""

    state: State
    s_tilde: Array
    alpha: Array
    log_probs: Array


def log_softmax(z: Array) -> Array:
    """log p, where p_i = e^{z_i} / sum e^{z_k}."""
    shifted = z - z.max()
    return shifted - np.log(np.exp(shifted).sum())


def lstm(params: Parameters, half: str, x: Array, previous: State, fed: Array | float = 0.0) -> State:
    """One step of an LSTM on the input x (m,); ``fed`` (4d,) is the product with the decoder's s~_{j-1}."""
    weights = (params[f"{half}.lstm.from_{name}"] for name in ("input.weight", "state.weight", "input.bias"))
    W, U, b = weights
    i, f, o, u = np.split(W @ x + U @ previous.h + fed + b, 4)
    c = sigmoid(i) * np.tanh(u) + sigmoid(f) * previous.c
    return State(sigmoid(o) * np.tanh(c), c)


def tree_lstm(params: Parameters, layer: str, left: State, right: State) -> State:
    """One node of a binary Tree-LSTM, from its two children."""
    U_left, U_right = np.split(params[f"{layer}.from_children.weight"], 2, axis=1)
    i, f_left, f_right, o, u = np.split(U_left @ left.h + U_right @ right.h + params[f"{layer}.from_children.bias"], 5)
    c = sigmoid(i) * np.tanh(u) + sigmoid(f_left) * left.c + sigmoid(f_right) * right.c
    return State(sigmoid(o) * np.tanh(c), c)


def encode_tree(params: Parameters, tree: Tree, words: Sequence[State]) -> tuple[State, list[State]]:
    """The state of a tree's top node, and the states of all its phrase nodes in pre-order."""
    if isinstance(tree, int):
        return words[tree], []
    left, left_phrases = encode_tree(params, tree[0], words)
    right, right_phrases = encode_tree(params, tree[1], words)
    state = tree_lstm(params, "encoder.tree_lstm", left, right)
    return state, [state, *left_phrases, *right_phrases]


def encode(params: Parameters, src: Sequence[int], tree: Tree | None) -> tuple[State, Array]:
    """(s_1, c_1), and the states that the decoder attends to, (words + phrases, d).

    The words come first, end-of-sentence included, then the phrases in pre-order: the root, its left subtree, its right
    subtree. Without a parse, the root of (s_1, c_1) = Tree-LSTM(end-of-sentence, root) is zero.
    """
    zero = State(*np.zeros((2, params["encoder.lstm.from_state.weight"].shape[1])))
    words: list[State] = []
    for word in src:
        words.append(lstm(params, "encoder", params["encoder.embedding.weight"][word], words[-1] if words else zero))
    root, phrases = (zero, []) if tree is None else encode_tree(params, tree, words)
    start = tree_lstm(params, "decoder.start", words[-1], root)
    return start, np.array([state.h for state in [*words, *phrases]])


def predict(params: Parameters, state: State, keys: Array) -> Position:
    """The attention of s_j to the keys, "s~_j = tanh(W_d [s_j; d_j] + b_d)", and p(y_j) = softmax(W_s s~_j + b_s)."""
    products = np.array([state.h @ key for key in keys])
    exponentials = np.exp(products - products.max())
    alpha = exponentials / exponentials.sum()
    context = sum(weight * key for weight, key in zip(alpha, keys, strict=True))
    combined = params["decoder.from_state.weight"] @ state.h + params["decoder.from_context.weight"] @ context
    s_tilde = np.tanh(combined + params["decoder.from_state.bias"])
    scores = params["decoder.to_vocabulary.weight"] @ s_tilde + params["decoder.to_vocabulary.bias"]
    return Position(state, s_tilde, alpha, log_softmax(scores))


def advance(params: Parameters, previous: Position, y: int, keys: Array) -> Position:
    """The position after y_{j-1}, from (s_{j-1}, c_{j-1}) and s~_{j-1}."""
    fed = params["decoder.from_fed.weight"] @ previous.s_tilde
    return predict(params, lstm(params, "decoder", params["decoder.embedding.weight"][y], previous.state, fed), keys)


def decode(params: Parameters, src: Sequence[int], tree: Tree | None, words: Sequence[int]) -> tuple[Array, Array]:
    """log p of all words (T_y, K_y) and alpha (T_y, keys), with the words of the translation given."""
    start, keys = encode(params, src, tree)
    positions = [predict(params, start, keys)]
    for word in words[:-1]:
        positions.append(advance(params, positions[-1], word, keys))
    return np.array([p.log_probs for p in positions]), np.array([p.alpha for p in positions])


def blackout_token_loss(z: Array, samples: Sequence[int], weights: Array) -> float:
    """The loss of one target word from its scores z (K_y,); ``samples`` begins with the gold word."""
    p = np.exp(log_softmax(np.array([np.log(weights[word]) + z[word] for word in samples])))
    return float(-np.log(p[0]) - sum(np.log1p(-p_i) for p_i in p[1:]))


def length_term(statistics: LengthStatistics, source_length: int, target_length: int) -> float:
    """log p(len(y) | len(x)), the relative frequency among the pairs whose source has that length."""
    if source_length not in statistics:
        return 0.0
    of_source = statistics[source_length]
    count = of_source.get(target_length, 0)
    return float(np.log(count / sum(of_source.values()))) if count else -np.inf


def beam_search(
    params: Parameters,
    src: Sequence[int],
    tree: Tree | None,
    beam: int,
    eos: int,
    max_words: int,
    statistics: LengthStatistics,
) -> list[Hypothesis]:
    """The beam when the search ends, best first. The first hypothesis is the translation; any may be unfinished."""
    start, keys = encode(params, src, tree)
    hypotheses: list[tuple[list[int], float, Position | None]] = [([], 0.0, None)]  # the position before the last word
    for _ in range(max_words):
        candidates = []
        for words, score, position in hypotheses:
            if words[-1:] == [eos]:
                candidates.append((words, score, position))
                continue
            position = advance(params, position, words[-1], keys) if words else predict(params, start, keys)
            log_probs = position.log_probs.copy()
            log_probs[eos] += length_term(statistics, len(src) - 1, len(words))
            candidates += [
                ([*words, word], score + float(log_prob), position) for word, log_prob in enumerate(log_probs)
            ]
        possible = [candidate for candidate in candidates if candidate[1] > -np.inf]
        hypotheses = sorted(possible, key=lambda candidate: -candidate[1])[:beam]
        if not hypotheses or hypotheses[0][0][-1] == eos:
            break
    return [(words, score) for words, score, _ in hypotheses]
