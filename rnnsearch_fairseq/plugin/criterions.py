"""The fairseq criterions ``smoothed_nll`` (for any translation model), ``summed_nll`` and ``blackout``."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.cross_entropy import CrossEntropyCriterionConfig
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.data import BaseWrapperDataset, FairseqDataset, data_utils
from fairseq.logging import metrics
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from fairseq.utils import get_perplexity
from torch import Tensor

from rnnsearch_fairseq.command_line import described
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.blackout import AliasTable, alias_table, draw_negatives
from rnnsearch_fairseq.modules.fused.blackout import blackout_loss
from rnnsearch_fairseq.modules.fused.loss import smoothed_loss
from rnnsearch_fairseq.plugin.models import scores_features

Result = tuple[Tensor, int, dict[str, Any]]  # cost of a batch, divisor of the gradients, values for the log
# fairseq's trainer divides gradients by the total sample size, or by 1 if this is 0 (Trainer.train_step). Sizes of 1
# would be wrong, because fairseq adds the sizes of all workers and accumulated steps.
DIVIDE_BY_NOTHING = 0


@register_criterion("smoothed_nll", dataclass=LabelSmoothedCrossEntropyCriterionConfig)
class SmoothedNLL(LabelSmoothedCrossEntropyCriterion):
    """fairseq's ``label_smoothed_cross_entropy``, which needs less memory here for the models of this package."""

    def forward(self, model: BaseFairseqModel, sample: dict[str, Any], reduce: bool = True) -> Result:
        if self.report_accuracy or self.ignore_prefix_size or not scores_features(model):
            return super().forward(model, sample, reduce)
        features, extra = model(**sample["net_input"], features_only=True)
        loss, nll = smoothed_loss(features, *extra["output_layer"], sample["target"], self.eps, self.padding_idx)
        return self.result(loss, sample, nll_loss=nll)

    def result(self, loss: Tensor, sample: dict[str, Any], **log: Tensor) -> Result:
        """The result of a batch, whose gradients are averaged over sentences or words."""
        sentences, words = len(sample["target"]), sample["ntokens"]
        divisor = sentences if self.sentence_avg else words
        counts = {"ntokens": words, "nsentences": sentences, "sample_size": divisor}
        return loss, divisor, {"loss": loss.detach(), **log, **counts}


@register_criterion("summed_nll", dataclass=CrossEntropyCriterionConfig)
class SummedNLL(SmoothedNLL):
    """-sum log p(y|x) over all words of all sentences of a batch: the cost of both papers (Section 4.2 of the first).

    With ``--sentence-avg``, gradients are averaged over sentences, as in the second paper. Without it, ``--clip-norm
    1`` clips the gradient of the sum, over all workers and ``--update-freq`` steps, at nearly every update. Because of
    Adadelta's epsilon, this differs from a training on the mean.

    The log has ``nll_sentence_nats`` (as in the paper's Table 2) and ``nll_word_nats``. fairseq's ``loss`` (bits per
    word) and ``ppl`` (perplexity) can be compared with those of ``cross_entropy``.
    """

    def __init__(self, task: FairseqTask, sentence_avg: bool = False) -> None:
        super().__init__(task, sentence_avg, label_smoothing=0.0)

    def forward(self, model: BaseFairseqModel, sample: dict[str, Any], reduce: bool = True) -> Result:
        loss, size, log = super().forward(model, sample, reduce)
        divisor = size if self.sentence_avg else DIVIDE_BY_NOTHING
        return loss, divisor, {**log, "sample_size": divisor}

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict[str, Any]]) -> None:
        nll, words = log_bits(logging_outputs)
        sentences = sum(log["nsentences"] for log in logging_outputs)
        metrics.log_scalar("nll_sentence_nats", nll / sentences, sentences, round=3)
        metrics.log_scalar("nll_word_nats", nll / words, words, round=4)


def log_bits(logging_outputs: list[dict[str, Any]]) -> tuple[Any, int]:
    """Log the cost in bits per word and its perplexity; return the cost in nats, and the number of words."""
    cost, words = (sum(log[name] for log in logging_outputs) for name in ("loss", "ntokens"))
    metrics.log_scalar("loss", cost / words / math.log(2), words, round=3)
    metrics.log_derived("ppl", lambda meters: get_perplexity(meters["loss"].avg))
    return cost, words


@dataclass
class BlackOutConfig(CrossEntropyCriterionConfig):
    """The defaults are the paper's settings for its small data set; the large data set has 2,500 negatives."""

    blackout_samples: int = described(500, "K: negative words drawn for each target word")
    blackout_alpha: float = described(
        0.4, "exponent: a word is drawn in proportion to its count in the training targets to this power"
    )


@register_criterion("blackout", dataclass=BlackOutConfig)
class BlackOut(SmoothedNLL):
    """The cost of Section 3.4, summed over words; ``--sentence-avg`` averages the gradients over sentences."""

    def __init__(self, task: FairseqTask, blackout_samples: int, blackout_alpha: float, sentence_avg: bool) -> None:
        super().__init__(task, sentence_avg, label_smoothing=0.0)
        self.samples, self.alpha = blackout_samples, blackout_alpha
        self.proposal: tuple[Tensor, AliasTable] | None = None  # log Q and Q's alias table

    def forward(self, model: BaseFairseqModel, sample: dict[str, Any], reduce: bool = True) -> Result:
        if not scores_features(model):
            raise InputError("--criterion blackout needs a model of this package; give another --arch or --criterion")
        if not model.training:
            return super().forward(model, sample, reduce)
        features, extra = model(**sample["net_input"], features_only=True)
        is_word = sample["target"].ne(self.padding_idx)
        features, targets = features[is_word], sample["target"][is_word]
        if self.proposal is None:
            pairs = self.task.dataset(self.task.cfg.train_subset)
            counts = count_targets(pairs, len(self.task.target_dictionary))
            self.proposal = make_proposal(counts, self.alpha, features.device)
        negatives = draw_negatives(targets, self.samples, self.proposal[1])
        loss = blackout_loss(features, targets, negatives, *extra["output_layer"], self.proposal[0])
        return self.result(loss, sample)

    reduce_metrics = staticmethod(log_bits)  # in training, bits of the BlackOut cost, not of the softmax


def count_targets(pairs: FairseqDataset, vocabulary_size: int) -> np.ndarray:
    """Count each id in the targets that training reads, end-of-sentence included: int64 ``(K_y,)``.

    If the data is in several folders (``bin0:bin1``), only the folder that is loaded first counts.
    """
    with data_utils.numpy_seed(0):  # a data set that shuffles must not change the random numbers of training
        numbers = pairs.ordered_indices()
    while isinstance(pairs, BaseWrapperDataset):
        pairs = pairs.dataset
    counts = np.zeros(vocabulary_size, dtype=np.int64)
    for number in numbers:
        np.add.at(counts, pairs.tgt[number].numpy(), 1)
    return counts


def make_proposal(counts: np.ndarray, alpha: float, device: torch.device) -> tuple[Tensor, AliasTable]:
    """Compute log Q ``(K_y,)`` and Q's alias table. Q is proportional to count^alpha.

    Words that never occur are not drawn. These words get the log Q of the rarest word, so that their cost is finite.
    Infinity would do harm if a process has no batch left for an update: fairseq then multiplies the cost of a
    development batch by zero.
    """
    powers = np.where(counts > 0, counts.astype(np.float64) ** alpha, 0.0)
    proposal = torch.from_numpy(powers / powers.sum()).to(device)
    rarest = proposal[proposal > 0].min()
    return proposal.clamp(min=rarest).log(), alias_table(proposal)
