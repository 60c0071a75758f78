"""The Triton kernels against PyTorch's: run by test_triton_kernels.py on a GPU, or without one in the interpreter."""

import inspect
from typing import Any

import pytest
import torch
from numpy import s_
from torch import Tensor

from rnnsearch_fairseq.modules.fused import dispatch, kernels, triton_kernels
from rnnsearch_fairseq.modules.fused.loss import softmax_loss
from tests.modules.builders import ORDERS, assert_fused_follows_autocast, assert_fused_is_reference
from tests.modules.fused.trees import tree_outputs

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PRECISION = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.03, torch.float16: 0.004}
# In float32 even if the others are in half precision
PRECISE = ("weights", "grad_weights", "grad_keys", "grad_energy", "grad_scores")
HELPERS = {"_place", "_load", "_tanh", "_energies", "_dot", "_products"}  # functions inside kernels
KERNELS = {name for name, value in vars(triton_kernels).items() if hasattr(value, "fn")} - HELPERS
Argument = tuple[Tensor, Any] | None  # a tensor, and the index of the part to pass


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(1)


def few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make tiles so small that every loop runs several times."""
    monkeypatch.setattr(triton_kernels, "MAX_BLOCK", 4)
    monkeypatch.setattr(triton_kernels, "MAX_TILE", 8)


@pytest.mark.parametrize(
    ("dtype", "size"),
    [(torch.float64, 1), (torch.float64, 9), *((dtype, 5) for dtype in PRECISION), (torch.bfloat16, 1000)],
    ids=str,
)
@pytest.mark.parametrize("few", [False, True])
def test_unit(dtype: torch.dtype, size: int, few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if few:
        few_at_a_time(monkeypatch)

    def rows() -> Argument:
        return randn(3, size + 3), s_[:, 1:-2]

    mask = (torch.tensor([[0, 1], [1, 0], [1, 1]]).double(), s_[:, 1:]) if few else None
    summand = (randn(3, 3 * size), s_[:, size:]) if few else None
    compare("apply_gates", dtype, (randn(2, 3, 3 * size), s_[1, :, size:]), summand, rows(), mask, rows())
    shares = randn(2, 3, 4 * size).sigmoid()
    candidate, update = (randn(2, 3, 3 * size), s_[1, :, :size]), (shares, s_[1, :, size : 2 * size])
    compare("update_state", dtype, candidate, update, rows(), rows())
    activations, grads = (shares, s_[1, :, : 3 * size]), (randn(2, 3, 4 * size), s_[0, :, : 3 * size])
    compare("update_state_backward", dtype, activations, rows(), rows(), grads, rows())
    compare("reset_backward", dtype, update, rows(), rows(), candidate, rows())


@pytest.mark.parametrize(
    ("dtype", "size"),
    [(torch.float64, 1), (torch.float64, 9), *((dtype, 5) for dtype in PRECISION), (torch.bfloat16, 1000)],
    ids=str,
)
@pytest.mark.parametrize("children", [1, 2])
@pytest.mark.parametrize("few", [False, True])
def test_cell(dtype: torch.dtype, size: int, children: int, few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if few:
        few_at_a_time(monkeypatch)
    places = (torch.tensor([4, 0, 3]), s_[1:]) if children == 2 else None

    def table() -> Argument:
        return randn(5 if places else 2, size + 3), s_[:, 1:-2]

    def by_child() -> Argument:
        return randn(3, children * size), s_[1:]

    gates, grads = ((randn(2, 2, (children + 4) * size), s_[k, :, :-size]) for k in range(2))
    compare("apply_cell", dtype, gates, by_child(), table(), table(), places)
    activations = gates[0].sigmoid(), gates[1]
    compare("apply_cell_backward", dtype, activations, by_child(), table(), table(), table(), grads, by_child(), places)


@pytest.mark.parametrize(
    ("dtype", "src_len", "size", "width", "padded", "few"),
    [
        (torch.float64, 7, 6, 9, False, True),
        (torch.float64, 7, 6, 9, True, True),
        (torch.float64, 1, 1, 2, False, False),
        (torch.float64, 35, 3, 4, True, False),
        (torch.float32, 28, 1000, 2000, True, False),
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
    mask[0, : 2 * src_len // 3] = mask[1, 1 + src_len // 3 :] = True  # on the left, longer than a tile; on the right
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


@pytest.mark.parametrize(
    ("dtype", "count", "size", "few"),
    [
        (torch.float64, 7, 6, True),
        (torch.float64, 1, 1, False),
        (torch.float64, 35, 3, False),
        (torch.float32, 28, 1000, False),
        *((dtype, 7, 6, False) for dtype in PRECISION),
    ],
    ids=str,
)
def test_attention_to_states(
    dtype: torch.dtype, count: int, size: int, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if few:
        few_at_a_time(monkeypatch)
    mask = torch.zeros(2, count, dtype=torch.bool)
    mask[0, : 2 * count // 3] = mask[1, 1 + count // 3 :] = True  # on the left, and in the middle

    def part() -> Argument:
        return randn(2, 3 * size), s_[:, size : 2 * size]

    states, weights = (randn(2, count, size) / size**0.5, s_[:]), (randn(2, count), s_[:])
    *_, weights, context = compare("attend_states", dtype, part(), states, (mask, s_[:]), weights, part())
    context, weights, scores = (context, part()[1]), (weights, s_[:]), (randn(2, count), s_[:])
    grad_weights = (randn(2, count), s_[:]) if few else None
    compare("attend_states_backward", dtype, states, weights, context, grad_weights, part(), scores, part())


@pytest.mark.parametrize("dtype", PRECISION, ids=str)
@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_softmax_cost(dtype: torch.dtype, few: bool, smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    if few:
        few_at_a_time(monkeypatch)
    scores = (3 * randn(4, 11)).to(dtype).to(DEVICE)
    targets = torch.tensor([3, 0, 10, 3], device=DEVICE)
    words = torch.tensor([0, 1, 2] if few else [0, 1, 2, 3], device=DEVICE)
    targets[3] = 5 if few else 3  # 5 is padding
    exact, found = scores.double(), scores.clone()
    expected = exact[words].clone()
    costs = kernels.softmax_cost(expected, targets[words], None, True, smoothing)
    for keep_gradient in (False, True):
        given = triton_kernels.softmax_cost(found, targets, 5 if few else None, keep_gradient, smoothing)
        torch.testing.assert_close(given.double(), costs, rtol=1e-5, atol=0)
        if not keep_gradient:
            assert torch.equal(found, scores)
    exact.zero_()[words] = expected
    torch.testing.assert_close(found.double(), exact, rtol=PRECISION[dtype], atol=PRECISION[dtype])


@pytest.mark.parametrize("rows", [3, 4096])
def test_softmax_loss_of_padded_sentences(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    as_on_a_gpu(monkeypatch)
    monkeypatch.setattr(triton_kernels, "ROWS", rows)
    given = [tensor.to(DEVICE).requires_grad_() for tensor in (randn(2, 4, 5), randn(11, 5), randn(11))]
    targets = torch.tensor([[3, 0, 10, 1], [4, 1, 1, 1]], device=DEVICE)
    scores = torch.nn.functional.linear(*given).flatten(0, 1)
    expected = torch.nn.functional.cross_entropy(scores, targets.flatten(), reduction="sum", ignore_index=1)
    found = softmax_loss(*given, targets, 1)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    for ours, theirs in zip(*(torch.autograd.grad(3 * loss, given) for loss in (found, expected))):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    with torch.no_grad():
        torch.testing.assert_close(softmax_loss(*given, targets, 1), expected.detach(), rtol=0, atol=1e-12)


def test_softmax_of_large_energies() -> None:
    query, weights, context = torch.zeros(1, 1), torch.empty(1, 3), torch.empty(1, 2)
    keys, annotations, energy = torch.tensor([[[1.0], [2.0], [1.0]]]), torch.ones(1, 3, 2), torch.tensor([1e4])
    query, keys, annotations, energy, weights, context = (
        tensor.to(DEVICE) for tensor in (query, keys, annotations, energy, weights, context)
    )
    triton_kernels.attend(query, keys, annotations, energy, None, None, query, weights, context)
    assert weights.tolist() == [[0, 1, 0]]
    assert context.tolist() == [[1, 1]]


def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "on_gpu", lambda tensor: True)
    monkeypatch.setattr(dispatch, "kernels_for", lambda tensor: triton_kernels)


@pytest.mark.parametrize("dtype", PRECISION, ids=str)
def test_all_kernels_are_tried_before_the_first_is_used(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_kernels, "MAX_BLOCK", 16)
    launched = set()
    for name, kernel in vars(triton_kernels).copy().items():
        if name in KERNELS:
            monkeypatch.setattr(triton_kernels, name, Watched(name, kernel, launched))
    triton_kernels.try_all(torch.device(DEVICE), dtype)
    assert launched == KERNELS


class Watched:
    """A kernel that notes its name when it is launched."""

    def __init__(self, name: str, kernel: Any, launched: set[str]) -> None:
        self.name, self.kernel, self.launched = name, kernel, launched

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        self.launched.add(self.name)
        return self.kernel[grid]


@pytest.mark.parametrize(
    ("alignment_size", "order", "source", "left"),
    [
        (4, {}, "ragged", True),
        (4, ORDERS[2], "ragged", False),
        (4, {}, "full", False),
        (0, {}, "ragged", True),
        (1000, {"size": 1000}, "ragged", True),  # the paper's widths
    ],
    ids=str,
)
def test_scans(
    alignment_size: int, order: dict[str, Any], source: str, left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_on_a_gpu(monkeypatch)
    assert_fused_is_reference(alignment_size, order, source, left, tgt_len=3, device=DEVICE)


@pytest.mark.parametrize("size", [4, 1000])
@pytest.mark.parametrize("outputs", [1, 2], ids=["cost", "cost of alpha, too"])
def test_tree_scans(size: int, outputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    as_on_a_gpu(monkeypatch)
    (given, parameters), (expected, reference) = (
        tree_outputs(size, torch.float64, fused, DEVICE) for fused in (True, False)
    )
    factors = [torch.randn_like(tensor) for tensor in expected]
    for tensors in (given, expected):
        sum((factor * tensor).sum() for factor, tensor in list(zip(factors, tensors))[:outputs]).backward()
    for found, tensor in zip(given, expected, strict=True):
        torch.testing.assert_close(found, tensor, rtol=0, atol=1e-10)
    for name, parameter in parameters.items():
        torch.testing.assert_close(parameter.grad, reference[name].grad, rtol=0, atol=1e-10, msg=name)


def test_scans_under_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    as_on_a_gpu(monkeypatch)
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
            precise = torch.promote_types(dtype, torch.float32) if of in PRECISE else dtype
            given[of] = (tensor.to(precise) if tensor.is_floating_point() else tensor).to(DEVICE)
    found = {of: tensor.clone() for of, tensor in given.items()}
    expected = {of: tensor.double() if tensor.is_floating_point() else tensor for of, tensor in given.items()}
    expected = {of: tensor.clone() for of, tensor in expected.items()}
    for module, tensors in ((triton_kernels, found), (kernels, expected)):
        getattr(module, name)(*(tensors[of][parts[of]] if of in tensors else None for of in names))
    for of in found.keys() - {"aligned"}:
        precision = PRECISION[dtype] if found[of].is_floating_point() else 0
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
