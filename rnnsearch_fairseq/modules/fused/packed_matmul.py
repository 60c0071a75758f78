"""Products with a matrix that is used at every position: laid out once, for a processor's liking."""

from collections.abc import Callable

import torch
from torch import Tensor

Product = Callable[[Tensor, Tensor | None, Tensor], Tensor]

FEW = 8  # rows
WIDE = 2**19  # elements of a matrix that does not stay in a core's cache from one position to the next


def packed_matmul(weight: Tensor, rows: int) -> Product:
    """x ↦ x W^T, as a function of ``x`` ``(rows, k)``, a ``summand`` or None, and where to put the sum, ``(rows, n)``.

    Args:
        weight: W, ``(n, k)``, of any strides.
        rows: how many rows x has; of another number it takes longer.
    """
    if is_packable(weight):
        weight = weight.contiguous()
        packed = torch.ops.mkl._mkl_reorder_linear_weight(weight, rows)

        def multiply(x: Tensor, summand: Tensor | None, out: Tensor) -> Tensor:
            product = torch.ops.mkl._mkl_linear(x, packed, weight, None, rows)
            return out.copy_(product) if summand is None else torch.add(product, summand, out=out)

        return multiply
    # A transposed matrix, as a layer has it, costs a CPU a tenth to a half more; but a copy for few rows costs more.
    columns = weight.T.contiguous() if rows >= FEW and not weight.is_cuda else weight.T
    return lambda x, summand, out: (
        torch.mm(x, columns, out=out) if summand is None else torch.addmm(summand, x, columns, out=out)
    )


def is_packable(weight: Tensor) -> bool:
    """MKL can keep a matrix as its products read it, which pays where it would be read from memory every time."""
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.float32
        and weight.numel() >= WIDE
        and torch.backends.mkl.is_available()
    )
