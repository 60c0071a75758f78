"""The mathematics of the papers in pure PyTorch: nothing in this folder imports fairseq."""

from rnnsearch_fairseq.modules.attention import AlignmentModel, FixedContext, Memory
from rnnsearch_fairseq.modules.decoder import Decoder, DecoderOutput
from rnnsearch_fairseq.modules.embedding import BiasedEmbedding
from rnnsearch_fairseq.modules.encoder import Encoder, EncoderOutput
from rnnsearch_fairseq.modules.gru import GatedHiddenUnit
from rnnsearch_fairseq.modules.init import initialize
from rnnsearch_fairseq.modules.maxout import Maxout
from rnnsearch_fairseq.modules.readout import DeepOutput

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
    "initialize",
]
