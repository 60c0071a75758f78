"""The tree-to-sequence model of Eriguchi, Hashimoto and Tsuruoka (ACL 2016), transcribed in plain float64 NumPy.

The source is ``shared/reference/tree2seq.md`` ("tree2seq.md" below), which has the paper's formulas and the details of
its authors' code. The orientation of the arrays and the sampling table are from the README of
``shared/reference/tree2seq-model`` ("README"). Everything goes one sentence, one node, one position, one hypothesis at
a time: no batch, no padding, no mask. The package is tested against this file, which shares no code with it, nor with
the other transcriptions here. It computes losses but no gradients.

Conventions
-----------
Parameters have the names and the orientation of the recorded npz files. The matrices are (outputs, inputs), used as
``W @ x``; embeddings and output weights are (size, vocabulary), one column per word. Sentences are lists of word
ids and end with the end-of-sentence symbol; "len" never counts it. Positions are counted from 0 in the arrays and in
the trees, and from 1 in the formulas (s_1, y_1).

A tree is a word position (a leaf) or a list of two trees. Sentence-final punctuation and end-of-sentence are words but
not leaves. None is a failed parse.

Sizes: m = word embedding, d = every hidden state, K_x and K_y = the vocabularies ``n_source`` and ``n_target``.

Four models
-----------
The names in a set of parameters tell which model it belongs to (``kind``).

- ``tree``: the paper's model.
- ``sequential``: the baseline, "ANMT: the same without the tree; s_1 = (h_n, c_n)".
- ``embedding_leaves`` and ``unit_leaves``: two readings of the ablation, see ``leaf_state``.

Parameters
----------
g is a gate, i, f, o or u (u is the candidate, with tanh); of a Tree-LSTM i, fl, fr, o or u.

==============================  ==========================  ==========================================================
name                            shape                       where it stands
==============================  ==========================  ==========================================================
sourceEmbed, targetEmbed        (m, K_x) (m, K_y)           e(x_j), e(y_j): columns
enc.Wx{g}, enc.Wh{g}, enc.b{g}  (d, m) (d, d) (d)           encoder LSTM (*)
encTree.Wh{g}L, ...R, .b{g}     (d, d) (d, d) (d)           Tree-LSTM over the phrase nodes (**)
encTree.Wx{g}, g in i o u       (d, m)                      its leaf units: unit_leaves only
initDecTree, as encTree         (d, d) (d, d) (d)           Tree-LSTM for the decoder's start (**)
dec.Wx{g}, .Wh{g}, .Wa{g}       (d, m) (d, d) (d, d)        decoder LSTM on e(y_{j-1}), s_{j-1} and s~_{j-1}
dec.b{g}                        (d)                         the same
Wst, Wct, bs                    (d, d) (d, d) (d)           s~_j = tanh(W_d [s_j; d_j] + b_d), W_d = [Wst, Wct]
softmax.weight, softmax.bias    (d, K_y) (K_y)              p(y_j) = softmax(weight^T s~_j + bias)
blackOut.weight, blackOut.bias  (d, K_y) (K_y)              the same in a model trained with BlackOut
==============================  ==========================  ==========================================================

(*) not in the ablation; (**) not in the sequential baseline.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
Parameters: TypeAlias = Mapping[str, Array]
Kind: TypeAlias = Literal["tree", "sequential", "embedding_leaves", "unit_leaves"]
Tree: TypeAlias = int | Sequence["Tree"]
Span: TypeAlias = tuple[int, int]  # the position of the first word, and the one after the last
Hypothesis: TypeAlias = tuple[list[int], float]  # the words, with end-of-sentence if it is finished, and the score
LengthStatistics: TypeAlias = Mapping[int, Mapping[int, int]]  # source length -> target length -> number of pairs

LSTM_GATES = ("i", "f", "o", "u")
TREE_GATES = ("i", "fl", "fr", "o", "u")
LEAF_GATES = ("i", "o", "u")  # a leaf has no children and therefore no forget gates


@dataclass(frozen=True)
class State:
    """The hidden state h and the cell state c of one LSTM step or one Tree-LSTM node, (d,) each."""

    h: Array
    c: Array


@dataclass(frozen=True)
class Encoding:
    """The encoder's states of a sentence."""

    words: list[State]  # one state per word, the last for end-of-sentence
    phrases: list[State]  # one state per phrase node, in pre-order: the root, its left subtree, its right subtree
    spans: list[Span]  # the spans of the same phrase nodes
    root: State | None  # None for the sequential baseline

    @property
    def keys(self) -> Array:
        """The states that the decoder attends to, (words + phrases, d). README: "words 0..n-1, EOS, then phrases"."""
        return np.array([state.h for state in [*self.words, *self.phrases]])


