"""The Triton kernels against PyTorch's: run by test_triton_kernels.py on a GPU, or without one in the interpreter."""

from typing import Any

import pytest
import torch
from torch import Tensor

from rnnsearch_fairseq.modules.fused import dispatch, kernels, triton_kernels
from tests.modules.builders import ORDERS, assert_fused_follows_autocast, assert_fused_is_reference, tree_outputs

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.03, torch.float16: 0.004}
# Arguments in float32 at least, even if the others are in half precision.
PRECISE = ("weights", "grad_weights", "grad_keys", "grad_energy", "grad_scores")
FUNCTIONS = ["apply_gates", "update_state", "update_state_backward", "reset_backward", "apply_cell"]
FUNCTIONS += ["apply_cell_backward", "attend", "attend_backward", "attend by products", "attend_backward by products"]
BATCH = 3


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(1)


def use_small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make tiles so small that every loop runs several times."""
    monkeypatch.setattr(triton_kernels, "MAX_BLOCK", 4)
    monkeypatch.setattr(triton_kernels, "MAX_TILE", 8)


def arguments(name: str, n: int, src_len: int, complete: bool) -> dict[str, Tensor | None]:
    """Arguments of a function by their names, in float64: parts of larger tensors. ``complete``: none of them is None.

    The LSTM is that of a tree if complete, else that of a sequence.
    """

    def rows(units: int, count: int = BATCH) -> Tensor:
        return torch.randn(2, count, units + 3, dtype=torch.float64)[1, :, 1:-2]

    def contiguous(*shape: int) -> Tensor:
        return torch.randn(2, *shape, dtype=torch.float64)[1]

    children = 2 if complete else 1
    places = torch.tensor([9, 4, 0, 3])[1:] if complete else None
    count = 5 if complete else BATCH  # rows of the tables in which the places are
    if name == "apply_gates":
        mask = torch.tensor([[0.0, 1], [1, 0], [1, 1]]).double()[:, 1:]
        summand, mask = (rows(2 * n), mask) if complete else (None, None)
        return {"gates": rows(2 * n), "summand": summand, "state": rows(n), "mask": mask, "reset_state": rows(n)}
    if name == "update_state":
        return {each: rows(n) for each in ("candidate", "update", "state", "new_state")}
    if name == "update_state_backward":
        wide = {"activations": rows(3 * n), "grads": rows(3 * n)}
        return wide | {each: rows(n) for each in ("state", "grad_new_state", "grad_state")}
    if name == "reset_backward":
        return {each: rows(n) for each in ("reset", "state", "grad_product", "grad_reset", "grad_state")}
    if name.startswith("apply_cell"):
        given = {"gates": rows((children + 3) * n), "child_cells": contiguous(BATCH, children * n), "places": places}
        tables = ("cells", "grad_hiddens", "grad_cells") if name.endswith("backward") else ("hiddens", "cells")
        given |= {table: rows(n, count) for table in tables}
        if name.endswith("backward"):
            given |= {"grad_gates": rows((children + 3) * n), "grad_child_cells": contiguous(BATCH, children * n)}
        return given
    mask = torch.zeros(BATCH, src_len + 1, 2, dtype=torch.bool)
    mask[0, : 2 * src_len // 3] = mask[1, 1 + src_len // 3 :] = True  # on the left, longer than a tile; on the right
    mask, weights = mask[:, :src_len, 0], contiguous(BATCH, src_len)
    if name.endswith("products"):
        states = contiguous(BATCH, src_len, n) / n**0.5
        given = dict.fromkeys(("energy", "aligned", "query")) | {"keys": states, "annotations": states}
        given["context"] = rows(n)
    else:
        given = {"keys": contiguous(BATCH, src_len, n), "annotations": contiguous(BATCH, src_len, 2 * n) / n**0.5}
        given |= {"energy": contiguous(n) / n**0.5, "aligned": contiguous(BATCH, src_len, n)}
        given |= {"query": contiguous(BATCH, n), "context": rows(2 * n)}
    given["weights"] = weights
    to_attend = given | {"product": rows(n), "padding_mask": mask if complete else None}
    if "backward" not in name:
        return to_attend
    kernels.attend(**to_attend)
    grad_weights = torch.randn(BATCH, src_len, 2, dtype=torch.float64)[..., 0] if complete else None
    given |= {"grad_weights": grad_weights, "grad_context": torch.randn_like(given["context"]), "grad_query": rows(n)}
    if name.endswith("products"):
        return given | {"grad_keys": None, "grad_energy": None, "grad_scores": contiguous(BATCH, src_len)}
    return given | {"grad_keys": contiguous(BATCH, src_len, n), "grad_energy": contiguous(BATCH, n)}


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize(
    ("dtype", "n", "src_len"),
    [
        (torch.float64, 1, 1),
        (torch.float64, 5, 18),
        *((dtype, 5, 7) for dtype in TOLERANCES),
        (torch.float32, 1000, 28),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_is_pytorchs(
    name: str, dtype: torch.dtype, n: int, src_len: int, complete: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compares whole tensors, to show that a kernel writes nothing outside the parts that it is given."""
    if complete and n < 1000:
        use_small_tiles(monkeypatch)
    wholes, parts = [], []
    drawn = arguments(name, n, src_len, complete)
    for precision in (dtype, torch.float64):
        copies = {argument: copy_whole(argument, part, dtype, precision) for argument, part in drawn.items()}
        wholes.append({argument: whole for argument, (whole, _) in copies.items() if whole is not None})
        parts.append({argument: part for argument, (_, part) in copies.items()})
    for module, arguments_of_module in zip((triton_kernels, kernels), parts):
        getattr(module, name.removesuffix(" by products"))(**arguments_of_module)
    tolerance = TOLERANCES[dtype]
    for argument in wholes[0].keys() - {"aligned"}:
        found, expected = wholes[0][argument], wholes[1][argument]
        torch.testing.assert_close(found.to(expected.dtype), expected, rtol=tolerance, atol=tolerance, msg=argument)


