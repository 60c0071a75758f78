"""Maxout (Goodfellow et al., 2013), used in the deep output layer of Appendix A.2.2."""

from torch import Tensor, nn


class Maxout(nn.Module):
    """t_j = max{t~_{k(j-1)+1}, ..., t~_{kj}}: the maximum of each group of k adjacent units (A.2.2; there k = 2).

    It has no parameters. The layer before it must have a width that is a multiple of ``pool_size``.

    Raises:
        ValueError: if ``pool_size`` is below 1 or, when called, if the width is not a multiple of it.
    """

    def __init__(self, pool_size: int = 2) -> None:
        super().__init__()
        if pool_size < 1:
            raise ValueError(f"a maxout pool has at least 1 unit, not {pool_size}")
        self.pool_size = pool_size

    def forward(self, units: Tensor) -> Tensor:
        """The maxima ``(..., l)`` of units ``(..., k·l)``."""
        if units.size(-1) % self.pool_size:
            raise ValueError(f"{units.size(-1)} units cannot be split into pools of {self.pool_size}")
        return units.unflatten(-1, (-1, self.pool_size)).amax(dim=-1)

    def extra_repr(self) -> str:
        return f"pool_size={self.pool_size}"
