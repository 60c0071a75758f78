"""Products with a matrix that is used at every position, and is therefore put into the fastest memory layout once."""

from collections.abc import Callable

import torch
from torch import Tensor

from rnnsearch_fairseq.modules.fused import dispatch

Product = Callable[[Tensor, Tensor | None, Tensor], Tensor]

FEW = 8  # rows of x below which a contiguous copy of the transposed matrix does not pay
WIDE = 2**19  # elements of a matrix that is too large to stay in a core's cache from one position to the next


def packed_matmul(weight: Tensor, rows: int) -> Product:
    """A function that writes x W^T, plus a ``summand`` if not None, into ``out`` and returns ``out``.

    Its arguments are ``x`` ``(rows, k)``, ``summand`` and ``out`` ``(rows, n)``.

    Args:
        weight: W, ``(n, k)``, of any strides. Or several matrices ``(d, n, k)``, which multiply d equal parts of the
            rows of x: the first of them the first part, and so on.
        rows: the number of rows of x; other numbers work, but take longer.
    """
    if weight.dim() == 3:
        return _several(weight)
    if is_packable(weight):
        weight = weight.contiguous()
        packed = torch.ops.mkl._mkl_reorder_linear_weight(weight, rows)

        def multiply(x: Tensor, summand: Tensor | None, out: Tensor) -> Tensor:
            product = torch.ops.mkl._mkl_linear(x, packed, weight, None, rows)
            return out.copy_(product) if summand is None else torch.add(product, summand, out=out)

        return multiply
    # On a CPU a product with the transposed view takes 10 to 50 % longer, but for few rows the copy costs more.
    columns = weight.T.contiguous() if rows >= FEW and not dispatch.on_gpu(weight) else weight.T
    return lambda x, summand, out: (
        torch.mm(x, columns, out=out) if summand is None else torch.addmm(summand, x, columns, out=out)
    )


def _several(weights: Tensor) -> Product:
    columns, parts = weights.mT, (len(weights), -1)

    def multiply(x: Tensor, summand: Tensor | None, out: Tensor) -> Tensor:
        x, product = x.unflatten(0, parts), out.unflatten(0, parts)
        if summand is None:
            torch.bmm(x, columns, out=product)
        elif summand is out:
            product.baddbmm_(x, columns)
        else:
            torch.baddbmm(summand.unflatten(0, parts), x, columns, out=product)
        return out

    return multiply


def is_packable(weight: Tensor) -> bool:
    """Whether MKL can pack the matrix and packing pays, because the matrix does not fit in the cache."""
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and weight.numel() >= WIDE
        and torch.backends.mkl.is_available()
    )
