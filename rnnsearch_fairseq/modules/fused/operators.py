"""PyTorch's private operators that have no public equal; a release may rename or change them, so each is tried once."""

import functools

import torch
from torch import Tensor

SUM = 0  # PyTorch's number for embedding_bag's mode="sum"


@functools.cache
def has_packed_linear() -> bool:
    """Whether :func:`pack` and :func:`packed_linear` work: on CPUs for which PyTorch has oneDNN."""
    one = torch.ones(1, 1, device="cpu")
    try:
        return packed_linear(one, pack(one)).item() == 1
    except (AttributeError, RuntimeError):
        return False


@functools.cache
def has_selected_products() -> bool:
    """Whether :func:`selected_products` works."""
    one, zero = torch.ones(1, 1, device="cpu"), torch.zeros(1, dtype=torch.int32, device="cpu")
    try:
        return selected_products(one, one, zero, zero, zero).item() == 1
    except (AttributeError, RuntimeError):
        return False


def pack(weight: Tensor) -> Tensor:
    """A copy of ``weight`` ``(n, k)``, float32, in oneDNN's own layout, for :func:`packed_linear` only."""
    return torch.ops.mkldnn._reorder_linear_weight(weight)


def packed_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b ``(rows, n)`` by oneDNN, in float32; ``weight`` W is packed or not."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def selected_products(weight: Tensor, features: Tensor, words: Tensor, begins: Tensor, candidates: Tensor) -> Tensor:
    """The products of the rows ``words`` of ``features`` with the rows ``candidates`` of ``weight``: ``(pairs,)``.

    The gradient of a weighted sum of rows with respect to its weights consists of these products, and the backward
    pass of embedding_bag computes it. The pairs are sorted by candidate; those of candidate v begin at ``begins[v]``.
    """
    return torch.ops.aten._embedding_bag_per_sample_weights_backward(weight, features, words, begins, candidates, SUM)
