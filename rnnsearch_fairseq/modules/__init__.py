"""The networks and costs of both papers in plain PyTorch.

Imports nothing of fairseq, and errors alone of this package. ``rnnsearch`` and ``tree2seq`` are the whole networks;
they import the faster versions in ``fused/``, and the other files do not.
"""

from rnnsearch_fairseq.modules.attention import AlignmentModel, FixedContext, Memory, average_annotations
from rnnsearch_fairseq.modules.decoder import Decoder, DecoderOutput
from rnnsearch_fairseq.modules.embedding import BiasedEmbedding
from rnnsearch_fairseq.modules.encoder import Encoder, EncoderOutput
from rnnsearch_fairseq.modules.gru import GatedHiddenUnit
from rnnsearch_fairseq.modules.init import initialize
from rnnsearch_fairseq.modules.readout import DeepOutput, Maxout

__all__ = [
    "AlignmentModel",
    "BiasedEmbedding",
    "Decoder",
    "DecoderOutput",
    "DeepOutput",
    "Encoder",
    "EncoderOutput",
    "FixedContext",
    "GatedHiddenUnit",
    "Maxout",
    "Memory",
    "average_annotations",
    "initialize",
]