def copy_whole(
    argument: str, part: Tensor | None, dtype: torch.dtype, precision: torch.dtype
) -> tuple[Tensor | None, Tensor | None]:
    """A copy of the tensor that ``part`` is a view of, rounded to ``dtype``, in ``precision``; and the same view."""
    if part is None:
        return None, None
    whole = part if part._base is None else part._base
    if whole.is_floating_point():
        least = torch.float32 if argument in PRECISE else dtype
        whole = whole.to(torch.promote_types(dtype, least)).to(torch.promote_types(precision, least))
    whole = whole.to(DEVICE, copy=True)
    return whole, whole.as_strided(part.size(), part.stride(), part.storage_offset())


def test_softmax_of_large_energies() -> None:
    query, weights, context = (torch.zeros(1, units, device=DEVICE) for units in (1, 3, 2))
    keys, annotations = torch.tensor([[[1.0], [2.0], [1.0]]], device=DEVICE), torch.ones(1, 3, 2, device=DEVICE)
    energy = torch.tensor([1e4], device=DEVICE)
    triton_kernels.attend(query, keys, annotations, energy, None, None, query, weights, context)
    assert weights.tolist() == [[0, 1, 0]]
    assert context.tolist() == [[1, 1]]


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_softmax_cost(dtype: torch.dtype, padded: bool, smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    if padded:
        use_small_tiles(monkeypatch)
    scores = (3 * torch.randn(4, 11)).to(dtype).to(DEVICE)
    targets = torch.tensor([3, 0, 10, 5 if padded else 3], device=DEVICE)  # 5 is padding
    words = slice(3 if padded else 4)
    exact, found = scores.double(), scores.clone()
    expected = exact[words].clone()
    costs = kernels.softmax_cost(expected, targets[words], None, True, smoothing)
    for keep_gradient in (False, True):
        given = triton_kernels.softmax_cost(found, targets, 5 if padded else None, keep_gradient, smoothing)
        torch.testing.assert_close(given.double(), costs, rtol=1e-5, atol=0)
        if not keep_gradient:
            assert torch.equal(found, scores)
    exact.zero_()[words] = expected
    torch.testing.assert_close(found.double(), exact, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])


def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "on_gpu", lambda tensor: True)
    monkeypatch.setattr(dispatch, "kernels_for", lambda tensor: triton_kernels)


@pytest.mark.parametrize(
    ("alignment_size", "options", "source", "left"),
    [
        (4, {}, "ragged", True),
        (4, ORDERS[2], "ragged", False),
        (0, {}, "ragged", True),
        (1000, {"size": 1000}, "ragged", True),  # the paper's widths
    ],
    ids=str,
)
def test_scans(
    alignment_size: int, options: dict[str, Any], source: str, left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_on_a_gpu(monkeypatch)
    assert_fused_is_reference(alignment_size, options, source, left, tgt_len=3, device=DEVICE)


@pytest.mark.parametrize("size", [4, 300])
def test_tree_scans(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    as_on_a_gpu(monkeypatch)
    (found, parameters), (expected, reference) = (
        tree_outputs(size, torch.float64, fused, DEVICE) for fused in (True, False)
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    for outputs in (found, expected):
        sum((output**2).sum() for output in outputs).backward()
    for name, parameter in parameters.items():
        torch.testing.assert_close(parameter.grad, reference[name].grad, rtol=0, atol=1e-10, msg=name)


def test_scans_under_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    as_on_a_gpu(monkeypatch)
    assert_fused_follows_autocast(4, {}, device=DEVICE)
