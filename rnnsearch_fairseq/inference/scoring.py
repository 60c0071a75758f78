"""Score a batch of translations: ln p of each word, and the attention to the source's words and phrases."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from rnnsearch_fairseq.modules.symbols import EOS, PAD
from rnnsearch_fairseq.modules.tree_lstm import Forest
from rnnsearch_fairseq.search import mean_attention

MAX_BATCH_SENTENCES = 64
MAX_BATCH_WORDS = 1000  # padding included; with 4,000, a beam of 12 takes 2.6 GB for one long text, and no less time


def batches(sizes: Sequence[int]) -> list[list[int]]:
    """Group sentences of ``sizes`` words into batches of similar lengths, longest first; returns their positions."""
    grouped: list[list[int]] = []
    for position in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        # The first sentence of a batch is its longest.
        if grouped and len(grouped[-1]) < min(MAX_BATCH_SENTENCES, MAX_BATCH_WORDS // max(sizes[grouped[-1][0]], 1)):
            grouped[-1].append(position)
        else:
            grouped.append([position])
    return grouped


@torch.inference_mode()
def score_batch(
    networks: Sequence[nn.Module], words: Tensor, forest: Forest | None, targets: Sequence[Tensor]
) -> tuple[Tensor, Tensor | None]:
    """Compute the mean of the networks' probabilities, and of their attention.

    Args:
        words, forest: the padded ids of the sources ``(batch, src_len)``, and their trees if the networks read any.
        targets: the ids of the translations, end-of-sentence included.

    Returns:
        On the CPU, ln p of each target word, float64 ``(batch, tgt_len)``; and the attention to the words and phrases
        ``(batch, tgt_len, src_len + most phrases)``, None without attention.
    """
    target = pad_sequence(list(targets), batch_first=True, padding_value=PAD).to(words.device)
    previous = torch.cat([target.new_full((len(target), 1), EOS), target[:, :-1]], dim=1)
    logprobs, attention = [], []
    for network in networks:
        logits, weights = network(words, previous, forest)
        chosen = logits.log_softmax(dim=-1, dtype=torch.float32).gather(2, target.unsqueeze(2)).squeeze(2)
        logprobs.append(chosen.double())
        attention.append(weights)
    # In float64, since a small probability may be zero in float32.
    mean = torch.stack(logprobs).logsumexp(dim=0) - math.log(len(networks))
    weights = mean_attention(attention)
    return mean.cpu(), None if weights is None else weights.float().cpu()
