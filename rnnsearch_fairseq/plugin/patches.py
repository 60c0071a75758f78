"""The functions of fairseq that this package replaces (``PATCHES``, at the end); README.md gives the reasons."""

import argparse
import atexit
import collections
import fcntl
import functools
import logging
import os
import pickle
import pkgutil
import re
import shutil
import signal
import sys
import threading
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import fairseq.checkpoint_utils
import fairseq.distributed.utils
import omegaconf
import omegaconf.base
import torch
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.trainer import Trainer
from omegaconf import nodes

from rnnsearch_fairseq.command_line import Parser, option, print_without_traceback
from rnnsearch_fairseq.errors import MAX_MESSAGE, InputError, find_cause, quote
from rnnsearch_fairseq.inference.loading import PLAIN_CLASSES, check_records
from rnnsearch_fairseq.output import open_output

logger = logging.getLogger(__name__)

LAST = "checkpoint_last.pt"  # the default of --restore-file
# Where the options stand that decide what a training learns, and those there that do not
SECTIONS = ("common", "dataset", "optimization", "task", "model", "criterion", "optimizer", "lr_scheduler")
HARMLESS = re.compile(".*valid.*|(?:log|max_epoch|max_update|no_progress|num_workers|stop|tensorboard|wandb).*")
received = 0  # the number of the signal that asks this process to stop


def copy_whole(copy: Callable[..., Any], src_path: str, dst_path: str, overwrite: bool = False) -> bool:
    """Copy a checkpoint aside, then rename the copy; fairseq copies over the old file (checkpoint_utils.py:139)."""
    with open(src_path, "rb") as source, open_output(Path(dst_path)) as target:
        shutil.copyfileobj(source, target)
    return True


def resume(load_checkpoint: Callable[..., Any], cfg: Any, trainer: Trainer, **passthrough: Any) -> Any:
    """Load the checkpoint, exit if all updates are done, and install the signal handlers.

    If all updates are done, each start of fairseq makes one more (fairseq_cli/train.py:389).
    """
    master = trainer.data_parallel_rank == 0
    if master and not cfg.no_save:
        trainer.lock = _lock(Path(cfg.save_dir))  # until the training ends
    folder = Path(cfg.save_dir or "")
    path = folder / LAST if cfg.restore_file == LAST else Path(cfg.restore_file)
    near = {*path.parent.glob("checkpoint*.pt"), *folder.glob("checkpoint*.pt")}
    others = sorted(near - {path}, key=os.path.getmtime)
    cure = f"give --restore-file {others[-1]}, or" if others else "give"
    if not path.is_file() and (others or cfg.restore_file != LAST):  # fairseq would begin anew
        raise InputError(f"{path}: no such file; {cure} another --save-dir")
    source = path if path.is_file() or not cfg.finetune_from_model else Path(cfg.finetune_from_model)
    if source != path and not os.path.isfile(source):  # with a folder, fairseq would begin anew
        raise InputError(f"--finetune-from-model {source} is no file; give a checkpoint, such as checkpoint_best.pt")
    try:
        if master and source.is_file():
            check_records(source)
            before = torch.load(source, map_location="cpu", mmap=True)
        state, epoch_itr = load_checkpoint(cfg, trainer, **passthrough)
    except InputError:
        raise
    except (RuntimeError, OSError, EOFError, AssertionError, KeyError, ValueError, pickle.UnpicklingError) as error:
        if not source.is_file() or isinstance(error, ValueError):  # such as options that exclude each other
            needs_gpu = trainer.cfg.common.fp16 and not torch.cuda.is_available()
            cure = "leave out --fp16, which needs a GPU" if needs_gpu else "give other options"
            raise InputError(f"training cannot begin ({quote(error)}); {cure}") from error
        was_other = "it was trained on other data or with other limits"
        reason = was_other if "dataloader mismatch" in str(error) else quote(error)
        reason = f"it has no {reason}, as with another --lr-scheduler" if isinstance(error, KeyError) else reason
        # Another criterion, optimizer or scheduler: an older checkpoint does not fit, either.
        cure = "give" if isinstance(error, (AssertionError, KeyError)) or reason == was_other else cure
        other = "--reset-optimizer" if "--reset-optimizer" in reason else "another --save-dir"
        cure = f"{cure} the data and options that it was trained with, or {other}"
        raise InputError(f"{source}: training cannot go on from it ({reason}); {cure}") from error
    resets = cfg.reset_optimizer or cfg.reset_lr_scheduler or cfg.reset_dataloader or cfg.reset_meters
    goes_on = path.is_file() and not resets  # not with --finetune-from-model
    if master and goes_on:
        if before.get("last_optimizer_state") is None:
            logger.warning(f"{path}: the optimizer begins anew, since the checkpoint lacks its state")
        now = omegaconf.OmegaConf.to_container(trainer.cfg, resolve=True, enum_to_str=True)
        _warn_of_changes(before["cfg"], now, path)
    is_plateau = isinstance(trainer.lr_scheduler, ReduceLROnPlateauLRSchedule)
    if goes_on and is_plateau and state["train_iterator"]["iterations_in_epoch"] == 0:
        # The learning rate falls only after the checkpoint at the end of the epoch is saved.
        trainer.lr_step(state["train_iterator"]["epoch"] - 1, state.get("val_loss"))
    updates, limit = trainer.get_num_updates(), trainer.cfg.optimization.max_update
    if limit in range(1, updates + 1):  # 0: no limit
        logger.info(f"nothing to do: {updates} updates are done, and --max-update is {limit}")
        raise SystemExit(0)
    hangup = [signal.SIGHUP] * (signal.getsignal(signal.SIGHUP) != signal.SIG_IGN)  # nohup ignores it
    for number in (signal.SIGINT, signal.SIGTERM, *hangup):
        signal.signal(number, _note_signal)
    os.register_at_fork(after_in_child=_ignore_signals_of_others)
    return state, epoch_itr


