"""The Triton kernels against PyTorch's: run by test_triton_kernels.py on a GPU, or without one in the interpreter."""

import inspect
from typing import Any

import pytest
import torch
from numpy import s_
from torch import Tensor

from rnnsearch_fairseq.modules.fused import kernels, rnn, triton_kernels
from tests.modules.builders import ORDERS, assert_fused_follows_autocast, assert_fused_is_reference

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PRECISION = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.03, torch.float16: 0.004}
Argument = tuple[Tensor, Any] | None  # a tensor, and the index of the part to pass


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(1)


def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make tiles so small that every loop runs several times."""
    monkeypatch.setattr(triton_kernels, "WIDEST", 4)
    monkeypatch.setattr(triton_kernels, "TILE", 8)


@pytest.mark.parametrize(
    ("dtype", "size"),
    [(torch.float64, 1), (torch.float64, 9), *((dtype, 5) for dtype in PRECISION)],
    ids=str,
)
@pytest.mark.parametrize("few", [False, True])
def test_unit(dtype: torch.dtype, size: int, few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if few:
        few_at_a_time(monkeypatch)

    def rows() -> Argument:
        return randn(3, size + 3), s_[:, 1:-2]

    mask = (torch.tensor([[0, 1], [1, 0], [1, 1]]).double(), s_[:, 1:]) if few else None
    summand = (randn(3, 3 * size), s_[:, : 2 * size]) if few else None
    compare("apply_gates", dtype, (randn(2, 3, 3 * size), s_[1, :, size:]), summand, rows(), mask, rows())
    shares = randn(2, 3, 4 * size).sigmoid()
    candidate, update = (randn(2, 3, 3 * size), s_[1, :, :size]), (shares, s_[1, :, size : 2 * size])
    compare("update_state", dtype, candidate, update, rows(), rows())
    activations, grads = (shares, s_[1, :, : 3 * size]), (randn(2, 3, 4 * size), s_[0, :, : 3 * size])
    compare("update_state_backward", dtype, activations, rows(), rows(), grads, rows())
    compare("reset_backward", dtype, update, rows(), rows(), candidate, rows())


@pytest.mark.parametrize(
    ("dtype", "src_len", "size", "width", "padded", "few"),
    [
        (torch.float64, 7, 6, 9, False, True),
        (torch.float64, 7, 6, 9, True, True),
        (torch.float64, 1, 1, 2, False, False),
        (torch.float64, 35, 3, 4, True, False),
        *((dtype, 7, 6, 9, True, False) for dtype in PRECISION),
    ],
    ids=str,
)
def test_attention(
    dtype: torch.dtype, src_len: int, size: int, width: int, padded: bool, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if few:
        few_at_a_time(monkeypatch)
    mask = torch.zeros(2, src_len + 1, 2, dtype=torch.bool)
    mask[0, : 2 * src_len // 3] = mask[1, 1 + src_len // 3 :] = (
        True  # padding on the left, longer than a tile; on the right
    )
    keys, annotations, energy = randn(2, src_len, size), randn(2, src_len, width), randn(size)
    memory = [(tensor, s_[:]) for tensor in (keys, annotations, energy)]
    query, weights, context = ((randn(2, units), s_[:]) for units in (size, src_len, width))
    *_, query, weights, context = compare(
        "attend", dtype, (randn(2, 3 * size), s_[:, 2 * size :]), *memory,
        (mask, s_[:, :src_len, 0]) if padded else None, (keys, s_[:]), query, weights, context,
    )  # fmt: skip
    compare(
        "attend_backward", dtype, (query, s_[:]), *memory, (keys, s_[:]), (weights, s_[:]), (context, s_[:]),
        (randn(2, src_len, 2), s_[..., 0]) if padded else None, (randn(2, width), s_[:]),
        (randn(2, 2, 3 * size), s_[1, :, size : 2 * size]), (randn(2, src_len, size), s_[:]), (randn(2, size), s_[:]),
    )  # fmt: skip


def test_softmax_of_large_energies() -> None:
    query, weights, context = torch.zeros(1, 1), torch.empty(1, 3), torch.empty(1, 2)
    keys, annotations, energy = torch.tensor([[[1.0], [2.0], [1.0]]]), torch.ones(1, 3, 2), torch.tensor([1e4])
    query, keys, annotations, energy, weights, context = (
        tensor.to(DEVICE) for tensor in (query, keys, annotations, energy, weights, context)
    )
    triton_kernels.attend(query, keys, annotations, energy, None, None, query, weights, context)
    assert weights.tolist() == [[0, 1, 0]]
    assert context.tolist() == [[1, 1]]


@pytest.mark.parametrize(
    ("alignment_size", "order", "source", "left"),
    [(4, {}, "ragged", True), (4, ORDERS[2], "ragged", False), (4, {}, "full", False), (0, {}, "ragged", True)],
    ids=str,
)
def test_scans(
    alignment_size: int, order: dict[str, Any], source: str, left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rnn, "_kernels_for", lambda tensor: triton_kernels)
    assert_fused_is_reference(alignment_size, order, source, left, tgt_len=3, device=DEVICE)


def test_scans_under_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rnn, "_kernels_for", lambda tensor: triton_kernels)
    assert_fused_follows_autocast(4, {}, device=DEVICE)


def compare(name: str, dtype: torch.dtype, *arguments: Argument) -> list[Tensor]:
    """Call a Triton kernel with parts of tensors in ``dtype``, and PyTorch's version with the same in float64.

    Compares whole tensors, to show that the kernel writes nothing outside the parts. Returns PyTorch's results.
    """
    names = inspect.signature(getattr(kernels, name)).parameters
    given, parts = {}, {}
    for of, argument in zip(names, arguments, strict=True):
        if argument is not None:
            tensor, parts[of] = argument
            precise = torch.promote_types(dtype, torch.float32) if of in ("weights", "grad_weights") else dtype
            given[of] = (tensor.to(precise) if tensor.is_floating_point() else tensor).to(DEVICE)
    found = {of: tensor.clone() for of, tensor in given.items()}
    expected = {of: tensor.double() if tensor.is_floating_point() else tensor for of, tensor in given.items()}
    expected = {of: tensor.clone() for of, tensor in expected.items()}
    for module, tensors in ((triton_kernels, found), (kernels, expected)):
        getattr(module, name)(*(tensors[of][parts[of]] if of in tensors else None for of in names))
    for of in found.keys() - {"aligned"}:
        precision = PRECISION.get(found[of].dtype, 0)
        torch.testing.assert_close(
            found[of].to(expected[of].dtype),
            expected[of],
            rtol=precision,
            atol=precision,
            msg=lambda text, of=of: f"{name}: {of}: {text}",
        )
    return list(expected.values())


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64)
