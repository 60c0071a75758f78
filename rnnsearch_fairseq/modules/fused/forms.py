"""Which encoders and decoders run in their fused form: only those that consist of the classes in ``PARTS``.

Any other class, a subclass too, may compute something else. An encoder or decoder that contains one runs through the
readable ``step`` and ``scan``, in training and in a search: slower, but as it is written.
"""

from torch import nn

from rnnsearch_fairseq.modules.attention import AlignmentModel, FixedContext
from rnnsearch_fairseq.modules.embedding import BiasedEmbedding, WordEmbedding
from rnnsearch_fairseq.modules.gru import GatedHiddenUnit
from rnnsearch_fairseq.modules.lstm import LSTM
from rnnsearch_fairseq.modules.readout import DeepOutput
from rnnsearch_fairseq.modules.tree_lstm import TreeLSTM

PARTS = {AlignmentModel, FixedContext, GatedHiddenUnit, DeepOutput, BiasedEmbedding, WordEmbedding, LSTM, TreeLSTM}
PARTS |= {nn.Linear, nn.Dropout}


def has_fused_form(module: nn.Module, fused: type[nn.Module]) -> bool:
    """Whether the encoder or decoder ``module`` has the class ``fused``, and its parts classes in ``PARTS``."""
    return type(module) is fused and all(type(part) in PARTS for part in module.modules() if part is not module)