def parameter_shapes(
    *, d: int, m: int, n_source: int, n_target: int, kind: Kind = "tree", blackout: bool = False
) -> dict[str, tuple[int, ...]]:
    """The table at the top of this file as a dictionary: name -> shape."""
    if kind == "embedding_leaves" and d != m:
        raise ValueError(f"an embedding of size {m} is no hidden state of size {d}")
    shapes: dict[str, tuple[int, ...]] = {"sourceEmbed": (m, n_source), "targetEmbed": (m, n_target)}

    if kind in ("tree", "sequential"):
        for g in LSTM_GATES:
            shapes[f"enc.Wx{g}"] = (d, m)
            shapes[f"enc.Wh{g}"] = (d, d)
            shapes[f"enc.b{g}"] = (d,)

    if kind != "sequential":
        for layer in ("encTree", "initDecTree"):
            for g in TREE_GATES:
                shapes[f"{layer}.Wh{g}L"] = (d, d)
                shapes[f"{layer}.Wh{g}R"] = (d, d)
                shapes[f"{layer}.b{g}"] = (d,)

    if kind == "unit_leaves":
        for g in LEAF_GATES:
            shapes[f"encTree.Wx{g}"] = (d, m)

    for g in LSTM_GATES:
        shapes[f"dec.Wx{g}"] = (d, m)
        shapes[f"dec.Wh{g}"] = (d, d)
        shapes[f"dec.Wa{g}"] = (d, d)
        shapes[f"dec.b{g}"] = (d,)

    shapes["Wst"] = (d, d)
    shapes["Wct"] = (d, d)
    shapes["bs"] = (d,)
    output = "blackOut" if blackout else "softmax"
    shapes[f"{output}.weight"] = (d, n_target)
    shapes[f"{output}.bias"] = (n_target,)
    return shapes


def random_parameters(
    rng: np.random.Generator,
    *,
    d: int,
    m: int,
    n_source: int,
    n_target: int,
    kind: Kind = "tree",
    blackout: bool = False,
) -> dict[str, Array]:
    """Draw every parameter at random, for comparing implementations (this is not the original's initialisation)."""
    shapes = parameter_shapes(d=d, m=m, n_source=n_source, n_target=n_target, kind=kind, blackout=blackout)
    params: dict[str, Array] = {}
    for name, shape in shapes.items():
        if name in ("sourceEmbed", "targetEmbed"):
            deviation = 1.0
        elif len(shape) == 1:
            deviation = 0.5
        elif name.endswith(".weight"):
            deviation = 1.0 / np.sqrt(shape[0])  # (inputs, outputs)
        else:
            deviation = 1.0 / np.sqrt(shape[1])  # (outputs, inputs)
        params[name] = rng.normal(0.0, deviation, size=shape)
    return params


def kind(params: Parameters) -> Kind:
    """Which of the four models these parameters are for."""
    if "initDecTree.bi" not in params:
        return "sequential"
    if "enc.bi" in params:
        return "tree"
    return "unit_leaves" if "encTree.Wxi" in params else "embedding_leaves"


def in_float64(params: Mapping[str, NDArray]) -> dict[str, Array]:
    """The same parameters in float64, in which everything here is computed."""
    return {name: np.asarray(params[name], dtype=np.float64) for name in params}


def sigmoid(x: Array) -> Array:
    """sigma(x) = 1 / (1 + exp(-x)), entry by entry."""
    return 1.0 / (1.0 + np.exp(-x))


def encoder_step(params: Parameters, previous: State, word: int) -> State:
    """One step of the encoder's LSTM: (h_{j-1}, c_{j-1}) and x_j -> (h_j, c_j)."""
    x = params["sourceEmbed"][:, word]
    a = {}
    for g in LSTM_GATES:
        a[g] = params[f"enc.Wx{g}"] @ x + params[f"enc.Wh{g}"] @ previous.h + params[f"enc.b{g}"]
    i, f, o, u = sigmoid(a["i"]), sigmoid(a["f"]), sigmoid(a["o"]), np.tanh(a["u"])
    c = i * u + f * previous.c
    return State(o * np.tanh(c), c)


