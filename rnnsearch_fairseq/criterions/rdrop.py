"""The fairseq criterion ``rdrop``: label-smoothed cross entropy with R-Drop, for any translation model."""

import math
from dataclasses import dataclass, field
from typing import Any

import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from omegaconf import II
from torch import Tensor

from rnnsearch_fairseq.criterions.features import features_of, gives_features
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.fused.rdrop import rdrop_loss


@dataclass
class RDropConfig(FairseqDataclass):
    """The names are fairseq's, the default alpha is the paper's for translation."""

    label_smoothing: float = field(default=0.0, metadata={"help": "probability given to all other words together"})
    rdrop_alpha: float = field(default=5.0, metadata={"help": "weight of the divergence between two passes"})
    sentence_avg: bool = II("optimization.sentence_avg")


@register_criterion("rdrop", dataclass=RDropConfig)
class RDrop(LabelSmoothedCrossEntropyCriterion):
    """R-Drop (Liang et al., 2021, *R-Drop: Regularized Dropout for Neural Networks*) over label-smoothed cross entropy.

    The model reads each training batch twice, with different dropout. The cost is the mean of the two cross entropies
    plus half of alpha times the divergence of the two distributions. This is half of the paper's cost, so that
    ``--clip-norm`` and the logged numbers mean the same as without R-Drop. ``rdrop_kl_loss`` is the divergence in bits
    per word. Validation is that of ``label_smoothed_cross_entropy``.

    fairseq's own ``label_smoothed_cross_entropy_with_rdrop`` takes more time, cannot double a batch of trees, logs the
    perplexity squared, and fails with ``--eval-bleu``: it doubles batches in validation, too, and in place.
    """

    def __init__(self, task: FairseqTask, label_smoothing: float, rdrop_alpha: float, sentence_avg: bool) -> None:
        super().__init__(task, sentence_avg, label_smoothing)
        if not 0 <= rdrop_alpha < math.inf:
            raise InputError(f"--rdrop-alpha is {rdrop_alpha}, but it must be 0 or a positive number")
        if not 0 <= label_smoothing < 1:
            raise InputError(f"--label-smoothing is {label_smoothing}, but it must be at least 0 and below 1")
        self.alpha = rdrop_alpha

    def forward(
        self, model: BaseFairseqModel, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """The cost of a batch (a scalar in training), the divisor of the gradients, and the values to log."""
        if not model.training:
            return super().forward(model, sample, reduce)
        is_word = sample["target"].ne(self.padding_idx)
        first, second = (score_words(model, sample["net_input"], is_word) for _ in range(2))
        loss, nll, divergence = rdrop_loss(first, second, sample["target"][is_word], self.eps, self.alpha)
        sample_size = len(sample["target"]) if self.sentence_avg else sample["ntokens"]
        return (
            loss / 2,
            sample_size,
            {
                "loss": loss.detach() / 2,
                "nll_loss": nll / 2,
                "rdrop_kl_loss": divergence,
                "ntokens": sample["ntokens"],
                "nsentences": len(sample["target"]),
                "sample_size": sample_size,
            },
        )

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Any]]) -> None:
        """As in fairseq, and in training the divergence of the two passes in bits per word."""
        super().reduce_metrics(logging_outputs)
        if all("rdrop_kl_loss" in log for log in logging_outputs):
            divergence, words = (sum(log[name] for log in logging_outputs) for name in ("rdrop_kl_loss", "ntokens"))
            metrics.log_scalar("rdrop_kl_loss", divergence / words / math.log(2), words, round=4)


def score_words(model: BaseFairseqModel, net_input: dict[str, Any], is_word: Tensor) -> Tensor:
    """The scores of the target words ``is_word`` ``(batch, tgt_len)`` of a batch: ``(words, K_y)``."""
    if gives_features(model):  # padding needs no scores
        features, layer = features_of(model, net_input)
        return F.linear(features[is_word], *layer)
    return model(**net_input)[0][is_word]
