"""Say which encoders and decoders run in their fused form.

The fused form runs only if every part is of a class in ``WRITTEN_FOR`` or ``PLAIN``, and nobody has changed these
classes or objects: any other class, a subclass too, may compute something else. Otherwise the readable ``step`` and
``scan`` run, in training and in a search. They are slower, but they compute the equations as you wrote them.
"""

import inspect
import logging
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

from torch import nn

from rnnsearch_fairseq.modules import attention
from rnnsearch_fairseq.modules.attention import AlignmentModel, FixedContext
from rnnsearch_fairseq.modules.decoder import Decoder
from rnnsearch_fairseq.modules.embedding import BiasedEmbedding, WordEmbedding
from rnnsearch_fairseq.modules.encoder import Encoder
from rnnsearch_fairseq.modules.gru import GatedHiddenUnit
from rnnsearch_fairseq.modules.lstm import LSTM
from rnnsearch_fairseq.modules.readout import DeepOutput
from rnnsearch_fairseq.modules.tree_decoder import TreeDecoder
from rnnsearch_fairseq.modules.tree_encoder import TreeEncoder
from rnnsearch_fairseq.modules.tree_lstm import TreeLSTM

logger = logging.getLogger(__name__)

# The classes, and functions of a module, for which the fused code was written, and a checksum of their functions'
# source. It is the same with Python 3.10 to 3.13.
WRITTEN_FOR: dict[Any, int] = {
    attention: 0x2411C142,
    AlignmentModel: 0xD07C0441,
    FixedContext: 0x57B69D00,
    GatedHiddenUnit: 0x590BC060,
    Encoder: 0x34D507F1,
    Decoder: 0xBE36150A,
    DeepOutput: 0xD0A90C44,
    BiasedEmbedding: 0x211A7BFC,
    WordEmbedding: 0x306EE280,
    LSTM: 0x4B70DFFE,
    TreeLSTM: 0xD4D5C71E,
    TreeEncoder: 0xCBE9D602,
    TreeDecoder: 0x8A847B8E,
}
PLAIN = {nn.Linear, nn.Dropout}
HOOKS = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"
# The layers and cells whose bias the fused code adds.
BIASED = {"embedding", "unit", "forward_unit", "backward_unit", "from_summary", "from_state", "to_vocabulary"}
BIASED |= {"attention.from_annotation", "readout.from_state", "readout.to_vocabulary"}
BIASED |= {"lstm.from_input", "tree_lstm.from_children", "start.from_children"}


def has_fused_form(module: nn.Module, fused: type[nn.Module]) -> bool:
    """Whether the encoder or decoder ``module`` has the class ``fused``, and known parts that nobody has changed."""
    if type(module) is not fused:
        return False
    parts = [part for part in module.modules() if part is not module]
    changed = [type(part) for part in parts if type(part) not in WRITTEN_FOR and type(part) not in PLAIN]
    changed += [type(part) for part in parts if any(vars(part)[name] for name in HOOKS)]
    changed += [type(part) for part in module.modules() if any(map(inspect.isroutine, vars(part).values()))]
    owners = {attention, *fused.__mro__, *map(type, parts)}
    changed += [owner for owner in owners & WRITTEN_FOR.keys() if find_checksum(owner) != WRITTEN_FOR[owner]]
    names = [owner.__name__ for owner in changed]
    names += [name for name, _ in module.named_parameters() if name.endswith(".bias") and name[:-5] not in BIASED]
    for name in names:
        _warn(name)
    return not names


def find_checksum(owner: Any) -> int:
    """The checksum of the functions and properties in a class, or of the functions in a module."""
    found = (getattr(value, "fget", value) for value in vars(owner).values())
    place = getattr(owner, "__module__", owner.__name__)
    return _add_up(tuple(one for one in found if inspect.isfunction(one) and one.__module__ == place))


@cache
def _add_up(functions: tuple[Callable[..., Any], ...]) -> int:
    """The checksum of the functions' source; 0 if a function has no source file, because it was typed in a session."""
    try:
        return zlib.crc32("".join(inspect.getsource(function.__code__) for function in functions).encode())
    except OSError:
        return 0


@cache
def _warn(name: str) -> None:
    logger.warning(f"{name} is new or changed: its network runs the readable code, which is slower than the fused code")