def _warn_of_changes(before: Mapping[str, Any], now: Mapping[str, Any], path: Path) -> None:
    """Name the options of a training that differ from those in its checkpoint."""
    changes = dict.fromkeys(
        f"{option(section if name == '_name' else name)} was {quote(before[section][name])} and is {quote(value)}"
        for section in SECTIONS
        # A component that argparse configures is a Namespace with all options of the command.
        if isinstance(before[section], dict) and isinstance(now[section], dict)
        for name, value in now[section].items()
        if value != before[section].get(name, value) and not HARMLESS.fullmatch(name)
    )
    if changes:
        logger.warning(f"{path}: training goes on from it with other options: {', '.join(changes)}")


def _lock(folder: Path) -> IO[str]:
    """Refuse a second training with the same --save-dir, and remove the unfinished files of a killed one."""
    file = (folder / ".lock").open("w")
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until this process ends; its workers do not inherit it
    except OSError as error:
        raise InputError(f"{folder}: another training writes there; give another --save-dir") from error
    _remove_unfinished(folder)
    return file


def _note_signal(number: int, frame: Any) -> None:
    """Note SIGINT or SIGTERM; a second Ctrl-C ends the process at once."""
    global received
    received = number
    if number == signal.SIGINT:
        signal.signal(number, signal.SIG_DFL)


def _ignore_signals_of_others() -> None:
    """Make a data worker ignore SIGTERM unless it comes from its parent.

    ``timeout`` and Slurm signal every process, but the current update still needs its workers.
    """

    def wait_for_parent(parent: int = os.getppid()) -> None:
        while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
            pass
        os._exit(0)

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=wait_for_parent, daemon=True).start()


def stop_after_update(
    validate_and_save: Callable[..., Any], cfg: Any, trainer: Trainer, task: Any, epoch_itr: Any, *options: Any
) -> Any:
    """Validate and save as in fairseq; after a signal, save and exit with status 128 + its number, as in a shell."""
    folder = cfg.checkpoint.save_dir
    try:
        losses, should_stop = validate_and_save(cfg, trainer, task, epoch_itr, *options)
        number = received
        if trainer.data_parallel_world_size > 1:  # processes may get the signal in different updates
            signals = torch.tensor(number, device=trainer.device)
            fairseq.distributed.utils.all_reduce(signals, trainer.data_parallel_process_group, op="max")
            number = int(signals)
        if not number or should_stop:
            return losses, should_stop
        fairseq.checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, losses[0])
    except KeyError as error:
        metric = cfg.checkpoint.best_checkpoint_metric
        if error.args != (metric,):
            raise
        fairseq.checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
        reason = f"a validation has no {quote(metric)}, as --best-checkpoint-metric says"
        raise InputError(f"{reason}; give another metric, and the training goes on from {folder}/{LAST}") from error
    except (OSError, RuntimeError) as error:  # PyTorch raises a RuntimeError after an OSError
        if (cause := find_cause(error, OSError)) is None:
            raise
        _remove_unfinished(Path(folder))
        raise InputError(f"{folder}: a checkpoint cannot be written ({cause.strerror}); free some space") from error
    if torch.distributed.is_initialized():  # the launcher kills the other processes when the first process ends
        torch.distributed.barrier(fairseq.distributed.utils.get_global_group())
    stopped = f"{signal.Signals(number).name}: training stops after update {trainer.get_num_updates()}"
    logger.info(f"{stopped}; the same command goes on from {os.path.abspath(folder)}/{LAST}")
    raise SystemExit(128 + number)