def tree_lstm(params: Parameters, layer: Literal["encTree", "initDecTree"], left: State, right: State) -> State:
    """One node of a binary Tree-LSTM, from its two children."""
    a = {}
    for g in TREE_GATES:
        a[g] = params[f"{layer}.Wh{g}L"] @ left.h + params[f"{layer}.Wh{g}R"] @ right.h + params[f"{layer}.b{g}"]
    i, f_left, f_right = sigmoid(a["i"]), sigmoid(a["fl"]), sigmoid(a["fr"])
    o, u = sigmoid(a["o"]), np.tanh(a["u"])
    c = i * u + f_left * left.c + f_right * right.c
    return State(o * np.tanh(c), c)


def leaf_state(params: Parameters, word: int) -> State:
    """(h, c) of a word in the ablation, without the sequential LSTM::

    embedding_leaves:  h = e(x_j), c = 0                       needs m = d, as in the paper's small models
    unit_leaves:       i, o = sigma(W e(x_j) + b), u = tanh(W e(x_j) + b), c = i∘u, h = o∘tanh(c)
    """
    x = params["sourceEmbed"][:, word]
    if kind(params) == "embedding_leaves":
        return State(x, np.zeros(len(x)))
    a = {}
    for g in LEAF_GATES:
        a[g] = params[f"encTree.Wx{g}"] @ x + params[f"encTree.b{g}"]
    i, o, u = sigmoid(a["i"]), sigmoid(a["o"]), np.tanh(a["u"])
    c = i * u
    return State(o * np.tanh(c), c)


def reverse_source(src: Sequence[int]) -> list[int]:
    """The words in reverse, for the sequential baseline: "an option reverses the source"."""
    return [*reversed(src[:-1]), src[-1]]


def encode_words(params: Parameters, src: Sequence[int]) -> list[State]:
    """(h_j, c_j) of every word, end-of-sentence included; from h_0 = c_0 = 0 ("over the words and end-of-sentence")."""
    if kind(params) in ("embedding_leaves", "unit_leaves"):
        return [leaf_state(params, word) for word in src]
    d = len(params["enc.bi"])
    state = State(np.zeros(d), np.zeros(d))
    states = []
    for word in src:
        state = encoder_step(params, state, word)
        states.append(state)
    return states


def encode_tree(params: Parameters, tree: Tree, words: Sequence[State]) -> tuple[State, Span, list[tuple[State, Span]]]:
    """The state and the span of a tree's top node, and the states and spans of all its phrase nodes in pre-order."""
    if isinstance(tree, int):
        if not 0 <= tree < len(words) - 1:
            raise ValueError(f"there is no word {tree} that can be a leaf: there are {len(words) - 1} words")
        return words[tree], (tree, tree + 1), []
    if len(tree) != 2:
        raise ValueError(f"a phrase has two children, not {len(tree)}")
    left, left_span, left_phrases = encode_tree(params, tree[0], words)
    right, right_span, right_phrases = encode_tree(params, tree[1], words)
    if left_span[1] != right_span[0]:
        raise ValueError(f"the words {left_span} and {right_span} are not side by side")
    state = tree_lstm(params, "encTree", left, right)
    span = (left_span[0], right_span[1])
    return state, span, [(state, span), *left_phrases, *right_phrases]


def encode(params: Mapping[str, NDArray], src: Sequence[int], tree: Tree | None) -> Encoding:
    """All states of a source sentence. ``tree`` is None for a failed parse, and for the sequential baseline."""
    params = in_float64(params)
    if len(src) == 0:
        raise ValueError("the source has not even an end-of-sentence")
    words = encode_words(params, src)
    if kind(params) == "sequential":
        if tree is not None:
            raise ValueError("the sequential model takes no tree")
        return Encoding(words, [], [], None)
    if tree is None:
        d = len(params["encTree.bi"])
        return Encoding(words, [], [], State(np.zeros(d), np.zeros(d)))
    root, _, phrases = encode_tree(params, tree, words)
    return Encoding(words, [state for state, _ in phrases], [span for _, span in phrases], root)


def start(params: Parameters, encoding: Encoding) -> State:
    """(s_1, c_1)."""
    if encoding.root is None:
        return encoding.words[-1]
    return tree_lstm(params, "initDecTree", encoding.words[-1], encoding.root)


def attend(s: Array, keys: Array) -> tuple[Array, Array]:
    """alpha_j over the keys, (keys,), and the context d_j = sum alpha h, (d,)."""
    products = np.zeros(len(keys))
    for k in range(len(keys)):
        products[k] = s @ keys[k]
    exponentials = np.exp(products - products.max())
    alpha = exponentials / exponentials.sum()

    context = np.zeros(keys.shape[1])
    for k in range(len(keys)):
        context += alpha[k] * keys[k]
    return alpha, context


