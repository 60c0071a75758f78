"""The functions of fairseq that this package replaces; the table is ``PATCHES`` at the end, and README.md says why.

A checkpoint file is whole or absent, and a training that goes on from a checkpoint equals an unbroken training. After
Ctrl-C (SIGINT) or SIGTERM, a training finishes its update, saves a checkpoint, and ends.
"""

import argparse
import collections
import functools
import itertools
import logging
import os
import pickle
import pkgutil
import signal
import sys
import threading
import typing
from collections.abc import Callable, Sequence
from typing import Any

import fairseq.checkpoint_utils
import fairseq.distributed.utils
import omegaconf
import omegaconf.base
import torch
from fairseq.file_io import PathManager
from fairseq.logging import metrics
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.trainer import Trainer
from omegaconf import nodes

from rnnsearch_fairseq.command_line import Parser, print_without_traceback
from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.inference.loading import PLAIN_CLASSES

logger = logging.getLogger(__name__)

LAST = "checkpoint_last.pt"  # the default of --restore-file
received = 0  # the number of the signal that asks this process to stop


def copy_whole(copy: Callable[..., Any], src_path: str, dst_path: str, overwrite: bool = False) -> bool:
    """Copy a checkpoint aside, then rename the copy; fairseq copies over the old file (checkpoint_utils.py:139)."""
    copy(src_path, f"{dst_path}.tmp", overwrite=True)
    os.replace(f"{dst_path}.tmp", dst_path)
    return True


def resume(load_checkpoint: Callable[..., Any], cfg: Any, trainer: Trainer, **passthrough: Any) -> Any:
    """Load the checkpoint, exit if all updates are done, and install the signal handlers.

    If all updates are done, each start of fairseq makes one more (fairseq_cli/train.py:389).
    """
    path = cfg.restore_file.replace(".pt", f"{trainer.checkpoint_suffix}.pt")
    if cfg.restore_file == LAST:
        path = os.path.join(cfg.save_dir, path)
    elif not PathManager.exists(path):
        raise InputError(f"--restore-file {path}: no such file; without the option, training goes on from {LAST}")
    try:
        state, epoch_itr = load_checkpoint(cfg, trainer, **passthrough)
    except (RuntimeError, OSError, EOFError, pickle.UnpicklingError) as error:
        path = path if PathManager.exists(path) else cfg.finetune_from_model
        cure = f"if it is damaged, go on from an older checkpoint in {cfg.save_dir} by --restore-file"
        raise InputError(f"{path}: cannot be loaded ({quote(error)}); {cure}") from error
    resets = cfg.reset_optimizer or cfg.reset_lr_scheduler or cfg.reset_dataloader or cfg.reset_meters
    goes_on = PathManager.exists(path) and not resets  # not with --finetune-from-model
    if goes_on and state["train_iterator"]["iterations_in_epoch"] == 0:
        if "train_inner" in state.get("metrics", {}):  # the mean of the log's interval
            metrics.load_state_dict({"train_inner": state["metrics"]["train_inner"]})
        if isinstance(trainer.lr_scheduler, ReduceLROnPlateauLRSchedule):
            # The learning rate falls only after the checkpoint at the end of the epoch is saved.
            trainer.lr_step(state["train_iterator"]["epoch"] - 1, state.get("val_loss"))
    updates = trainer.get_num_updates()
    if updates > 0 and updates == trainer.cfg.optimization.max_update:
        logger.info(f"nothing to do: the {updates} updates of --max-update are done")
        raise SystemExit(0)
    install_signal_handlers()
    return state, epoch_itr


def install_signal_handlers() -> None:
    """Note SIGINT and SIGTERM; a second Ctrl-C ends the process at once."""
    signal.signal(signal.SIGINT, _note_signal)
    signal.signal(signal.SIGTERM, _note_signal)
    os.register_at_fork(after_in_child=_ignore_signals_of_others)


def _note_signal(number: int, frame: Any) -> None:
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
    losses, should_stop = validate_and_save(cfg, trainer, task, epoch_itr, *options)
    number = received
    if trainer.data_parallel_world_size > 1:  # processes may get the signal in different updates
        signals = torch.tensor(number, device=trainer.device)
        fairseq.distributed.utils.all_reduce(signals, trainer.data_parallel_process_group, op="max")
        number = int(signals)
    if not number or should_stop:
        return losses, should_stop
    fairseq.checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, losses[0])
    if torch.distributed.is_initialized():  # the launcher kills the other processes when the first process ends
        torch.distributed.barrier(fairseq.distributed.utils.get_global_group())
    updates, goes_on = trainer.get_num_updates(), f"goes on from {cfg.checkpoint.save_dir}/checkpoint_last.pt"
    logger.info(f"{signal.Signals(number).name}: training stops after update {updates}; the same command {goes_on}")
    raise SystemExit(128 + number)


def parse_with_hints(
    parse: Callable[..., Any], parser: argparse.ArgumentParser, words: Sequence[str] | None = None, **options: Any
) -> Any:
    """Parse as in fairseq, but answer a mistake in two lines, and print help with the options of --arch and --task.

    fairseq parses twice, because --arch and --task add options; it prints help when it parses the first time.
    """
    parser.__class__ = Parser
    words = sys.argv[1:] if words is None else words
    rest = [word for word in words if word not in ("-h", "--help")]
    if len(rest) == len(words):
        return parse(parser, words, **options)
    times = itertools.count()

    def print_help(parser: argparse.ArgumentParser) -> None:
        if next(times):
            parser.print_help()
            parser.exit()

    return parse(parser, rest, **{**options, "modify_parser": print_help})


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
    print_without_traceback(of_interrupts=False)
