"""After SIGTERM or SIGINT (Ctrl-C), the update is finished and saved, and the same command goes on."""

import functools
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import fairseq.distributed.utils
import pytest
from fairseq.trainer import Trainer

from rnnsearch_fairseq.output import PARTIAL
from rnnsearch_fairseq.patches.recovery import saving
from tests.patches.recovery.training import (
    TREES,
    Trained,
    assert_same,
    is_equal,
    read_state,
    train,
    train_two,
)

pytestmark = [pytest.mark.slow, pytest.mark.train, pytest.mark.patched]

TERM, INT = signal.SIGTERM, signal.SIGINT


def hear_sigint() -> None:
    """The shell of the tests may have had them ignore it, as it does for commands in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def signal_all(number: int) -> None:
    """Another process, as ``timeout`` or a terminal, sends a signal to this process and its workers."""
    subprocess.run(["sh", "-c", f"kill -{int(number)} 0"], check=False)


def stop_at(update: int, number: int, everyone: bool = False) -> None:
    """For ``prepare``: a signal comes after an update, to this process or to all of its group."""
    hear_sigint()
    train_step = Trainer.train_step
    if everyone:
        os.setpgrp()

    def step(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        output = train_step(self, *args, **kwargs)
        if self.get_num_updates() == update:
            signal_all(number) if everyone else os.kill(os.getpid(), number)
        return output

    Trainer.train_step = step


def stopped_at(
    data: Path, folder: Path, update: int, *more: str, number: int = TERM, everyone: bool = False, **kwargs: Any
) -> Trained:
    """A training with a signal after an update."""
    return train(data, folder, *more, prepare=functools.partial(stop_at, update, number, everyone), **kwargs)


def assert_stopped(stopped: Trained, updates: int, number: int = TERM) -> None:
    assert stopped.status == 128 + number, stopped.printed[-3000:]
    way_on = f"started again, it goes on from {stopped.last}"
    assert f"{signal.Signals(number).name}: training stops after update {updates}; {way_on}" in stopped.printed
    assert stopped.updates()[-1]["num_updates"] == str(updates)
    assert "Traceback" not in stopped.printed


@pytest.mark.parametrize(("number", "updates"), [(TERM, (3, 10, 13)), (INT, (3,))])
def test_a_signal_saves_and_ends(
    data: Path, undisturbed: Trained, tmp_path: Path, number: int, updates: tuple[int, ...]
) -> None:
    parts = [stopped_at(data, tmp_path, update, number=number) for update in updates]
    for part, update in zip(parts, updates):
        assert_stopped(part, update, number)
    assert_same(undisturbed, *parts, train(data, tmp_path))


def test_a_second_sigint_ends_at_once(data: Path, undisturbed: Trained, tmp_path: Path) -> None:
    """Here in the middle of saving."""

    def interrupt_saving() -> None:
        stop_at(7, INT)
        save_whole = saving.save

        def save(state: Any, file: Any) -> None:
            if state["optimizer_history"][-1]["num_updates"] == 7:
                os.kill(os.getpid(), INT)
            save_whole(state, file)

        saving.save = save

    begun = train(data, tmp_path, "--max-update", "5")
    ended = train(data, tmp_path, prepare=interrupt_saving)
    assert ended.status == -INT, ended.printed[-3000:]
    assert len(list(ended.folder.glob(f".*{PARTIAL}"))) == 1
    assert_same(undisturbed, begun, ended, train(data, tmp_path))
    assert not list(ended.folder.glob(f".*{PARTIAL}"))


def test_a_sigint_that_the_shell_ignores_is_ignored(data: Path, tmp_path: Path) -> None:
    """As it does for a command in the background."""

    def prepare() -> None:
        stop_at(3, INT)
        signal.signal(INT, signal.SIG_IGN)

    ended = train(data, tmp_path, "--max-update", "4", prepare=prepare)
    assert (ended.status, ended.updates()[-1]["num_updates"]) == (0, "4")


@pytest.mark.parametrize(("save_interval", "stops"), [(1, 12), (4, 13)])
def test_sigterm_at_the_end_of_an_epoch(
    data: Path, undisturbed_trees: Trained, tmp_path: Path, save_interval: int, stops: int
) -> None:
    """What is not saved there cannot be gone on from: the learning rate falls. Another update is made."""
    words = [*TREES, "--save-interval", str(save_interval)]
    stopped = stopped_at(data, tmp_path, 12, words=words)
    assert_stopped(stopped, stops)
    assert_same(undisturbed_trees, stopped, train(data, tmp_path, words=words))


@pytest.mark.parametrize("number", [TERM, INT])
def test_a_signal_to_all_processes_while_the_workers_read(
    data: Path, undisturbed: Trained, tmp_path: Path, number: int
) -> None:
    # The next update wants its worker.
    words = ["--num-workers", "2", "--save-interval-updates", "100"]
    stopped = stopped_at(data, tmp_path, 7, *words, number=number, everyone=True)
    assert_stopped(stopped, 7, number)
    assert_same(undisturbed, stopped, train(data, tmp_path, *words))


def signal_in_validation(number: int) -> None:
    hear_sigint()
    os.setpgrp()
    valid_step = Trainer.valid_step

    def step(self: Trainer, sample: Any) -> Any:
        signal_all(number)
        Trainer.valid_step = valid_step
        return valid_step(self, sample)

    Trainer.valid_step = step


@pytest.mark.parametrize("number", [TERM, INT])
def test_a_signal_to_all_processes_in_the_middle_of_a_validation(
    data: Path, undisturbed: Trained, tmp_path: Path, number: int
) -> None:
    words = ["--num-workers", "2", "--batch-size-valid", "2"]
    stopped = train(data, tmp_path, *words, prepare=functools.partial(signal_in_validation, number))
    assert_stopped(stopped, 5, number)
    assert is_equal(read_state(stopped.last), read_state(undisturbed.folder / "checkpoint_1_5.pt"))
    assert_same(undisturbed, stopped, train(data, tmp_path))


def test_sigterm_after_training_is_the_callers(data: Path, tmp_path: Path) -> None:
    def prepare() -> None:
        call_main = fairseq.distributed.utils.call_main

        def call(*args: Any, **kwargs: Any) -> None:
            call_main(*args, **kwargs)
            os.kill(os.getpid(), signal.SIGTERM)

        fairseq.distributed.utils.call_main = call

    assert train(data, tmp_path, "--max-update", "1", prepare=prepare).status == -signal.SIGTERM


# Two processes


@pytest.mark.parametrize("number", [TERM, INT])
def test_a_signal_to_one_of_two_processes_stops_both(data: Path, tmp_path: Path, number: int) -> None:
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    whole = train_two(data, tmp_path / "whole")[0]
    parts = tmp_path / "parts"
    stopped = train_two(data, parts, lambda rank: stop_at(3, number) if rank == 1 else None)
    assert [part.status for part in stopped] == [128 + number, 128 + number]
    # The other one hears of it in the next update.
    assert_stopped(stopped[0], 4, number)
    assert_same(whole, stopped[0], train_two(data, parts)[0])