def _remove_unfinished(folder: Path) -> None:
    for path in folder.glob("*.tmp"):
        path.unlink()


def parse_with_hints(
    parse: Callable[..., Any], parser: argparse.ArgumentParser, input_args: Sequence[str] | None = None, **options: Any
) -> Any:
    """Parse as in fairseq, but answer a mistake in two lines, and print help with the options of --arch and --task.

    fairseq parses twice, because --arch and --task add options, and prints help when it parses the first time.
    """
    parser.__class__ = Parser
    words = sys.argv[1:] if input_args is None else input_args
    rest = [word for word in words if word not in ("-h", "--help")]

    def print_help(_: Sequence[str]) -> None:
        parser.print_help()
        parser.exit()

    if len(rest) < len(words):
        parser.parse_args = print_help  # fairseq calls it the second time
    args = parse(parser, rest, **options)
    args.tpu = "--tpu" in words  # --bf16 sets it, too (options.py:201)
    return args


def print_in_one_line(
    before: Callable[..., Any], kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print in one line an uncaught error with which fairseq answers bad input, such as a missing file."""
    runs_fairseq = any(name.startswith(("fairseq-", "fairseq_cli")) for name in Path(sys.argv[0]).parts[-2:])
    if runs_fairseq and (issubclass(kind, OSError) or kind is Exception):
        print(f"error: {quote(error, MAX_MESSAGE)}", file=sys.stderr)
    else:
        before(kind, error, trace)


# Dotted names of functions of fairseq, and their replacements, whose first argument is the replaced function.
PATCHES: dict[str, Callable[..., Any]] = {
    "fairseq.file_io.PathManager.copy": copy_whole,
    "fairseq.checkpoint_utils.load_checkpoint": resume,
    "fairseq_cli.train.validate_and_save": stop_after_update,
    "fairseq.options.parse_args_and_arch": parse_with_hints,
}
# The classes in checkpoints, which only hold data. When a training with several processes resumes, it also broadcasts
# omegaconf objects and placeholders for tensors.
CLASSES = [*PLAIN_CLASSES, fairseq.distributed.utils._TensorPlaceholder, omegaconf.DictConfig, omegaconf.ListConfig]
CLASSES += [omegaconf.base.ContainerMetadata, omegaconf.base.Metadata]
CLASSES += [nodes.AnyNode, nodes.BooleanNode, nodes.IntegerNode, nodes.FloatNode, nodes.StringNode]
# The types that omegaconf's metadata names.
CLASSES += [dict, list, int, float, str, bool, collections.defaultdict, (typing.Any, "typing.Any")]


@functools.cache
def apply() -> None:
    """Replace the functions of ``PATCHES``; a second call changes nothing."""
    for target, replacement in PATCHES.items():
        owner, _, name = target.rpartition(".")
        original = pkgutil.resolve_name(target)
        replaced = functools.wraps(original)(functools.partial(replacement, original))
        setattr(pkgutil.resolve_name(owner), name, replaced)
    torch.serialization.add_safe_globals(CLASSES)
    sys.excepthook = functools.partial(print_in_one_line, sys.excepthook)
    print_without_traceback(of_interrupts=False)
    # The threads of an open group of processes may abort Python when it ends.
    atexit.register(lambda: torch.distributed.is_initialized() and torch.distributed.destroy_process_group())
    # fairseq logs the traceback of a checkpoint that it cannot write, and raises the error.
    logging.getLogger("fairseq.checkpoint_utils").addFilter(lambda record: record.levelno < logging.ERROR)
