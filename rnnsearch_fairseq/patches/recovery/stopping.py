"""SIGTERM and SIGINT (Ctrl-C): finish the update, save, end; and what to say when a worker has died."""

import contextlib
import logging
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import fairseq.checkpoint_utils
import fairseq.distributed.utils
import torch
from fairseq.trainer import Trainer
from torch.utils.data import DataLoader

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.patches.recovery.saving import name_last_good
from rnnsearch_fairseq.patches.wrap import wrap, wrap_in_command

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM)

_asked: signal.Signals | None = None  # by which of them this process was first asked to stop
_before: dict[signal.Signals, Any] = {}  # what was to happen at them before the training


def guard() -> None:
    """Have all processes of a training know of a signal to one of them."""
    _share_the_signal()
    _note_what_is_saved()
    _keep_workers()
    _pass_on_to_spawned_processes()
    _end_well()


def guard_command() -> None:
    """Stop training after the update, and its validation, in which a signal came."""

    def make_train(train: Callable[..., Any]) -> Callable[..., Any]:
        def listen_and_train(*args: Any) -> Any:
            _listen()
            return train(*args)

        return listen_and_train

    def make_validate(validate_and_save: Callable[..., Any]) -> Callable[..., Any]:
        def validate_save_and_stop(
            cfg: Any, trainer: Trainer, task: Any, epoch_itr: Any, valid_subsets: list[str], end_of_epoch: bool
        ) -> Any:
            losses, ended = validate_and_save(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch)
            # What fairseq did not save at the end of an epoch does not hold all that the next one needs to know.
            number = _asked_by(trainer)
            if number is not None and not ended and (_is_saved(trainer, epoch_itr) or not end_of_epoch):
                _save_and_exit(number, cfg, trainer, epoch_itr)
            return losses, ended

        return validate_save_and_stop

    wrap_in_command("fairseq_cli.train", "train", make_train)
    wrap_in_command("fairseq_cli.train", "validate_and_save", make_validate)


def status_of(number: signal.Signals) -> int:
    """The exit status of a command that a signal has ended, as a shell gives it: what depends on it must not run."""
    return 128 + number


def _save_and_exit(number: signal.Signals, cfg: Any, trainer: Trainer, epoch_itr: Any) -> None:
    if not _is_saved(trainer, epoch_itr):
        fairseq.checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
    unsaved = cfg.checkpoint.no_save or cfg.checkpoint.no_last_checkpoints
    if torch.distributed.is_initialized():
        # Where one process ends, what has started them ends the others.
        torch.distributed.barrier(fairseq.distributed.utils.get_global_group())
    way_on = (
        "what --no-save or --no-last-checkpoints forbid to save is lost" if unsaved else "started again, it goes on"
    )
    logger.info(f"{number.name}: training stops after update {trainer.get_num_updates()}; {way_on}")
    raise SystemExit(status_of(number))


def _listen() -> None:
    """Note a signal, from now on; before, when there is nothing to save yet, it ends the process."""
    global _asked
    if threading.current_thread() is threading.main_thread() and not _before:
        _asked = None
        _before.update(_handle(_note))


def _handle(handler: Callable[..., None]) -> dict[signal.Signals, Any]:
    """Call ``handler`` at the signals, except for those that a shell has the process ignore; what they did before."""
    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in heard}


def _note(signum: int, frame: Any) -> None:
    global _asked
    _asked = _asked or signal.Signals(signum)
    if signum == signal.SIGINT:  # a second one ends the process at once
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _restore(before: dict[signal.Signals, Any]) -> None:
    while before:
        signal.signal(*before.popitem())


def _asked_by(trainer: Trainer) -> signal.Signals | None:
    """By which signal the training was asked to stop; the same in all of its processes."""
    return _asked if trainer.data_parallel_world_size == 1 else getattr(trainer, "asked_to_stop_by", None)


def _share_the_signal() -> None:
    """Count the processes that were asked to stop, for each signal, with what fairseq sums in each update anyway."""

    def make(aggregate: Callable[..., Any]) -> Callable[..., Any]:
        def aggregate_with_signal(self: Trainer, outputs: Any, *stats: Any, ignore: bool = False) -> Any:
            own = [float(_asked is number) for number in SIGNALS]
            outputs, stats = aggregate(self, outputs, *stats, *own, ignore=ignore)
            *stats, interrupted, terminated = stats
            asked = [number for number, count in zip(SIGNALS, (interrupted, terminated)) if count > 0]
            self.asked_to_stop_by = asked[0] if asked else None
            return outputs, stats

        return aggregate_with_signal

    wrap(Trainer, "_aggregate_logging_outputs", make)


