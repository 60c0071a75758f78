"""Parts of fairseq that are computed faster for the models of this package, with the same numbers."""

from collections.abc import Callable
from typing import Any

from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.models import BaseFairseqModel
from torch import Tensor

from rnnsearch_fairseq.criterions.features import features_of, gives_features
from rnnsearch_fairseq.modules.fused.loss import smoothed_loss


def keep_scores_once(
    forward: Callable[..., Any],
    criterion: LabelSmoothedCrossEntropyCriterion,
    model: BaseFairseqModel,
    sample: dict[str, Any],
    reduce: bool = True,
) -> tuple[Tensor, int, dict[str, Any]]:
    """fairseq writes several tensors as large as the scores, of padding, too; here the gradient overwrites the scores.

    See :mod:`rnnsearch_fairseq.modules.fused.loss`. Other models, derived classes with a cost of their own, and the
    options ``--report-accuracy`` and ``--ignore-prefix-size`` go fairseq's way.
    """
    is_usual = type(criterion).compute_loss is LabelSmoothedCrossEntropyCriterion.compute_loss
    needs_scores = criterion.report_accuracy or criterion.ignore_prefix_size or not reduce
    if needs_scores or not is_usual or not gives_features(model):
        return forward(criterion, model, sample, reduce)
    features, layer = features_of(model, sample["net_input"])
    loss, nll = smoothed_loss(features, *layer, sample["target"], criterion.eps, criterion.padding_idx)
    sample_size = len(sample["target"]) if criterion.sentence_avg else sample["ntokens"]
    log = {"loss": loss.detach(), "nll_loss": nll, "ntokens": sample["ntokens"], "nsentences": len(sample["target"])}
    return loss, sample_size, {**log, "sample_size": sample_size}