def attentional_state(params: Parameters, s: Array, context: Array) -> Array:
    """The vector the word is predicted from: "s~_j = tanh(W_d [s_j; d_j] + b_d)", (d,)."""
    return np.tanh(params["Wst"] @ s + params["Wct"] @ context + params["bs"])


def output_scores(params: Parameters, s_tilde: Array) -> Array:
    """z = W_s s~_j + b_s, (K_y,), with BlackOut's weights if the model was trained with it."""
    output = "blackOut" if "blackOut.weight" in params else "softmax"
    return params[f"{output}.weight"].T @ s_tilde + params[f"{output}.bias"]


def log_softmax(z: Array) -> Array:
    """log p, where p_i = e^{z_i} / sum e^{z_k}."""
    shifted = z - z.max()
    return shifted - np.log(np.exp(shifted).sum())


def decoder_step(params: Parameters, previous: State, y: int, s_tilde: Array) -> State:
    """(s_j, c_j) from (s_{j-1}, c_{j-1}), the word y_{j-1} and s~_{j-1}."""
    e = params["targetEmbed"][:, y]
    a = {}
    for g in LSTM_GATES:
        a[g] = params[f"dec.Wx{g}"] @ e + params[f"dec.Wh{g}"] @ previous.h + params[f"dec.Wa{g}"] @ s_tilde
        a[g] = a[g] + params[f"dec.b{g}"]
    i, f, o, u = sigmoid(a["i"]), sigmoid(a["f"]), sigmoid(a["o"]), np.tanh(a["u"])
    c = i * u + f * previous.c
    return State(o * np.tanh(c), c)


@dataclass(frozen=True)
class Decoding:
    """The decoder's results for the given words y_1 .. y_n."""

    log_probs: Array  # (n, K_y): log p(y_j | .) of every word
    scores: Array  # (n, K_y): z_j, whose log-softmax is log_probs
    attention: Array  # (n, keys): alpha_j
    contexts: Array  # (n, d): d_j
    states: list[State]  # (s_j, c_j)
    s_tilde: Array  # (n, d): s~_j


def decode(params: Mapping[str, NDArray], src: Sequence[int], tree: Tree | None, tgt: Sequence[int]) -> Decoding:
    """Run the model over one sentence pair, given the words of the target::

    (s_j, c_j) = start, if j = 1, else the decoder LSTM of y_{j-1}, (s_{j-1}, c_{j-1}) and s~_{j-1}
    alpha_j, d_j = attention of s_j
    s~_j = tanh(W_d [s_j; d_j] + b_d)
    p(y_j) = softmax(W_s s~_j + b_s)
    """
    params = in_float64(params)
    encoding = encode(params, src, tree)
    keys = encoding.keys
    log_probs, scores, attention, contexts, states, s_tildes = [], [], [], [], [], []

    state = start(params, encoding)
    for j in range(len(tgt)):
        if j > 0:
            state = decoder_step(params, state, tgt[j - 1], s_tildes[-1])
        alpha, context = attend(state.h, keys)
        s_tilde = attentional_state(params, state.h, context)
        z = output_scores(params, s_tilde)

        states.append(state)
        attention.append(alpha)
        contexts.append(context)
        s_tildes.append(s_tilde)
        scores.append(z)
        log_probs.append(log_softmax(z))

    return Decoding(
        np.array(log_probs), np.array(scores), np.array(attention), np.array(contexts), states, np.array(s_tildes)
    )


def score(
    params: Mapping[str, NDArray], src: Sequence[int], tree: Tree | None, tgt: Sequence[int]
) -> tuple[Array, Array]:
    """log p(y_j | y_1 .. y_{j-1}, x) of every word of the target, (n,), and the attention, (n, keys)."""
    decoding = decode(params, src, tree, tgt)
    word_log_probs = np.zeros(len(tgt))
    for j in range(len(tgt)):
        word_log_probs[j] = decoding.log_probs[j, tgt[j]]
    return word_log_probs, decoding.attention


def sampling_distribution(counts: Sequence[int], beta: float = 0.4) -> Array:
    """Q, (K_y,): "Q ∝ count^beta (beta 0.4, end-of-sentence counted [...])", normalised to sum 1."""
    powers = np.asarray(counts, dtype=np.float64) ** beta
    return powers / powers.sum()


