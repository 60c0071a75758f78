"""Large matrix products with the faster library of a CPU. Some of its operators are private in PyTorch."""

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

Product = Callable[..., Tensor]  # with a matrix, as `packed_matmul` returns it
MIN_ELEMENTS_TO_PACK = 2**18  # of a matrix that is too large to stay in a core's cache from one position to the next


def packed_matmul(weight: Tensor) -> Product:
    """A function of ``x`` ``(rows, k)``, a ``summand`` ``(rows, n)`` or ``(n,)``, and ``out`` ``(rows, n)``.

    It returns x W^T, plus ``summand`` if not None, in ``out`` or in a new tensor. W is ``(n, k)``, of any strides, and
    is copied at most once: many calls are expected.
    """
    # oneDNN's layout pays for a matrix that does not fit in the cache: it takes a half to two thirds of MKL's time.
    if weight.numel() >= MIN_ELEMENTS_TO_PACK and _is_for_onednn(weight):
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())

        def multiply_packed(x: Tensor, summand: Tensor | None = None, out: Tensor | None = None) -> Tensor:
            bias = summand if summand is not None and summand.dim() == 1 else None
            product = _onednn_linear(x, packed, bias)
            if summand is None or bias is not None:
                return product if out is None else out.copy_(product)
            return torch.add(product, summand, out=out)

        return multiply_packed
    # On a CPU a product with the transposed view takes 10 to 50 % longer.
    columns = weight.T if weight.is_cuda else weight.T.contiguous()

    def multiply(x: Tensor, summand: Tensor | None = None, out: Tensor | None = None) -> Tensor:
        return torch.mm(x, columns, out=out) if summand is None else torch.addmm(summand, x, columns, out=out)

    return multiply


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b, ``(rows, n)``: oneDNN takes 0.7 to 0.85 of MKL's time for the vocabulary's products (AMD Zen 4)."""
    return _onednn_linear(x, weight, bias) if _is_for_onednn(x) else F.linear(x, weight, bias)


def transposed_product(left: Tensor, right: Tensor) -> Tensor:
    """left^T right, ``(k, n)``, for ``(rows, k)`` and fewer columns ``(rows, n)``."""
    return linear(right.T, left.T).T.contiguous() if _is_for_onednn(left) else left.T @ right


def selected_products(weight: Tensor, features: Tensor, words: Tensor, begins: Tensor, candidates: Tensor) -> Tensor:
    """The products of the rows ``words`` of ``features`` with the rows ``candidates`` of ``weight``: ``(pairs,)``.

    The gradient of a weighted sum of rows with respect to its weights consists of these products, and the backward
    pass of embedding_bag computes it. The pairs are sorted by candidate; those of candidate v begin at ``begins[v]``.
    """
    mode = 0  # PyTorch's number for "sum"
    return torch.ops.aten._embedding_bag_per_sample_weights_backward(weight, features, words, begins, candidates, mode)


@functools.cache
def has_private_operators() -> bool:
    """Whether the private operators work: PyTorch may change them, and not every CPU has oneDNN."""
    unit, zero = torch.ones(1, 1, device="cpu"), torch.zeros(1, dtype=torch.int32, device="cpu")
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(unit)
        return _onednn_linear(unit, packed).item() == selected_products(unit, unit, zero, zero, zero).item() == 1
    except (AttributeError, RuntimeError):
        return False


def _is_for_onednn(tensor: Tensor) -> bool:
    is_fitting = tensor.device.type == "cpu" and tensor.dtype == torch.float32 and tensor.numel() > 0
    return is_fitting and has_private_operators()


def _onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b ``(rows, n)``, in float32; ``weight`` W is packed or not."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