def _note_what_is_saved() -> None:
    def make(save_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
        def save(cfg: Any, trainer: Trainer, epoch_itr: Any, val_loss: Any) -> Any:
            saved = save_checkpoint(cfg, trainer, epoch_itr, val_loss)
            trainer.saved_at = _position(trainer, epoch_itr)
            return saved

        return save

    wrap(fairseq.checkpoint_utils, "save_checkpoint", make)


def _is_saved(trainer: Trainer, epoch_itr: Any) -> bool:
    return getattr(trainer, "saved_at", None) == _position(trainer, epoch_itr)


def _position(trainer: Trainer, epoch_itr: Any) -> tuple[int, int, int]:
    return trainer.get_num_updates(), epoch_itr.epoch, epoch_itr.iterations_in_epoch


def _keep_workers() -> None:
    """Have the workers that read the data outlive a signal to the whole group, as schedulers send SIGTERM and terminals
    SIGINT: the update under way, or its validation, needs them. Their parent's SIGTERM still ends them.
    """

    def make(init: Callable[..., None]) -> Callable[..., None]:
        def init_with_workers(self: DataLoader, *args: Any, **kwargs: Any) -> None:
            init(self, *args, **kwargs)
            if self.worker_init_fn is None:
                self.worker_init_fn = _outlive_others_signals

        return init_with_workers

    wrap(DataLoader, "__init__", make)


def _outlive_others_signals(worker_id: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not hasattr(signal, "sigwaitinfo"):  # on macOS
        return
    parent = os.getppid()

    def wait_for_the_parents() -> None:
        while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
            pass
        os._exit(0)

    # Threads that start later inherit it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=wait_for_the_parents, daemon=True).start()


def _pass_on_to_spawned_processes() -> None:
    """Let a signal to the process that has spawned those that train reach them, and end as they do."""

    def make(spawn: Callable[..., Any]) -> Callable[..., Any]:
        def spawn_and_pass_on(*args: Any, **kwargs: Any) -> Any:
            with _pass_on_to_children() as passed:
                try:
                    spawned = spawn(*args, **kwargs)
                except torch.multiprocessing.ProcessExitedException as ended:
                    for number in (*passed, *SIGNALS):
                        if number in passed or ended.exit_code in (status_of(number), -number):
                            raise SystemExit(status_of(number)) from ended
                    raise
                if signal.SIGINT in passed:  # processes that it ended before they trained say that all is well
                    raise SystemExit(status_of(signal.SIGINT))
                return spawned

        return spawn_and_pass_on

    wrap(torch.multiprocessing, "spawn", make)


@contextlib.contextmanager
def _pass_on_to_children() -> Iterator[list[signal.Signals]]:
    """Pass signals on as SIGTERM: a terminal sends SIGINT to the children, too, and a second one ends them at once."""
    passed: list[signal.Signals] = []

    def pass_on(signum: int, frame: Any) -> None:
        again = signum == signal.SIGINT and signal.SIGINT in passed
        passed.append(signal.Signals(signum))
        for child in multiprocessing.active_children():
            child.kill() if again else child.terminate()

    before = _handle(pass_on)
    try:
        yield passed
    finally:
        _restore(before)


def _end_well() -> None:
    """Leave the signals to whoever called fairseq's main function when that is done, and explain a process's death."""

    def make(call_main: Callable[..., Any]) -> Callable[..., Any]:
        def call_main_and_end(cfg: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return call_main(cfg, *args, **kwargs)
            except (RuntimeError, OSError, EOFError, torch.multiprocessing.ProcessRaisedException) as error:
                if threading.current_thread() is threading.main_thread():
                    # A DataLoader has torch raise an error in the middle of anything when a worker dies: one is enough.
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                explained = _explain_death(error, cfg.checkpoint.save_dir)
                if explained is None:
                    raise
                raise explained from error
            finally:
                _restore(_before)

        return call_main_and_end

    wrap(fairseq.distributed.utils, "call_main", make)


def _explain_death(error: Exception, save_dir: str) -> InputError | None:
    """What to end with where a process has died that the training needs; None where it ends for another reason."""
    last = str(error).strip().rpartition("\n")[2]
    if "InputError: " in last:  # of a spawned process
        return InputError(last.partition("InputError: ")[2])
    if "DataLoader worker" in last or _is_of_worker(error):
        who, cure = (
            "a worker that reads the data (--num-workers)",
            "with fewer of them if the machine ran out of memory",
        )
    elif isinstance(error, torch.distributed.DistError) or "gloo" in last:
        who, cure = "another process of this training, or the way to it,", "when its own log says why"
    else:
        return None
    last = last.split(". ")[0] or type(error).__name__
    return InputError(f"{who} has died ({last}); start again, {cure}: {name_last_good(save_dir)}")


def _is_of_worker(error: Exception) -> bool:
    """Whether it came in reading from a worker, which may die in the middle of a batch."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return isinstance(error, OSError | EOFError) and any(frame.f_code.co_name == "_try_get_data" for frame in frames)
