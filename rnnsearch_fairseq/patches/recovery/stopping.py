"""After SIGTERM or SIGINT (Ctrl-C), finish the update, save, and end; explain the death of a worker or process."""

import contextlib
import functools
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
import torch.multiprocessing
import torch.utils.data
from fairseq.trainer import Trainer

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.patches.around import Original, around
from rnnsearch_fairseq.patches.recovery.saving import name_last_good, unlock

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM)

_asked: signal.Signals | None = None  # the first signal that asked this process to stop
_before: dict[signal.Signals, Any] = {}  # the handlers from before the training


def status_of(number: signal.Signals) -> int:
    """The exit status after a signal, as a shell gives it: a command that depends on this one must not run."""
    return 128 + number


# One process


@around
def listen_in_training(train: Original, *args: Any) -> Any:
    """SIGTERM and SIGINT end a training anywhere; from here on they are noted, and the update is finished.

    Before this there is nothing to save, and a signal ends the process.
    """
    global _asked
    if threading.current_thread() is threading.main_thread() and not _before:
        _asked = None
        _before.update(_handle(_note))
    return train(*args)


def _handle(handler: Callable[..., None]) -> dict[signal.Signals, Any]:
    """Call ``handler`` at the signals, except those that the shell has the process ignore; return the old handlers."""
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


@around
def note_what_is_saved(save_checkpoint: Original, cfg: Any, trainer: Trainer, epoch_itr: Any, val_loss: Any) -> Any:
    """The trainer remembers at which update it was last saved, so that a signal saves it only once."""
    saved = save_checkpoint(cfg, trainer, epoch_itr, val_loss)
    trainer.saved_at = _position(trainer, epoch_itr)
    return saved


def _position(trainer: Trainer, epoch_itr: Any) -> tuple[int, int, int]:
    return trainer.get_num_updates(), epoch_itr.epoch, epoch_itr.iterations_in_epoch


@around
def stop_after_validation(
    validate_and_save: Original, cfg: Any, trainer: Trainer, task: Any, epoch_itr: Any, subsets: Any, end_of_epoch: bool
) -> Any:
    """A signal ends training in the middle of an update; now after the update and its validation, and it is saved.

    An epoch's end that fairseq did not save cannot be gone on from, since the learning rate falls there; then training
    stops after the next update.
    """
    losses, ended = validate_and_save(cfg, trainer, task, epoch_itr, subsets, end_of_epoch)
    # With several processes, all of them know the same signal.
    number = _asked if trainer.data_parallel_world_size == 1 else getattr(trainer, "asked_to_stop_by", None)
    is_saved = getattr(trainer, "saved_at", None) == _position(trainer, epoch_itr)
    if number is None or ended or (end_of_epoch and not is_saved):
        return losses, ended
    if not is_saved:
        fairseq.checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
    if torch.distributed.is_initialized():
        # When one process ends, its launcher ends the others.
        torch.distributed.barrier(fairseq.distributed.utils.get_global_group())
    way_on = f"started again, it goes on from {cfg.checkpoint.save_dir}/checkpoint_last.pt"
    if cfg.checkpoint.no_save or cfg.checkpoint.no_last_checkpoints:
        way_on = "what --no-save or --no-last-checkpoints forbid to save is lost"
    logger.info(f"{number.name}: training stops after update {trainer.get_num_updates()}; {way_on}")
    raise SystemExit(status_of(number))


# Workers and several processes


@around
def share_the_signal(aggregate: Original, self: Trainer, outputs: Any, *stats: Any, ignore: bool = False) -> Any:
    """A signal reaches one process of several; now all hear of it by the numbers that fairseq sums in each update."""
    own = [float(_asked is number) for number in SIGNALS]
    outputs, stats = aggregate(self, outputs, *stats, *own, ignore=ignore)
    *stats, interrupted, terminated = stats
    asked = [number for number, count in zip(SIGNALS, (interrupted, terminated)) if count > 0]
    self.asked_to_stop_by = asked[0] if asked else None
    return outputs, stats


