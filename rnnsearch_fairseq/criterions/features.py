"""What a model computes before its output layer, for criterions that score only what they need."""

from typing import Any

from fairseq.models import BaseFairseqModel
from torch import Tensor

from rnnsearch_fairseq.models.common import NetworkModel


def gives_features(model: BaseFairseqModel) -> bool:
    """Whether it is a model of this package, from which :func:`features_of` gets features."""
    return isinstance(model, NetworkModel)


def features_of(model: BaseFairseqModel, net_input: dict[str, Any]) -> tuple[Tensor, list[Tensor]]:
    """The features ``(batch, tgt_len, l)`` of a batch, and its output layer: weight ``(K_y, l)``, bias ``(K_y,)``."""
    features, extra = model(**net_input, features_only=True)
    return features, extra["output_layer"]
