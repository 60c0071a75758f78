"""Recorded loops, with a recorder of this file in place of a GPU's graphs: it repeats a loop's operations on a CPU."""

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rnnsearch_fairseq.modules.fused import recording
from tests.modules.fused.test_networks import CONFIGS, make_sample, run


class Operations(TorchDispatchMode):
    """Records the operations inside it, with their tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[tuple[Callable[..., Any], Any, Any, Any]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **kwargs or {})
        self.records.append((function, args, kwargs or {}, result))
        return result


def record(work: Callable[[], list[Tensor]], device: torch.device) -> tuple[Callable[[], None], list[Tensor]]:
    """As a CUDA graph: ``replay`` repeats the operations at the same addresses, without the code between them."""
    with Operations() as mode:
        results = work()

    def replay() -> None:
        for function, args, kwargs, old in mode.records:
            new = function(*args, **kwargs)
            for before, after in zip(tree_leaves(old), tree_leaves(new)):
                if isinstance(before, Tensor) and before.data_ptr() != after.data_ptr():
                    before.copy_(after)

    for result in results:
        result.fill_(torch.nan)  # a graph is recorded without doing its work
    return replay, results


@pytest.fixture(autouse=True)
def recordings(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
    monkeypatch.setattr(recording, "_buffers", {})
    monkeypatch.setattr(recording, "_recordings", {})
    monkeypatch.setattr(recording, "_seen", set())
    monkeypatch.setitem(recording.RECORDERS, "cpu", record)
    return recording._recordings


@pytest.mark.parametrize("name", CONFIGS)
def test_replayed_networks_are_the_same(name: str, recordings: dict[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    sample = make_sample("ragged", True)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    seen, recorded, replayed = (run(name, "fused", sample) for _ in range(3))
    assert recordings and all(recordings.values())
    assert all(loop.__name__ == "rerun" for loop in recordings.values())
    torch.testing.assert_close(recorded, seen, rtol=0, atol=0)
    torch.testing.assert_close(replayed, seen, rtol=0, atol=0)


@recording.recorded
def add(first: Tensor, second: Tensor, factor: int) -> tuple[Tensor, ...]:
    return (first + factor * second,)


def test_results_stay_when_the_recording_is_replayed_with_other_values() -> None:
    one, two = torch.ones(2), torch.full((2,), 2.0)
    add(one, one, 3)
    results = [add(first, second, 3)[0] for first, second in ((one, two), (two, one), (two, two))]
    assert [result.tolist() for result in results] == [[7, 7], [5, 5], [8, 8]]


def test_each_shape_precision_and_number_has_its_own_recording(recordings: dict[Any, Any]) -> None:
    cases = (2, torch.float32, 1), (3, torch.float32, 1), (2, torch.float64, 1), (2, torch.float32, 2)
    for shape, dtype, factor in cases:
        one = torch.ones(shape, dtype=dtype)
        for _ in range(3):
            assert add(one, one, factor)[0].tolist() == [1 + factor] * shape
    assert len(recordings) == 4


def test_loop_that_cannot_be_recorded_runs_as_it_is(
    warned: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = RuntimeError("operation not permitted when stream is capturing")
    monkeypatch.setitem(recording.RECORDERS, "cpu", Mock(side_effect=refusal))
    one = torch.ones(2)
    assert [add(one, one, 2)[0].tolist() for _ in range(4)] == [[3, 3]] * 4
    (message,) = warned.messages
    assert "add cannot be recorded as a CUDA graph, so training is slower (operation not permitted" in message


def test_shapes_beyond_the_limit_run_as_they_are(recordings: dict[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_RECORDINGS", 1)
    for size in (1, 2, 1, 2, 1, 2):
        assert add(torch.ones(size), torch.ones(size), 1)[0].tolist() == [2] * size
    assert [loop.__name__ for loop in recordings.values()] == ["rerun"]