@contextlib.contextmanager
def _replaced(owner: Any, name: str, replacement: Any) -> Iterator[None]:
    """Replace an attribute of one of torch's modules for a while."""
    original = getattr(owner, name)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, original)


@around
def keep_workers(get_iterator: Original, *args: Any, **kwargs: Any) -> Any:
    """A signal to the whole group ends the workers that read the data; now only their parent's SIGTERM does.

    Schedulers send SIGTERM, and terminals SIGINT, to all processes, but the update under way, or its validation, needs
    the workers. fairseq makes its DataLoader in the wrapped function (data/iterators.py).
    """
    loader = torch.utils.data.DataLoader

    def make_loader(*words: Any, worker_init_fn: Any = None, **options: Any) -> Any:
        return loader(*words, worker_init_fn=worker_init_fn or _hear_only_the_parent, **options)

    with _replaced(torch.utils.data, "DataLoader", make_loader):
        return get_iterator(*args, **kwargs)


def _hear_only_the_parent(worker_id: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not hasattr(signal, "sigwaitinfo"):  # on macOS
        return
    parent = os.getppid()

    def wait_for_the_parents() -> None:
        while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
            pass
        os._exit(0)

    # Threads that start later inherit the mask.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=wait_for_the_parents, daemon=True).start()


@around
def end_well(call_main: Original, cfg: Any, *args: Any, **kwargs: Any) -> Any:
    """A dead worker or process ends training in a traceback; now in one sentence.

    The process that spawns those that train now passes signals on to them. The program that called fairseq's main
    function may go on after it, so it gets back its signal handlers, and the lock of --save-dir.
    """
    try:
        with _replaced(torch.multiprocessing, "spawn", functools.partial(_spawn, torch.multiprocessing.spawn)):
            return call_main(cfg, *args, **kwargs)
    except (RuntimeError, OSError, EOFError, torch.multiprocessing.ProcessRaisedException) as error:
        if threading.current_thread() is threading.main_thread():
            # When a worker dies, a handler of DataLoader raises an error wherever the program is: one is enough.
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        explained = _explain_death(error, cfg.checkpoint.save_dir)
        if explained is None:
            raise
        raise explained from error
    finally:
        _restore(_before)
        unlock()


def _spawn(spawn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with _pass_on_to_children() as passed:
        try:
            spawned = spawn(*args, **kwargs)
        except torch.multiprocessing.ProcessExitedException as ended:
            for number in (*passed, *SIGNALS):
                if number in passed or ended.exit_code in (status_of(number), -number):
                    raise SystemExit(status_of(number)) from ended
            raise
        if signal.SIGINT in passed:  # processes that it ended before they trained exit with status 0
            raise SystemExit(status_of(signal.SIGINT))
        return spawned


@contextlib.contextmanager
def _pass_on_to_children() -> Iterator[list[signal.Signals]]:
    """Pass signals on as SIGTERM, since a terminal sends SIGINT to the children, too; a second one kills them."""
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


def _explain_death(error: Exception, save_dir: str) -> InputError | None:
    """The error to end with if a process that the training needs has died; None if it has not."""
    last = str(error).strip().rpartition("\n")[2]
    if "InputError: " in last:  # of a spawned process
        return InputError(last.partition("InputError: ")[2])
    # A worker may die in the middle of a batch that is read from it.
    frames = (frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__))
    if "DataLoader worker" in last or (isinstance(error, OSError | EOFError) and "_try_get_data" in frames):
        who = "a worker that reads the data (--num-workers)"
        cure = "with fewer of them if the machine ran out of memory"
    elif isinstance(error, torch.distributed.DistError) or "gloo" in last:
        who, cure = "another process of this training, or the way to it,", "when its own log says why"
    else:
        return None
    last = last.split(". ")[0] or type(error).__name__
    return InputError(f"{who} has died ({last}); start again, {cure}: {name_last_good(save_dir)}")
