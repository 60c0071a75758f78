"""Large matrix products, by whichever library is faster on a CPU.

A matrix that is used at every position is put into the fastest memory layout once.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from rnnsearch_fairseq.modules.fused import dispatch

FEW = 8  # rows of x below which a contiguous copy of the transposed matrix does not pay
WIDE = 2**18  # elements of a matrix that is too large to stay in a core's cache from one position to the next


def packed_matmul(weight: Tensor, rows: int | None) -> Callable[..., Tensor]:
    """A function of ``x`` ``(rows, k)``, a ``summand`` ``(rows, n)`` or ``(n,)``, and ``out`` ``(rows, n)``.

    It returns x W^T, plus ``summand`` if not None, in ``out`` or in a new tensor. W is ``(n, k)``, of any strides.
    Other numbers of ``rows`` work, but may take longer. None: they vary, and W is used so often that two copies pay.
    """
    # Packing pays for a matrix that does not fit in the cache.
    packed = _packed(weight.contiguous()) if weight.numel() >= WIDE and _for_onednn(weight) else None
    if packed is not None and rows is not None:
        return packed
    # On a CPU a product with the transposed view takes 10 to 50 % longer, but for few rows the copy costs more.
    copied = (rows is None or rows >= FEW) and not dispatch.on_gpu(weight)
    columns = weight.T.contiguous() if copied else weight.T

    def multiply(x: Tensor, summand: Tensor | None = None, out: Tensor | None = None) -> Tensor:
        # For one row this takes 0.53 to 0.61 of oneDNN's time if W has left the cache (AMD Zen 4).
        if packed is not None and len(x) > 1:
            return packed(x, summand, out)
        return torch.mm(x, columns, out=out) if summand is None else torch.addmm(summand, x, columns, out=out)

    return multiply


def _packed(weight: Tensor) -> Callable[..., Tensor]:
    # oneDNN's layout. It is 1.2 times as fast as MKL for 100 rows and 2 to 3 times for 5 (AMD Zen 4).
    packed = torch.ops.mkldnn._reorder_linear_weight(weight)

    def multiply(x: Tensor, summand: Tensor | None = None, out: Tensor | None = None) -> Tensor:
        bias = summand if summand is not None and summand.dim() == 1 else None
        product = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
        if summand is None or bias is not None:
            return product if out is None else out.copy_(product)
        return torch.add(product, summand, out=out)

    return multiply


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b, ``(rows, n)``: oneDNN takes 0.7 to 0.85 of MKL's time for the vocabulary's products (AMD Zen 4)."""
    if _for_onednn(x):
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return F.linear(x, weight, bias)


def transposed_product(left: Tensor, right: Tensor) -> Tensor:
    """left^T right, ``(k, n)``, for ``(rows, k)`` and fewer columns ``(rows, n)``."""
    if _for_onednn(left):
        return linear(right.T, left.T).T.contiguous()
    return left.T @ right


def _for_onednn(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.dtype == torch.float32 and torch.backends.mkldnn.is_available()
