"""fairseq-train on a GPU: the commands of test_training, without ``--cpu``."""

from pathlib import Path

import pytest
import torch

from tests.plugin import test_training
from tests.plugin.test_training import COMMANDS, COMMON, data, train, train_two

__all__ = ["data"]
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")]


@pytest.fixture(autouse=True)
def _on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_training, "COMMON", [word for word in COMMON if word != "--cpu"])


@pytest.mark.parametrize("name", COMMANDS)
def test_losses_are_those_of_a_cpu(name: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = [*COMMANDS[name], "--dropout", "0"] if name != "trees" else COMMANDS[name]
    on_gpu = train(data, tmp_path / "gpu", words=options)
    assert on_gpu.status == 0 and "recorded" not in on_gpu.printed, on_gpu.printed
    monkeypatch.setattr(test_training, "COMMON", COMMON)
    on_cpu = train(data, tmp_path / "cpu", words=options)
    losses = [[float(update["loss"]) for update in trained.updates()] for trained in (on_gpu, on_cpu)]
    assert len(losses[0]) == len(losses[1]) >= 22
    if name != "trees":  # BlackOut draws other words
        assert losses[0] == pytest.approx(losses[1], rel=0.05 if name == "small" else 0.01)


def test_two_processes_train_together_on_one_gpu(data: Path, tmp_path: Path) -> None:
    first, second = train_two(data, tmp_path, *COMMANDS["paper"])
    assert (first.status, second.status) == (0, 0), first.printed
    assert len(first.updates()) == 12
