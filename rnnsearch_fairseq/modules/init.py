"""Parameter initialisation: Appendix B.1 of the first paper, Section 4.2 of the second."""

from torch import nn

from rnnsearch_fairseq.modules.attention import AlignmentModel
from rnnsearch_fairseq.modules.gru import GatedHiddenUnit
from rnnsearch_fairseq.modules.lstm import LSTM
from rnnsearch_fairseq.modules.tree_lstm import TreeLSTM


def initialize(model: nn.Module) -> None:
    """Give every parameter of ``model`` its initial value of Appendix B.1, in place.

    - recurrent matrices U, U_z, U_r of every gated unit: random orthogonal;
    - W_a, U_a: Gaussian, mean 0, variance 0.001²; v_a and all biases: zero;
    - all other weights, embeddings included: Gaussian, mean 0, variance 0.01². Rows of padding stay zero.
    """
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        else:
            nn.init.normal_(parameter, std=0.01)
    for module in model.modules():
        if isinstance(module, GatedHiddenUnit):
            for matrix in (module.from_reset_state.weight, *module.from_state.weight.detach().chunk(2)):
                nn.init.orthogonal_(matrix)
        elif isinstance(module, AlignmentModel):
            for layer in (module.from_state, module.from_annotation):
                nn.init.normal_(layer.weight, std=0.001)
            nn.init.zeros_(module.energy.weight)
    _zero_padding(model)


def initialize_uniform(model: nn.Module) -> None:
    """Give every parameter of a tree-to-sequence model its initial value (Eriguchi et al., Section 4.2), in place.

    - weights, embeddings included: uniform in [-0.1, 0.1]; rows of padding zero;
    - biases: one for forget gates, else zero;
    - the softmax layer: zero.
    """
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "to_vocabulary" in name:
            nn.init.zeros_(parameter)
        else:
            nn.init.uniform_(parameter, -0.1, 0.1)
    for module in model.modules():
        if isinstance(module, LSTM):
            nn.init.ones_(module.from_input.bias.detach().chunk(4)[1])
        elif isinstance(module, TreeLSTM):
            for gate in (1, 2):
                nn.init.ones_(module.from_children.bias.detach().chunk(5)[gate])
    _zero_padding(model)


def _zero_padding(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.zeros_(module.weight[module.padding_idx].detach())
