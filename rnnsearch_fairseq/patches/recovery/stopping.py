"""A scheduler's SIGTERM: finish the update, save, end with status 143; and what to say when a worker has died."""

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

# What a shell says of a command that SIGTERM has ended: the training is not done, and whatever follows it must not run.
TERMINATED = 128 + signal.SIGTERM

_asked = threading.Event()


def guard() -> None:
    """Have all processes of a training know of a SIGTERM to one of them."""
    _share_the_signal()
    _note_what_is_saved()
    _keep_workers()
    _pass_on_to_spawned_processes()
    _end_well()


def guard_command() -> None:
    """Stop training after the update, and its validation, in which a SIGTERM came."""

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
            if _is_asked(trainer) and not ended and (_is_saved(trainer, epoch_itr) or not end_of_epoch):
                _save_and_exit(cfg, trainer, epoch_itr)
            return losses, ended

        return validate_save_and_stop

    wrap_in_command("fairseq_cli.train", "train", make_train)
    wrap_in_command("fairseq_cli.train", "validate_and_save", make_validate)


def _save_and_exit(cfg: Any, trainer: Trainer, epoch_itr: Any) -> None:
    if not _is_saved(trainer, epoch_itr):
        fairseq.checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
    unsaved = cfg.checkpoint.no_save or cfg.checkpoint.no_last_checkpoints
    if torch.distributed.is_initialized():
        # Where one process ends, what has started them ends the others.
        torch.distributed.barrier(fairseq.distributed.utils.get_global_group())
    way_on = (
        "what --no-save or --no-last-checkpoints forbid to save is lost" if unsaved else "started again, it goes on"
    )
    logger.info(f"SIGTERM: training stops after update {trainer.get_num_updates()}; {way_on}")
    raise SystemExit(TERMINATED)


def _listen() -> None:
    """Note a SIGTERM, from now on; before, when there is nothing to save yet, it ends the process."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is not _note:
        _asked.clear()
        signal.signal(signal.SIGTERM, _note)


def _note(signum: int, frame: Any) -> None:
    _asked.set()


def _is_asked(trainer: Trainer) -> bool:
    if trainer.data_parallel_world_size == 1:
        return _asked.is_set()
    return bool(getattr(trainer, "processes_asked_to_stop", 0) > 0)


def _share_the_signal() -> None:
    """Sum over all processes whether there was a SIGTERM, with what fairseq sums in each update anyway."""

    def make(aggregate: Callable[..., Any]) -> Callable[..., Any]:
        def aggregate_with_signal(self: Trainer, outputs: Any, *stats: Any, ignore: bool = False) -> Any:
            outputs, stats = aggregate(self, outputs, *stats, float(_asked.is_set()), ignore=ignore)
            *stats, self.processes_asked_to_stop = stats
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
    """Have the workers that read the data outlive a SIGTERM to the whole group, as schedulers send it: the update under
    way, or its validation, needs them. Their parent's still ends them.
    """

    def make(init: Callable[..., None]) -> Callable[..., None]:
        def init_with_workers(self: DataLoader, *args: Any, **kwargs: Any) -> None:
            init(self, *args, **kwargs)
            if self.worker_init_fn is None and hasattr(signal, "sigwaitinfo"):  # not on macOS
                self.worker_init_fn = _outlive_others_signals

        return init_with_workers

    wrap(DataLoader, "__init__", make)


def _outlive_others_signals(worker_id: int) -> None:
    parent = os.getppid()

    def wait_for_the_parents() -> None:
        while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
            pass
        os._exit(0)

    # Threads that start later inherit it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=wait_for_the_parents, daemon=True).start()


def _pass_on_to_spawned_processes() -> None:
    """Let a SIGTERM to the process that has spawned those that train reach them, and end as they do."""

    def make(spawn: Callable[..., Any]) -> Callable[..., Any]:
        def spawn_and_pass_on(*args: Any, **kwargs: Any) -> Any:
            with _pass_on_to_children():
                try:
                    return spawn(*args, **kwargs)
                except torch.multiprocessing.ProcessExitedException as ended:
                    if ended.exit_code in (TERMINATED, -signal.SIGTERM):
                        raise SystemExit(TERMINATED) from ended
                    raise

        return spawn_and_pass_on

    wrap(torch.multiprocessing, "spawn", make)


@contextlib.contextmanager
def _pass_on_to_children() -> Iterator[None]:
    def pass_on(signum: int, frame: Any) -> None:
        for child in multiprocessing.active_children():
            child.terminate()

    before = signal.signal(signal.SIGTERM, pass_on)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end_well() -> None:
    """Leave SIGTERM to whoever called fairseq's main function when that is done, and explain the death of a process."""

    def make(call_main: Callable[..., Any]) -> Callable[..., Any]:
        def call_main_and_end(cfg: Any, *args: Any, **kwargs: Any) -> Any:
            before = signal.getsignal(signal.SIGTERM)
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
                if signal.getsignal(signal.SIGTERM) is _note:
                    signal.signal(signal.SIGTERM, before)

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
