"""Say which encoders and decoders run in their fused form.

The fused form runs only if every part is of a class in ``PARTS``, and no function in ``REPLACED`` was changed: any
other class, a subclass too, may compute something else. Otherwise the readable ``step`` and ``scan`` run, in training
and in a search. They are slower, but compute what is written.
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

PARTS = {AlignmentModel, FixedContext, GatedHiddenUnit, DeepOutput, BiasedEmbedding, WordEmbedding, LSTM, TreeLSTM}
PARTS |= {nn.Linear, nn.Dropout}
# The functions in whose place fused code may run, and a checksum of the source for which that code was written. It is
# the same with Python 3.10 to 3.13.
REPLACED: list[tuple[Any, str, int]] = [
    (attention, "average_annotations", 0x2411C142),
    (AlignmentModel, "forward", 0xF639BC6D),
    (FixedContext, "forward", 0xE1D5BDAE),
    (GatedHiddenUnit, "forward", 0x62F5C49C),
    (Encoder, "scan", 0xB58C7A1D),
    (Decoder, "step", 0x52909742),
    (Decoder, "scan", 0x8B9BFEB3),
    (DeepOutput, "forward", 0x97E04D7E),
    (BiasedEmbedding, "forward", 0xF4ADD797),
    (WordEmbedding, "forward", 0x8BB8B332),
    (LSTM, "forward", 0x98664E23),
    (TreeLSTM, "forward", 0x39D7B868),
    (TreeEncoder, "scan", 0xC7093A76),
    (TreeEncoder, "join", 0xC6DC8CA8),
    (TreeDecoder, "attend", 0x9CD326B2),
    (TreeDecoder, "step", 0xD151C619),
    (TreeDecoder, "scan", 0x09C2E7EB),
]


def has_fused_form(module: nn.Module, fused: type[nn.Module]) -> bool:
    """Whether the encoder or decoder ``module`` has the class ``fused``, known parts, and unchanged functions."""
    is_known = type(module) is fused and all(type(part) in PARTS for part in module.modules() if part is not module)
    return is_known and not any(is_changed(getattr(owner, name), checksum) for owner, name, checksum in REPLACED)


@cache
def is_changed(function: Callable[..., Any], checksum: int) -> bool:
    """Whether the source of a function has another checksum; a warning says so once."""
    try:
        found = zlib.crc32(inspect.getsource(function).encode())
    except OSError:  # typed into a session
        found = 0
    if found != checksum:
        logger.warning(f"{function.__qualname__} was changed: networks run as it is written, not in their fused form")
    return found != checksum
