"""The fairseq criterion ``summed_nll``, both papers' training cost: the sum of the negative log-likelihoods."""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from fairseq.utils import get_perplexity
from omegaconf import II
from torch import Tensor

from rnnsearch_fairseq.models.common import scores_features
from rnnsearch_fairseq.modules.fused.loss import smoothed_loss

# fairseq's trainer divides gradients by the total sample size, or by 1 if that is 0 (Trainer.train_step). A size of 1
# would not do: fairseq adds the sizes of all workers and accumulated steps.
DIVIDE_BY_NOTHING = 0


@dataclass
class SummedNLLConfig(FairseqDataclass):
    """fairseq's ``--sentence-avg``."""

    sentence_avg: bool = II("optimization.sentence_avg")


@register_criterion("summed_nll", dataclass=SummedNLLConfig)
class SummedNLL(FairseqCriterion):
    """-sum log p(y|x) over all words of all sentences of a batch, the cost behind Section 4.2.

    With ``--sentence-avg`` gradients are averaged over sentences, as in the second paper. Otherwise ``--clip-norm 1``
    clips the gradient of the sum, over all workers and ``--update-freq`` steps, at nearly every update. Because of
    Adadelta's epsilon this differs from training on the mean.

    It logs ``nll_sentence_nats`` (as in the paper's Table 2) and ``nll_word_nats``, and fairseq's ``loss`` (bits per
    word) and ``ppl`` (perplexity), which are comparable with ``cross_entropy``.
    """

    def __init__(self, task: FairseqTask, sentence_avg: bool = False) -> None:
        super().__init__(task)
        self.sentence_avg = sentence_avg

    def forward(
        self, model: BaseFairseqModel, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """The cost of a batch, the divisor of the gradients, and the values to log."""
        target = sample["target"]
        if scores_features(model):
            features, extra = model(**sample["net_input"], features_only=True)
            loss, _ = smoothed_loss(features, *extra["output_layer"], target, 0.0, self.padding_idx)
        else:
            scores = model(**sample["net_input"])[0].flatten(0, 1)
            scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
            loss = F.cross_entropy(scores, target.flatten(), ignore_index=self.padding_idx, reduction="sum")
        divisor = len(target) if self.sentence_avg else DIVIDE_BY_NOTHING
        counts = {"ntokens": sample["ntokens"], "nsentences": len(target), "sample_size": divisor}
        return loss, divisor, {"loss": loss.detach(), **counts}

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict[str, Any]]) -> None:
        """Log the mean cost per sentence and per word."""
        nll, words = log_bits(logging_outputs)
        sentences = sum(log["nsentences"] for log in logging_outputs)
        metrics.log_scalar("nll_sentence_nats", nll / sentences, sentences, round=3)
        metrics.log_scalar("nll_word_nats", nll / words, words, round=4)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """True: every logged value is a sum."""
        return True


def log_bits(logging_outputs: list[dict[str, Any]]) -> tuple[Any, int]:
    """Log the cost in bits per word and its perplexity; return the cost in nats, and the number of words."""
    cost, words = (sum(log[name] for log in logging_outputs) for name in ("loss", "ntokens"))
    metrics.log_scalar("loss", cost / words / math.log(2), words, round=3)
    metrics.log_derived("ppl", lambda meters: get_perplexity(meters["loss"].avg))
    return cost, words
