import pytest
import torch

from rnnsearch_fairseq.modules import Maxout


@pytest.mark.parametrize("pool", [1, 2, 3, 6])
def test_maximum_of_adjacent_units(pool: int) -> None:
    units = torch.randn(2, 5, 12)
    pooled = Maxout(pool)(units)
    assert pooled.shape == (2, 5, 12 // pool)
    for j in range(12 // pool):
        assert torch.equal(pooled[..., j], units[..., j * pool : (j + 1) * pool].max(dim=-1).values)


def test_behind_any_layer() -> None:
    network = torch.nn.Sequential(torch.nn.Conv1d(2, 4, 3), Maxout(2), torch.nn.Linear(3, 2))
    assert network(torch.randn(1, 2, 8)).shape == (1, 4, 2)


def test_impossible_pools_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Maxout(0)
    with pytest.raises(ValueError, match="7 units cannot be split into pools of 2"):
        Maxout(2)(torch.randn(3, 7))
