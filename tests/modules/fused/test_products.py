"""Products by oneDNN, with packed matrices or not, equal ordinary ones; PyTorch's private operators may be missing."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch

from rnnsearch_fairseq.modules.fused.products import (
    MIN_ELEMENTS_TO_PACK,
    has_private_operators,
    linear,
    packed_matmul,
    transposed_product,
)


@pytest.fixture(params=[True, False], ids=["private operators", "none"])
def operators(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """PyTorch with its private operators, or as a release that renamed them."""
    has_private_operators.cache_clear()
    if not request.param:
        monkeypatch.setattr(torch.ops, "mkldnn", SimpleNamespace())
    elif not has_private_operators():
        pytest.skip("this PyTorch has no oneDNN")
    assert has_private_operators() == request.param
    yield
    has_private_operators.cache_clear()


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize("rows", [1, 20])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("n", [3, pytest.param(MIN_ELEMENTS_TO_PACK // 512, id="packed")])
def test_it_is_the_product(rows: int, transposed: bool, n: int) -> None:
    weight = torch.randn(512, n).T if transposed else torch.randn(n, 512)
    x, summand = torch.randn(rows, 512), torch.randn(rows, 2 * n)[:, n:]
    multiply = packed_matmul(weight)
    surroundings = torch.full((rows, 3 * n), 7.0)
    out = surroundings[:, n : 2 * n]
    assert multiply(x, None, out) is out
    torch.testing.assert_close(out, x @ weight.T, rtol=1e-4, atol=1e-3)
    multiply(x, summand, out)
    torch.testing.assert_close(out, summand + x @ weight.T, rtol=1e-4, atol=1e-3)
    assert surroundings[:, :n].eq(7).all() and surroundings[:, 2 * n :].eq(7).all()
    multiply(x, out, out)
    torch.testing.assert_close(out, summand + 2 * (x @ weight.T), rtol=1e-4, atol=1e-3)


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 1e-5), (torch.float64, 1e-12), (torch.bfloat16, 0.02)])
def test_products_of_the_vocabulary(dtype: torch.dtype, rtol: float) -> None:
    tolerance = {"rtol": rtol, "atol": 5 * rtol}
    x, weight, bias = (torch.randn(*shape).to(dtype) for shape in ((20, 8), (50, 8), (50,)))
    torch.testing.assert_close(linear(x, weight, bias), x @ weight.T + bias, **tolerance)
    torch.testing.assert_close(linear(x.T, weight[:20].T), x.T @ weight[:20], **tolerance)
    product = transposed_product(x, weight[:20, :3])
    torch.testing.assert_close(product, x.T @ weight[:20, :3], **tolerance)
    assert product.is_contiguous()
