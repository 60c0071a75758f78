"""The fairseq criterion ``smoothed_nll``: label-smoothed cross entropy, for any translation model."""

from dataclasses import dataclass, field
from typing import Any

from fairseq.criterions import register_criterion
from fairseq.criterions.cross_entropy import CrossEntropyCriterionConfig
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.models import BaseFairseqModel
from torch import Tensor

from rnnsearch_fairseq.models.common import scores_features
from rnnsearch_fairseq.modules.fused.loss import smoothed_loss

Result = tuple[Tensor, int, dict[str, Any]]  # the cost of a batch, the divisor of the gradients, the values to log


@dataclass
class SmoothedNLLConfig(CrossEntropyCriterionConfig):
    """fairseq's options, ``sentence_avg`` among them."""

    label_smoothing: float = field(default=0.0, metadata={"help": "probability given to all other words together"})


@register_criterion("smoothed_nll", dataclass=SmoothedNLLConfig)
class SmoothedNLL(LabelSmoothedCrossEntropyCriterion):
    """The numbers of fairseq's ``label_smoothed_cross_entropy``, with less memory for the models of this package."""

    def forward(self, model: BaseFairseqModel, sample: dict[str, Any], reduce: bool = True) -> Result:
        """As in fairseq."""
        if not scores_features(model):
            return super().forward(model, sample, reduce)
        features, extra = model(**sample["net_input"], features_only=True)
        loss, nll = smoothed_loss(features, *extra["output_layer"], sample["target"], self.eps, self.padding_idx)
        sentences, words = len(sample["target"]), sample["ntokens"]
        sample_size = sentences if self.sentence_avg else words
        log = {"loss": loss.detach(), "nll_loss": nll, "ntokens": words, "nsentences": sentences}
        return loss, sample_size, {**log, "sample_size": sample_size}
