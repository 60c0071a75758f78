"""SIGTERM and SIGINT (Ctrl-C): finish the update, save, end; and what to say when a worker has died."""

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
from rnnsearch_fairseq.patches.recovery.saving import name_last_good

logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM)

_asked: signal.Signals | None = None  # by which of them this process was first asked to stop
_before: dict[signal.Signals, Any] = {}  # what was to happen at them before the training


@around
def listen_in_training(train: Original, *args: Any) -> Any:
    """SIGTERM and SIGINT end a training anywhere; from here on they are noted, and the update is finished."""
    _listen()
    return train(*args)


@around
def stop_after_validation(
    validate_and_save: Original, cfg: Any, trainer: Trainer, task: Any, epoch_itr: Any, subsets: Any, end_of_epoch: bool
) -> Any:
    """Training stops, and is saved, after the update, and its validation, in which a signal came."""
    losses, ended = validate_and_save(cfg, trainer, task, epoch_itr, subsets, end_of_epoch)
    # What fairseq did not save at the end of an epoch does not hold all that the next one needs to know.
    number = _asked_by(trainer)
    if number is not None and not ended and (_is_saved(trainer, epoch_itr) or not end_of_epoch):
        _save_and_exit(number, cfg, trainer, epoch_itr)
    return losses, ended


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


@around
def share_the_signal(aggregate: Original, self: Trainer, outputs: Any, *stats: Any, ignore: bool = False) -> Any:
    """A signal reaches one process of several; now all hear of it by the numbers that fairseq sums in each update."""
    own = [float(_asked is number) for number in SIGNALS]
    outputs, stats = aggregate(self, outputs, *stats, *own, ignore=ignore)
    *stats, interrupted, terminated = stats
    asked = [number for number, count in zip(SIGNALS, (interrupted, terminated)) if count > 0]
    self.asked_to_stop_by = asked[0] if asked else None
    return outputs, stats


@around
def note_what_is_saved(save_checkpoint: Original, cfg: Any, trainer: Trainer, epoch_itr: Any, val_loss: Any) -> Any:
    """The trainer remembers at which update it was last saved, so that a signal saves it only once."""
    saved = save_checkpoint(cfg, trainer, epoch_itr, val_loss)
    trainer.saved_at = _position(trainer, epoch_itr)
    return saved


def _is_saved(trainer: Trainer, epoch_itr: Any) -> bool:
    return getattr(trainer, "saved_at", None) == _position(trainer, epoch_itr)


def _position(trainer: Trainer, epoch_itr: Any) -> tuple[int, int, int]:
    return trainer.get_num_updates(), epoch_itr.epoch, epoch_itr.iterations_in_epoch


@contextlib.contextmanager
def _replaced(owner: Any, name: str, replacement: Any) -> Iterator[None]:
    """Replace an attribute of a module of torch's for a while."""
    original = getattr(owner, name)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, original)


@around
def keep_workers(get_iterator: Original, *args: Any, **kwargs: Any) -> Any:
    """A signal to the whole group ends the workers that read the data; now only their parent's SIGTERM does.

    Schedulers send SIGTERM, and terminals SIGINT, to all processes: the update under way, or its validation, needs the
    workers. fairseq makes its DataLoader in the wrapped function (data/iterators.py).
    """
    loader = torch.utils.data.DataLoader

    def make_loader(*words: Any, worker_init_fn: Any = None, **options: Any) -> Any:
        return loader(*words, worker_init_fn=worker_init_fn or _outlive_others_signals, **options)

    with _replaced(torch.utils.data, "DataLoader", make_loader):
        return get_iterator(*args, **kwargs)


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


@around
def pass_signals_on(call_main: Original, *args: Any, **kwargs: Any) -> Any:
    """The process that spawns those that train passes no signal on; now it does, and ends as they do."""
    with _replaced(torch.multiprocessing, "spawn", functools.partial(_spawn, torch.multiprocessing.spawn)):
        return call_main(*args, **kwargs)


def _spawn(spawn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
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


@around
def end_well(call_main: Original, cfg: Any, *args: Any, **kwargs: Any) -> Any:
    """A dead worker or process ends training in a traceback; now in one sentence, and the caller has its signals."""
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
