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

from rnnsearch_fairseq.criterions.features import features_of, gives_features
from rnnsearch_fairseq.modules.fused.loss import softmax_loss

# fairseq's trainer divides gradients by the total sample size, or by 1 if that is 0 (Trainer.train_step). Any other
# value than 0 would be added up over workers and accumulated steps.
DIVIDE_BY_NOTHING = 0


@dataclass
class SummedNLLConfig(FairseqDataclass):
    """fairseq's ``--sentence-avg``."""

    sentence_avg: bool = II("optimization.sentence_avg")


@register_criterion("summed_nll", dataclass=SummedNLLConfig)
class SummedNLL(FairseqCriterion):
    """-sum log p(y|x) over all words of all sentences of a batch, the cost behind Section 4.2.

    With ``--sentence-avg`` gradients are averaged over sentences, as in the second paper.

    Use it with ``--clip-norm 1``, which then clips the gradient of the sum to norm 1 at nearly every update. Because of
    Adadelta's epsilon this differs from training on the mean. The sum runs over all workers and all ``--update-freq``
    steps.

    It logs ``nll_sentence_nats`` (as in the paper's Table 2) and ``nll_word_nats``, and fairseq's ``loss`` (bits per
    word) and ``ppl`` (perplexity), which are comparable with ``cross_entropy``.
    """

    def __init__(self, task: FairseqTask, sentence_avg: bool = False) -> None:
        super().__init__(task)
        self.sentence_avg = sentence_avg

    def forward(
        self, model: BaseFairseqModel, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """The cost of a batch, the divisor of the gradients, and the values to log.

        The cost is a scalar, or ``(batch · tgt_len,)`` if not ``reduce``.
        """
        if reduce and gives_features(model):
            features, layer = features_of(model, sample["net_input"])
            loss = softmax_loss(features, *layer, sample["target"], self.padding_idx)
        else:
            loss = self.loss_of_scores(model(**sample["net_input"])[0], sample["target"], reduce)
        return self.report(loss, sample)

    def report(self, loss: Tensor, sample: dict[str, Any]) -> tuple[Tensor, int, dict[str, Any]]:
        """What :meth:`forward` returns for a batch of the cost ``loss``."""
        divisor = len(sample["target"]) if self.sentence_avg else DIVIDE_BY_NOTHING
        logging_output = {
            "loss": loss.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": len(sample["target"]),
            "sample_size": divisor,
        }
        return loss, divisor, logging_output

    def loss_of_scores(self, scores: Tensor, target: Tensor, reduce: bool) -> Tensor:
        """The cost of any model's ``scores`` ``(batch, tgt_len, K_y)``; see :meth:`forward`."""
        return F.cross_entropy(
            scores.flatten(0, 1).to(torch.promote_types(scores.dtype, torch.float32)),
            target.flatten(),
            ignore_index=self.padding_idx,
            reduction="sum" if reduce else "none",
        )

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict[str, Any]]) -> None:
        """Log the mean cost per sentence and per word."""
        nll, words, sentences = (
            sum(log.get(name, 0) for log in logging_outputs) for name in ("loss", "ntokens", "nsentences")
        )
        metrics.log_scalar("loss", nll / words / math.log(2), words, round=3)
        metrics.log_derived("ppl", lambda meters: get_perplexity(meters["loss"].avg))
        metrics.log_scalar("nll_sentence_nats", nll / sentences, sentences, round=3)
        metrics.log_scalar("nll_word_nats", nll / words, words, round=4)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        """True: every logged value is a sum."""
        return True
