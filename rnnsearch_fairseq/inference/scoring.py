"""ln p(y|x) of given translations, word by word, and the attention to the source's words and phrases."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from rnnsearch_fairseq.modules.symbols import EOS, PAD
from rnnsearch_fairseq.modules.tree_lstm import Forest
from rnnsearch_fairseq.search import Source, mean_attention
from rnnsearch_fairseq.text.forest import build_forest
from rnnsearch_fairseq.text.trees import Tree

MOST_ROWS = 64  # sentences in a batch
MOST_WORDS = 4000  # in a batch, padding included


class Pair(NamedTuple):
    """The ids of a sentence ``(S,)`` and of its translation ``(T,)``, with end-of-sentence, and the sentence's tree."""

    source: Tensor
    target: Tensor
    tree: Tree | None = None


class Score(NamedTuple):
    """Results on the CPU: ``logprobs`` ``(T,)`` in float64, and ``weights`` ``(T, S + P)``, None without attention."""

    logprobs: Tensor
    weights: Tensor | None


def batches(sizes: Sequence[int]) -> list[list[int]]:
    """Group the positions of ``sizes`` (words of each sentence) into batches of similar sentences, longest first."""
    grouped: list[list[int]] = []
    for position in sorted(range(len(sizes)), key=lambda each: -sizes[each]):
        # The first sentence of a batch is its longest.
        if grouped and len(grouped[-1]) < min(MOST_ROWS, MOST_WORDS // max(sizes[grouped[-1][0]], 1)):
            grouped[-1].append(position)
        else:
            grouped.append([position])
    return grouped


def reads_trees(network: nn.Module) -> bool:
    """Whether the network's encoder composes phrases."""
    return getattr(network.encoder, "tree_lstm", None) is not None


def source_batch(sources: Sequence[tuple[Tensor, Tree | None]], trees: bool, device: torch.device) -> Source:
    """A batch of ids and trees, padded on the right; with a forest if ``trees`` is set."""
    words = pad_sequence([ids for ids, _ in sources], batch_first=True, padding_value=PAD)
    forest = None
    if trees:
        parts = build_forest([tree for _, tree in sources], [0] * len(sources), words.size(1))
        forest = Forest(*(part.to(device) if isinstance(part, Tensor) else part for part in parts))
    return Source(words.to(device), forest)


@torch.inference_mode()
def score_pairs(networks: Sequence[nn.Module], pairs: Sequence[Pair]) -> list[Score]:
    """Score each pair, in order, by the mean of the networks' probabilities and of their attention."""
    scores: dict[int, Score] = {}
    for batch in batches([max(len(pair.source), len(pair.target)) for pair in pairs]):
        scores |= zip(batch, _score_batch(networks, [pairs[number] for number in batch]))
    return [scores[number] for number in range(len(pairs))]


def _score_batch(networks: Sequence[nn.Module], pairs: Sequence[Pair]) -> list[Score]:
    device = next(networks[0].parameters()).device
    source = source_batch([(pair.source, pair.tree) for pair in pairs], any(map(reads_trees, networks)), device)
    target = pad_sequence([pair.target for pair in pairs], batch_first=True, padding_value=PAD).to(device)
    previous = torch.cat([target.new_full((len(pairs), 1), EOS), target[:, :-1]], dim=1)
    logprobs, attention = [], []
    for network in networks:
        scores, weights = network(source.words, previous, source.forest if reads_trees(network) else None)
        words = scores.log_softmax(dim=-1, dtype=torch.float32).gather(2, target.unsqueeze(2)).squeeze(2)
        logprobs.append(words.double())
        attention.append(weights)
    # In float64, since a small probability may be zero in float32.
    mean = (torch.stack(logprobs).logsumexp(dim=0) - math.log(len(networks))).cpu()
    weights = mean_attention(attention)
    weights = None if weights is None else weights.float().cpu()
    columns = source.words.size(1)
    return [
        Score(
            mean[row, : len(pair.target)],
            None if weights is None else _without_padding(weights[row, : len(pair.target)], pair, columns),
        )
        for row, pair in enumerate(pairs)
    ]


def _without_padding(weights: Tensor, pair: Pair, columns: int) -> Tensor:
    """The weights of the pair's words and phrases ``(T, S + P)``, from a batch's row ``(T, columns + phrases)``."""
    phrases = 0 if pair.tree is None else pair.tree.leaves - 1
    return torch.cat([weights[:, : len(pair.source)], weights[:, columns : columns + phrases]], dim=1)
