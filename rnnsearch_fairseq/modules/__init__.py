"""The networks and costs of both papers in plain PyTorch, without fairseq.

``rnnsearch`` and ``tree2seq`` are the whole networks; they alone import the faster versions in ``fused/``.
"""

from rnnsearch_fairseq.modules.attention import AlignmentModel, FixedContext, average_annotations
from rnnsearch_fairseq.modules.decoder import Decoder
from rnnsearch_fairseq.modules.encoder import Encoder
from rnnsearch_fairseq.modules.gru import GatedHiddenUnit
from rnnsearch_fairseq.modules.init import initialize
from rnnsearch_fairseq.modules.readout import DeepOutput

__all__ = ["AlignmentModel", "Decoder", "DeepOutput", "Encoder", "FixedContext", "GatedHiddenUnit"]
__all__ += ["average_annotations", "initialize"]
