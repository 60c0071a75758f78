"""SIGTERM, SIGINT and dead processes: training is saved where it can be, and ends in any case."""

import functools
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import fairseq.distributed.utils
import pytest
import torch
from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterator
from fairseq.trainer import Trainer

import rnnsearch_fairseq
from recipes.fault_injection.run import is_equal, read_state
from rnnsearch_fairseq.files.integrity import count_updates
from rnnsearch_fairseq.output import PARTIAL
from rnnsearch_fairseq.patches.recovery import saving
from rnnsearch_fairseq.patches.recovery.stopping import status_of
from tests.patches.recovery.training import COMMON, PAIRED, TREES, WAIT, Trained, assert_same, train, train_two

pytestmark = [pytest.mark.slow, pytest.mark.train, pytest.mark.patched]

INT, TERM = signal.SIGINT, signal.SIGTERM
TERMINATED = status_of(TERM)


def hear_sigint() -> None:
    """For ``prepare``: have SIGINT do what it does in a terminal, though the tests may run in the background."""
    signal.signal(INT, signal.default_int_handler)


def stop_at(update: int, number: int = TERM, everyone: bool = False) -> None:
    """For ``prepare``: a signal after an update; to the data's workers, too."""
    hear_sigint()
    train_step = Trainer.train_step
    if everyone:
        os.setpgrp()

    def step(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        output = train_step(self, *args, **kwargs)
        if self.get_num_updates() == update:
            os.killpg(0, number) if everyone else os.kill(os.getpid(), number)
        return output

    Trainer.train_step = step


def stopped_at(
    data: Path, folder: Path, update: int, *more: str, number: int = TERM, everyone: bool = False, **kwargs: Any
) -> Trained:
    """A training with a signal after an update."""
    return train(data, folder, *more, prepare=functools.partial(stop_at, update, number, everyone), **kwargs)


def assert_stopped(stopped: Trained, updates: int, number: int = TERM) -> None:
    assert stopped.status == 128 + number, stopped.printed[-3000:]
    name = signal.Signals(number).name
    way_on = f"started again, it goes on from {stopped.last}"
    assert f"{name}: training stops after update {updates}; {way_on}" in stopped.printed
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
        save_sealed = saving.save_sealed

        def save(state: Any, file: Any) -> None:
            if state["optimizer_history"][-1]["num_updates"] == 7:
                os.kill(os.getpid(), INT)
            save_sealed(state, file)

        saving.save_sealed = save

    begun = train(data, tmp_path, "--max-update", "5")
    ended = train(data, tmp_path, prepare=interrupt_saving)
    assert ended.status == -INT, ended.printed[-3000:]
    assert "Traceback" not in ended.printed
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
    # The validation that is under way wants its worker, and so does the next update.
    words = ["--num-workers", "2", "--save-interval-updates", "100"]
    stopped = stopped_at(data, tmp_path, 7, *words, number=number, everyone=True)
    assert_stopped(stopped, 7, number)
    assert_same(undisturbed, stopped, train(data, tmp_path, *words))


def terminate_validation() -> None:
    valid_step = Trainer.valid_step

    def step(self: Trainer, sample: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return valid_step(self, sample)

    Trainer.valid_step = step


def test_sigterm_in_the_middle_of_a_validation(data: Path, undisturbed: Trained, tmp_path: Path) -> None:
    stopped = train(data, tmp_path, prepare=terminate_validation)
    assert_stopped(stopped, 5)
    assert is_equal(read_state(stopped.last), read_state(undisturbed.folder / "checkpoint_1_5.pt"))
    assert_same(undisturbed, stopped, train(data, tmp_path))


def test_sigterm_in_the_last_update_is_too_late(data: Path, tmp_path: Path) -> None:
    ended = stopped_at(data, tmp_path, 7, "--max-update", "7")
    assert ended.status == 0
    assert "done training" in ended.printed


def test_sigterm_before_training_ends_it_at_once(data: Path, tmp_path: Path) -> None:
    def prepare() -> None:
        Trainer.load_checkpoint = lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGTERM)

    assert train(data, tmp_path, prepare=prepare).status == -signal.SIGTERM


@pytest.mark.parametrize("option", ["--no-save", "--no-last-checkpoints"])
def test_sigterm_saves_nothing_against_the_users_will(data: Path, tmp_path: Path, option: str) -> None:
    stopped = stopped_at(data, tmp_path, 2, option)
    assert stopped.status == TERMINATED
    lost = "training stops after update 2; what --no-save or --no-last-checkpoints forbid to save is lost"
    assert lost in stopped.printed
    assert not stopped.last.exists()


def test_sigterm_after_training_is_the_callers(data: Path, tmp_path: Path) -> None:
    def prepare() -> None:
        call_main = fairseq.distributed.utils.call_main

        def call(*args: Any, **kwargs: Any) -> None:
            call_main(*args, **kwargs)
            os.kill(os.getpid(), signal.SIGTERM)

        fairseq.distributed.utils.call_main = call

    assert train(data, tmp_path, "--max-update", "1", prepare=prepare).status == -signal.SIGTERM


def kill_worker(how: str) -> None:
    """For ``prepare``: after the seventh update, the data's worker is killed; or dies while it hands a batch over."""
    train_step = Trainer.train_step

    def step(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        output = train_step(self, *args, **kwargs)
        if self.get_num_updates() == 7:
            for worker in multiprocessing.active_children():
                worker.kill()
            if how == "handing over":
                raise_in_reading(EOFError)
        return output

    Trainer.train_step = step


def raise_in_reading(kind: type[Exception]) -> None:
    def _try_get_data(*args: Any, **kwargs: Any) -> Any:
        raise kind

    torch.utils.data.dataloader._MultiProcessingDataLoaderIter._try_get_data = _try_get_data


@pytest.mark.parametrize("how", ["killed", "handing over"])
def test_a_worker_that_is_killed_ends_training_in_one_sentence(
    data: Path, undisturbed: Trained, tmp_path: Path, how: str
) -> None:
    words = ["--num-workers", "1", "--data-buffer-size", "0"]
    broken = train(data, tmp_path, *words, prepare=functools.partial(kill_worker, how))
    assert re.search(
        r"error: a worker that reads the data \(--num-workers\) has died "
        r"\((DataLoader worker .*|EOFError|\[Errno \d+\] .*)\); start again, with fewer of them "
        r"if the machine ran out of memory: the last complete checkpoint is "
        rf"{broken.folder}/checkpoint_last.pt",
        broken.sentence(),
    )
    assert_same(undisturbed, broken, train(data, tmp_path))


class Squares(FairseqDataset):
    supports_fetch_outside_dataloader = True

    def __len__(self) -> int:
        return 50

    def __getitem__(self, number: int) -> int:
        time.sleep(0.01)
        return number**2


def test_workers_outlive_all_signals_but_their_parents_sigterm() -> None:
    squares = Squares()
    batches = EpochBatchIterator(squares, sum, [[number] for number in range(50)], num_workers=1)
    iterator = batches.next_epoch_itr(shuffle=False)
    assert next(iterator) == 0
    (worker,) = multiprocessing.active_children()
    # Sent by another process.
    threading.Thread(target=os.system, args=(f"kill -TERM {worker.pid}; kill -INT {worker.pid}",)).start()
    assert [int(square) for square in iterator] == [number**2 for number in range(1, 50)]
    assert worker.is_alive() or worker.exitcode == 0
    worker.terminate()
    worker.join(WAIT)
    assert worker.exitcode == 0


# Two processes


@pytest.fixture(scope="module")
def undisturbed_two(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train_two(data, tmp_path_factory.mktemp("two"))[0]


@pytest.mark.parametrize("number", [TERM, INT])
def test_a_signal_to_one_of_two_processes_stops_both(
    data: Path, undisturbed_two: Trained, tmp_path: Path, number: int
) -> None:
    stopped = train_two(data, tmp_path, lambda rank: stop_at(3, number) if rank == 1 else None)
    assert [part.status for part in stopped] == [status_of(number), status_of(number)]
    # The other one hears of it in the next update.
    assert_stopped(stopped[0], 4, number)
    assert_same(undisturbed_two, stopped[0], train_two(data, tmp_path)[0])


PLUGIN = """
import os
import signal

import rnnsearch_fairseq
from fairseq.trainer import Trainer

train_step = Trainer.train_step


def step(self, *args, **kwargs):
    output = train_step(self, *args, **kwargs)
    if self.get_num_updates() == 3 and self.is_data_parallel_master:
        {what}
    return output


Trainer.train_step = step
"""
STRIKES = {"the parent": "os.kill(os.getppid(), {number})", "all": "os.killpg(0, {number})"}


def words_to_stop(folder: Path, number: int, whom: str) -> list[str]:
    """For trainings in other processes than forks of this one: a signal, after the third of many updates."""
    plugin = folder / f"stopping_{whom.replace(' ', '_')}_{number}"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(PLUGIN.format(what=STRIKES[whom].format(number=int(number))))
    return ["--user-dir", str(plugin), "--batch-size", "4", "--max-epoch", "1000", "--save-interval-updates", "10000"]


def two_devices() -> None:
    """For ``prepare``: have fairseq spawn two processes, as it does for two CUDA devices."""
    hear_sigint()
    os.setpgrp()
    torch.cuda.device_count = lambda: 2


@pytest.mark.slow
@pytest.mark.parametrize(("number", "whom"), [(TERM, "the parent"), (INT, "the parent"), (INT, "all")])
def test_a_signal_to_what_spawns_the_processes_stops_all(data: Path, tmp_path: Path, number: int, whom: str) -> None:
    """A terminal sends SIGINT to all processes, of which the first sends it on."""
    words = ["--distributed-world-size", "2", *words_to_stop(tmp_path, number, whom)]
    stopped = train(data, tmp_path, *words, prepare=two_devices)
    assert stopped.status == 128 + number, stopped.printed[-3000:]
    assert "Traceback" not in stopped.printed
    assert_saved(stopped)


def assert_saved(stopped: Trained) -> None:
    """The processes hear of the signal in some update after the third, and save the last one that they make."""
    updates = re.findall(r"SIG\w+: training stops after update (\d+); started again, it goes on", stopped.printed)
    assert updates == [str(count_updates(stopped.last))]
    assert updates == re.findall(r'"num_updates": "(\d+)"', stopped.printed)[-1:]


@pytest.mark.slow
def test_sigint_to_torchrun_stops_all(data: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [str(Path(sys.executable).with_name("fairseq-train")), str(data), "--save-dir", str(tmp_path / "saved")]
    command += [*COMMON, *PAIRED, "--num-workers", "1", *words_to_stop(tmp_path, INT, "the parent")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(rnnsearch_fairseq.__file__).parents[1])}
    log = tmp_path / "0.log"
    with log.open("wb") as printed:
        done = subprocess.run(
            command, env=environment, stdout=printed, stderr=subprocess.STDOUT, timeout=WAIT, preexec_fn=hear_sigint
        )
    stopped = Trained(tmp_path / "saved", log, done.returncode)
    assert stopped.status != 0
    assert_saved(stopped)
    options = torch.load(stopped.last, weights_only=True)["cfg"]["distributed_training"]
    assert options["distributed_world_size"] == 2
    # torchrun itself says by a traceback what it was ended by; the processes that it started say nothing of the kind.
    assert stopped.printed.count("Traceback") == stopped.printed.count("SignalException: Process") == 1


def die_at(update: int) -> None:
    """For ``prepare``."""
    train_step = Trainer.train_step

    def step(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        if self.get_num_updates() == update:
            os.kill(os.getpid(), signal.SIGKILL)
        return train_step(self, *args, **kwargs)

    Trainer.train_step = step


def test_the_death_of_one_of_two_processes_ends_the_other(data: Path, undisturbed_two: Trained, tmp_path: Path) -> None:
    left, killed = train_two(data, tmp_path, lambda rank: die_at(7) if rank == 1 else None)
    assert killed.status == -signal.SIGKILL
    assert "error: another process of this training, or the way to it, has died (" in left.sentence()
    assert left.sentence().endswith(f"the last complete checkpoint is {left.folder}/checkpoint_last.pt")
    # The first process tells the other which checkpoint is complete; or that none is.
    os.truncate(left.last, 1000)
    resumed = train_two(data, tmp_path)
    assert "training goes on from" in resumed[0].printed
    assert_same(undisturbed_two, left, resumed[0])
    for path in left.folder.iterdir():
        os.truncate(path, 1000)
    assert all("no other checkpoint in" in part.sentence() for part in train_two(data, tmp_path))
