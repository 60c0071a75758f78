"""All that this package replaces in fairseq, in one table; README.md says why."""

import argparse
import collections
import functools
import pkgutil
import typing
from collections.abc import Callable
from typing import Any

import fairseq.distributed.utils
import omegaconf
import omegaconf.base
import torch
from omegaconf import nodes

from rnnsearch_fairseq.errors import Parser, print_without_traceback
from rnnsearch_fairseq.inference.loading import PLAIN_CLASSES
from rnnsearch_fairseq.patches import checkpoints, stopping


def parse_with_hints(parse: Callable[..., Any], parser: argparse.ArgumentParser, *args: Any, **options: Any) -> Any:
    """Parse as in fairseq; a mistake is answered in two lines."""
    parser.__class__ = Parser
    return parse(parser, *args, **options)


# The dotted name of each target, and the function that is called in its place, with the target as first argument.
PATCHES: dict[str, Callable[..., Any]] = {
    "fairseq.file_io.PathManager.copy": checkpoints.copy_whole,
    "fairseq.checkpoint_utils.load_checkpoint": checkpoints.resume,
    "fairseq_cli.train.validate_and_save": stopping.stop_after_update,
    "fairseq.options.parse_args_and_arch": parse_with_hints,
}
# The classes of checkpoints, which only hold data. A training by several processes broadcasts omegaconf objects and
# placeholders for tensors when it resumes.
CLASSES = [*PLAIN_CLASSES, fairseq.distributed.utils._TensorPlaceholder, omegaconf.DictConfig, omegaconf.ListConfig]
CLASSES += [omegaconf.base.ContainerMetadata, omegaconf.base.Metadata]
CLASSES += [nodes.AnyNode, nodes.BooleanNode, nodes.IntegerNode, nodes.FloatNode, nodes.StringNode]
# The types that omegaconf's metadata names.
CLASSES += [dict, list, int, float, str, bool, collections.defaultdict, (typing.Any, "typing.Any")]


@functools.cache
def apply() -> None:
    """Replace all targets; a second call changes nothing."""
    for target, replacement in PATCHES.items():
        owner, _, name = target.rpartition(".")
        original = pkgutil.resolve_name(target)
        replaced = functools.wraps(original)(functools.partial(replacement, original))
        setattr(pkgutil.resolve_name(owner), name, replaced)
    torch.serialization.add_safe_globals(CLASSES)
    print_without_traceback(of_interrupts=False)
