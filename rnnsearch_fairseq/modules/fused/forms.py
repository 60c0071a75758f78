"""Which networks run in their fused form: only what is made of exactly the classes whose equations that form computes.

Any other class, a subclass too, may compute something else. The encoder or decoder that contains it runs through the
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
    """Whether ``module``, an encoder or a decoder, is exactly of the class ``fused``, and its parts are of PARTS."""
    return type(module) is fused and all(type(part) in PARTS for part in module.modules() if part is not module)
