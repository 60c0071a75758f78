"""The initial values of Appendix B.1 and the sizes of Appendix A.2.3."""

import pytest
import torch
from torch import nn

from rnnsearch_fairseq.modules import AlignmentModel, Decoder, Encoder, GatedHiddenUnit, initialize
from rnnsearch_fairseq.modules.init import initialize_uniform
from rnnsearch_fairseq.modules.rnnsearch import ARCHITECTURES, RNNsearch, RNNsearchConfig
from rnnsearch_fairseq.modules.tree2seq import Tree2Seq, Tree2SeqConfig


@pytest.fixture(scope="module")
def model() -> nn.ModuleDict:
    torch.manual_seed(11)
    config = RNNsearchConfig(embedding_size=80, hidden_size=90, alignment_size=100, maxout_size=70)
    model = nn.ModuleDict({"encoder": Encoder(config, 300), "decoder": Decoder(config, 310)})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7.0)  # shows that initialize sets every value
    initialize(model)
    return model


def test_nine_recurrent_matrices_are_orthogonal(model: nn.ModuleDict) -> None:
    units = [module for module in model.modules() if isinstance(module, GatedHiddenUnit)]
    matrices = [unit.from_reset_state.weight.detach() for unit in units]
    matrices += [matrix for unit in units for matrix in unit.from_state.weight.detach().chunk(2)]
    assert len(matrices) == 9
    for matrix in matrices:
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(90), rtol=0, atol=1e-5)
    assert len({round(float(matrix[0, 0]), 8) for matrix in matrices}) == 9, "each is drawn independently"


def test_alignment_model(model: nn.ModuleDict) -> None:
    (attention,) = (module for module in model.modules() if isinstance(module, AlignmentModel))
    for weight in (attention.from_state.weight, attention.from_annotation.weight):
        assert weight.std().item() == pytest.approx(0.001, rel=0.03)
        assert abs(weight.mean().item()) < 0.001 * 4 / weight.numel() ** 0.5
    assert attention.energy.weight.eq(0).all()


def test_all_other_weights_are_gaussian_and_biases_zero(model: nn.ModuleDict) -> None:
    biases = weights = 0
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert parameter.eq(0).all(), name
            biases += 1
        elif "attention" not in name and "unit.from_state" not in name and "from_reset_state" not in name:
            values = parameter
            if "table" in name:
                assert parameter[1].eq(0).all(), "the row of padding"
                values = torch.cat([parameter[:1], parameter[2:]])
            assert values.std().item() == pytest.approx(0.01, rel=0.05), name
            assert abs(values.mean().item()) < 0.01 * 4.5 / values.numel() ** 0.5, name
            weights += 1
    assert (biases, weights) == (8, 11)


@pytest.mark.parametrize(("arch", "count"), [("groundhog_search", 84_349_101), ("groundhog_encdec", 72_487_101)])
def test_parameter_count_of_the_original_code_with_its_own_30001_ids(arch: str, count: int) -> None:
    with torch.device("meta"):
        network = RNNsearch(RNNsearchConfig.from_values(ARCHITECTURES[arch]), 30_001, 30_001)
    assert sum(parameter.numel() for parameter in network.parameters()) == count


def test_initial_values_of_the_second_paper() -> None:
    network = Tree2Seq(Tree2SeqConfig(embedding_size=8, hidden_size=8), 50, 50)
    initialize_uniform(network)
    for name, parameter in network.named_parameters():
        if "to_vocabulary" in name:
            assert parameter.eq(0).all(), name
        elif name.endswith("from_children.bias"):
            assert parameter.tolist() == [0] * 8 + [1] * 16 + [0] * 16, name
        elif name.endswith("from_input.bias"):
            assert parameter.tolist() == [0] * 8 + [1] * 8 + [0] * 16, name
        elif name.endswith("bias"):
            assert parameter.eq(0).all(), name
        else:
            assert parameter.abs().max() <= 0.1 and parameter.std() > 0.05, name
