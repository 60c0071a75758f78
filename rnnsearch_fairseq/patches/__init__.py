"""All that this package replaces in fairseq, in one table; ``RNNSEARCH_PATCHES=none`` leaves fairseq as it is.

README.md says for each target what fairseq does, and what it does now.
"""

import functools
import os
import pkgutil
import sys
from collections.abc import Callable
from typing import Any

from rnnsearch_fairseq.errors import InputError, print_without_traceback
from rnnsearch_fairseq.patches import fixes
from rnnsearch_fairseq.patches.recovery import resuming, saving, stopping

VARIABLE = "RNNSEARCH_PATCHES"
# The dotted name of each target, and the function that is called in its place, with the target as first argument.
PATCHES: dict[str, Callable[..., Any]] = {
    "fairseq.data.data_utils.batch_by_size": fixes.keep_every_sentence,
    "fairseq.options.parse_args_and_arch": fixes.read_command_line,
    "fairseq.checkpoint_utils.load_checkpoint_to_cpu": fixes.refuse_code_in_options,
    "fairseq.distributed.utils.call_main": fixes.set_up_processes,
    "fairseq.checkpoint_utils.torch_persistent_save": saving.save_whole,
    "fairseq.file_io.PathManager.copy": saving.copy_whole,
    "fairseq.checkpoint_utils.verify_checkpoint_directory": saving.begin_alone,
    "fairseq.checkpoint_utils.load_checkpoint": resuming.go_on,
    "fairseq.optim.fp16_optimizer.FP16Optimizer.state_dict": resuming.keep_float32,
    "fairseq.optim.fp16_optimizer.FP16Optimizer.load_state_dict": resuming.restore_float32,
    "fairseq.trainer.Trainer._aggregate_logging_outputs": stopping.share_the_signal,
    "fairseq_cli.train.validate_and_save": stopping.stop_after_update,
}
# What was in the place of each target, by its module or class and its name there.
ORIGINALS: dict[tuple[Any, str], Any] = {}


def apply() -> None:
    """Replace all targets, unless ``RNNSEARCH_PATCHES`` is ``none``; a second call changes nothing.

    Raises:
        InputError: a target is not in this fairseq; then none is replaced.
    """
    if ORIGINALS or os.environ.get(VARIABLE) == "none":
        return
    found = [(owner, target) for target in PATCHES for owner in _owners(target)]
    for owner, target in found:
        name = target.rpartition(".")[2]
        ORIGINALS[owner, name] = getattr(owner, name)
        setattr(owner, name, _around(ORIGINALS[owner, name], PATCHES[target]))
    fixes.calm_the_root_logger()
    fixes.allow_checkpoint_classes()
    fixes.ignore_warnings_about_libraries()
    print_without_traceback(of_interrupts=False)


def _owners(target: str) -> list[Any]:
    """The modules or classes that have the target; a command that ``python -m`` started is the module ``__main__``."""
    path, _, name = target.rpartition(".")
    try:
        owners = [pkgutil.resolve_name(path)]
        getattr(owners[0], name)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"{target} is not there: this fairseq is another version than the one that the patches were made for; "
            f"install fairseq-fixed 0.12.3.1, or go without the patches by {VARIABLE}=none"
        ) from error
    main = sys.modules["__main__"]
    if getattr(getattr(main, "__spec__", None), "name", None) == path:
        owners.append(main)
    return owners


def _around(original: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def replaced(*args: Any, **kwargs: Any) -> Any:
        return replacement(original, *args, **kwargs)

    return replaced
