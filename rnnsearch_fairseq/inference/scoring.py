"""ln p(y|x) of given translations, word by word, and the attention to the source's words and phrases."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from rnnsearch_fairseq.modules.forest import Tree, build_forest
from rnnsearch_fairseq.modules.symbols import EOS, PAD
from rnnsearch_fairseq.modules.tree_lstm import Forest
from rnnsearch_fairseq.search import mean_attention

MAX_BATCH_SENTENCES = 64
MAX_BATCH_WORDS = 4000  # padding included


class Pair(NamedTuple):
    """The ids of a sentence ``(S,)`` and of its translation ``(T,)``, with end-of-sentence, and the sentence's tree."""

    source: Tensor
    target: Tensor
    tree: Tree | None = None


def batches(sizes: Sequence[int]) -> list[list[int]]:
    """Group the positions of ``sizes`` (words of each sentence) into batches of similar sentences, longest first."""
    grouped: list[list[int]] = []
    for position in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        # The first sentence of a batch is its longest.
        if grouped and len(grouped[-1]) < min(MAX_BATCH_SENTENCES, MAX_BATCH_WORDS // max(sizes[grouped[-1][0]], 1)):
            grouped[-1].append(position)
        else:
            grouped.append([position])
    return grouped


def reads_trees(network: nn.Module) -> bool:
    """Whether the network's encoder composes phrases."""
    return getattr(network.encoder, "tree_lstm", None) is not None


def pad_sources(
    sources: Sequence[tuple[Tensor, Tree | None]], trees: bool, device: torch.device
) -> tuple[Tensor, Forest | None]:
    """The ids of sentences, padded on the right ``(batch, src_len)``, and their forest if ``trees`` is set."""
    words = pad_sequence([ids for ids, _ in sources], batch_first=True, padding_value=PAD)
    if not trees:
        return words.to(device), None
    forest = build_forest([tree for _, tree in sources], [0] * len(sources), words.size(1))
    return words.to(device), Forest(*(part.to(device) if isinstance(part, Tensor) else part for part in forest))


class Score(NamedTuple):
    """``logprobs`` of T target words, and their attention to words ``(T, S)`` and phrases ``(T, P)``, on the CPU.

    The weights are None without attention.
    """

    logprobs: Tensor
    weights: Tensor | None
    phrase_weights: Tensor | None

    @classmethod
    def of_batch(
        cls, logprobs: Tensor, weights: Tensor | None, source: Tensor, tree: Tree | None, columns: int
    ) -> "Score":
        """The score of a sentence, whose ``weights`` ``(T, columns + most phrases)`` are those of its padded batch."""
        if weights is None:
            return cls(logprobs, None, None)
        phrases = 0 if tree is None else tree.leaves - 1
        return cls(logprobs, weights[:, : len(source)], weights[:, columns : columns + phrases])


@torch.inference_mode()
def score_pairs(networks: Sequence[nn.Module], pairs: Sequence[Pair]) -> list[Score]:
    """Score each pair, in order, by the mean of the networks' probabilities and of their attention, in float64."""
    scores: dict[int, Score] = {}
    for batch in batches([max(len(pair.source), len(pair.target)) for pair in pairs]):
        scores |= zip(batch, _score_batch(networks, [pairs[number] for number in batch]))
    return [scores[number] for number in range(len(pairs))]


def _score_batch(networks: Sequence[nn.Module], pairs: Sequence[Pair]) -> list[Score]:
    device = next(networks[0].parameters()).device
    words, forest = pad_sources([(pair.source, pair.tree) for pair in pairs], any(map(reads_trees, networks)), device)
    target = pad_sequence([pair.target for pair in pairs], batch_first=True, padding_value=PAD).to(device)
    previous = torch.cat([target.new_full((len(pairs), 1), EOS), target[:, :-1]], dim=1)
    logprobs, attention = [], []
    for network in networks:
        logits, weights = network(words, previous, *([forest] if reads_trees(network) else []))
        chosen = logits.log_softmax(dim=-1, dtype=torch.float32).gather(2, target.unsqueeze(2)).squeeze(2)
        logprobs.append(chosen.double())
        attention.append(weights)
    # In float64, since a small probability may be zero in float32.
    mean = (torch.stack(logprobs).logsumexp(dim=0) - math.log(len(networks))).cpu()
    weights = mean_attention(attention)
    weights = None if weights is None else weights.float().cpu()
    scores = []
    for row, pair in enumerate(pairs):
        rows = row, slice(len(pair.target))
        chosen = None if weights is None else weights[rows]
        scores.append(Score.of_batch(mean[rows], chosen, pair.source, pair.tree, words.size(1)))
    return scores