def sampling_weights(counts: Sequence[int], beta: float = 0.4) -> Array:
    """The constant "weights w = 1/Q", (K_y,)."""
    return 1.0 / sampling_distribution(counts, beta)


def sampling_table(counts: Sequence[int], beta: float = 0.4) -> list[int]:
    """README: "BlackOut samples come from a table with floor(T * Q_i) copies of word i (T = total count)"."""
    total = sum(counts)
    q = sampling_distribution(counts, beta)
    table = []
    for word in range(len(counts)):
        table += [word] * int(np.floor(total * q[word]))
    return table


def blackout_token_loss(z: Array, samples: Sequence[int], weights: Array) -> float:
    """The loss of one target word from its scores z (K_y,); ``samples`` begins with the gold word."""
    logs = np.zeros(len(samples))
    for i, word in enumerate(samples):
        logs[i] = np.log(weights[word]) + z[word]
    p = np.exp(logs - logs.max())
    p = p / p.sum()

    loss = -np.log(p[0])
    for i in range(1, len(samples)):
        loss -= np.log1p(-p[i])
    return float(loss)


def blackout_loss(
    params: Mapping[str, NDArray],
    src: Sequence[int],
    tree: Tree | None,
    tgt: Sequence[int],
    samples: Sequence[Sequence[int]],
    weights: NDArray,
) -> float:
    """The BlackOut loss of a sentence, summed over its words; ``samples[j]`` is the word tgt[j] and its negatives."""
    if [words[0] for words in samples] != list(tgt):
        raise ValueError("the samples of every word begin with that word")
    decoding = decode(params, src, tree, tgt)
    loss = 0.0
    for j in range(len(tgt)):
        loss += blackout_token_loss(decoding.scores[j], samples[j], np.asarray(weights, dtype=np.float64))
    return loss


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
    if beam < 1 or max_words < 1:
        raise ValueError(f"the beam and the number of words must be at least 1, not {beam} and {max_words}")
    params = in_float64(params)
    encoding = encode(params, src, tree)
    keys = encoding.keys
    hypotheses = [Partial([], 0.0, None, None)]

    for _ in range(max_words):
        # (score, the finished hypothesis or the one to continue, the next word or None if finished)
        candidates: list[tuple[float, Partial, int | None]] = []
        for hypothesis in hypotheses:
            if is_finished(hypothesis.words, eos):
                candidates.append((hypothesis.score, hypothesis, None))
                continue

            if len(hypothesis.words) == 0:
                state = start(params, encoding)
            else:
                state = decoder_step(params, hypothesis.state, hypothesis.words[-1], hypothesis.s_tilde)
            _, context = attend(state.h, keys)
            s_tilde = attentional_state(params, state.h, context)
            log_probs = log_softmax(output_scores(params, s_tilde))
            log_probs[eos] += length_term(statistics, len(src) - 1, len(hypothesis.words))

            continued = Partial(hypothesis.words, hypothesis.score, state, s_tilde)
            for word in range(len(log_probs)):
                if log_probs[word] > -np.inf:
                    candidates.append((hypothesis.score + float(log_probs[word]), continued, word))

        candidates.sort(key=lambda candidate: -candidate[0])
        hypotheses = []
        for total, hypothesis, word in candidates[:beam]:
            if word is None:
                hypotheses.append(hypothesis)
            else:
                hypotheses.append(Partial([*hypothesis.words, word], total, hypothesis.state, hypothesis.s_tilde))

        if len(hypotheses) == 0 or is_finished(hypotheses[0].words, eos):
            break

    return [(hypothesis.words, hypothesis.score) for hypothesis in hypotheses]


def is_finished(words: Sequence[int], eos: int) -> bool:
    """True if end-of-sentence has been chosen."""
    return len(words) > 0 and words[-1] == eos


def greedy(
    params: Mapping[str, NDArray], src: Sequence[int], tree: Tree | None, eos: int, max_words: int = 50
) -> Hypothesis:
    """The likeliest word at every step, up to and including end-of-sentence, but at most ``max_words`` words."""
    words: list[int] = []
    total = 0.0
    while len(words) < max_words and not is_finished(words, eos):
        # Decode again from the start for every word. The last row does not depend on the last word, eos.
        log_probs = decode(params, src, tree, [*words, eos]).log_probs[-1]
        words.append(int(log_probs.argmax()))
        total += float(log_probs[words[-1]])
    return words, total
