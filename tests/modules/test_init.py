"""The initial values of Appendix B.1 of the first paper, of Section 4.2 of the second, and the sizes of A.2.3."""

import pytest
import torch

from rnnsearch_fairseq.modules import GatedHiddenUnit, initialize
from rnnsearch_fairseq.modules.init import initialize_uniform
from rnnsearch_fairseq.modules.rnnsearch import ARCHITECTURES, RNNsearch, RNNsearchConfig
from rnnsearch_fairseq.modules.tree2seq import Tree2Seq, Tree2SeqConfig


def test_initial_values_of_the_first_paper() -> None:
    torch.manual_seed(11)
    config = RNNsearchConfig(embedding_size=80, hidden_size=90, alignment_size=100, maxout_size=70)
    network = RNNsearch(config, 300, 310)
    for parameter in network.parameters():
        parameter.data.fill_(7.0)  # shows that initialize sets every value
    initialize(network)
    units = [module for module in network.modules() if isinstance(module, GatedHiddenUnit)]
    recurrent = [unit.from_reset_state.weight.detach() for unit in units]
    recurrent += [matrix for unit in units for matrix in unit.from_state.weight.detach().chunk(2)]
    assert len({round(float(matrix[0, 0]), 8) for matrix in recurrent}) == 9, "each is drawn independently"
    for matrix in recurrent:
        torch.testing.assert_close(matrix @ matrix.T, torch.eye(90), rtol=0, atol=1e-5)
    for name, parameter in network.named_parameters():
        values, std = parameter, 0.001 if "attention" in name else 0.01
        if name.endswith("bias") or "energy" in name:
            assert parameter.eq(0).all(), name
        elif "unit.from_state" not in name and "from_reset_state" not in name:
            if "table" in name:
                assert parameter[1].eq(0).all(), "the row of padding"
                values = torch.cat([parameter[:1], parameter[2:]])
            assert values.std().item() == pytest.approx(std, rel=0.05), name
            assert abs(values.mean().item()) < std * 4.5 / values.numel() ** 0.5, name


@pytest.mark.parametrize(("arch", "count"), [("groundhog_search", 84_349_101), ("groundhog_encdec", 72_487_101)])
def test_parameter_count_of_the_original_code_with_its_own_30001_ids(arch: str, count: int) -> None:
    with torch.device("meta"):
        network = RNNsearch(RNNsearchConfig.from_values(ARCHITECTURES[arch]), 30_001, 30_001)
    assert sum(parameter.numel() for parameter in network.parameters()) == count


def test_initial_values_of_the_second_paper() -> None:
    network = Tree2Seq(Tree2SeqConfig(embedding_size=8, hidden_size=8), 50, 50)
    initialize_uniform(network)
    for name, parameter in network.named_parameters():
        if name.endswith("from_children.bias"):
            assert parameter.tolist() == [0] * 8 + [1] * 16 + [0] * 16, name
        elif name.endswith("from_input.bias"):
            assert parameter.tolist() == [0] * 8 + [1] * 8 + [0] * 16, name
        elif "to_vocabulary" in name or name.endswith("bias"):
            assert parameter.eq(0).all(), name
        else:
            assert parameter.abs().max() <= 0.1 and parameter.std() > 0.05, name
