"""The fairseq criterion ``summed_nll``, both papers' training cost: the sum of the negative log-likelihoods."""

import math
from typing import Any

from fairseq.criterions import register_criterion
from fairseq.criterions.cross_entropy import CrossEntropyCriterionConfig
from fairseq.logging import metrics
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from fairseq.utils import get_perplexity

from rnnsearch_fairseq.criterions.smoothed_nll import Result, SmoothedNLL

# fairseq's trainer divides gradients by the total sample size, or by 1 if that is 0 (Trainer.train_step). A size of 1
# would not do: fairseq adds the sizes of all workers and accumulated steps.
DIVIDE_BY_NOTHING = 0


@register_criterion("summed_nll", dataclass=CrossEntropyCriterionConfig)
class SummedNLL(SmoothedNLL):
    """-sum log p(y|x) over all words of all sentences of a batch, the cost behind Section 4.2.

    With ``--sentence-avg`` gradients are averaged over sentences, as in the second paper. Otherwise ``--clip-norm 1``
    clips the gradient of the sum, over all workers and ``--update-freq`` steps, at nearly every update. Because of
    Adadelta's epsilon this differs from training on the mean.

    It logs ``nll_sentence_nats`` (as in the paper's Table 2) and ``nll_word_nats``, and fairseq's ``loss`` (bits per
    word) and ``ppl`` (perplexity), which are comparable with ``cross_entropy``.
    """

    def __init__(self, task: FairseqTask, sentence_avg: bool = False) -> None:
        super().__init__(task, sentence_avg, label_smoothing=0.0)

    def forward(self, model: BaseFairseqModel, sample: dict[str, Any], reduce: bool = True) -> Result:
        loss, size, log = super().forward(model, sample, reduce)
        divisor = size if self.sentence_avg else DIVIDE_BY_NOTHING
        return loss, divisor, {**log, "sample_size": divisor}

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict[str, Any]]) -> None:
        """Log the mean cost per sentence and per word."""
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
