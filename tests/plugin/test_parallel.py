"""The criterions under torch's own DistributedDataParallel."""

from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from fairseq.criterions import FairseqCriterion
from fairseq.distributed import ModuleProxyWrapper
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from rnnsearch_fairseq.plugin.criterions import SmoothedNLL, SummedNLL
from rnnsearch_fairseq.plugin.models import scores_features
from tests.builders import make_dictionary, make_model
from tests.plugin import test_tree2seq as trees
from tests.plugin.test_blackout import make_criterion

SAMPLE = trees.make_batch(trees.SOURCES, trees.TARGETS, trees.TREES)
WITHOUT_TREES = {**SAMPLE, "net_input": {key: value for key, value in SAMPLE["net_input"].items() if key != "trees"}}


@pytest.fixture
def _one_process() -> Iterator[None]:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def gradients(criterion: FairseqCriterion, model: nn.Module, sample: dict[str, Any]) -> dict[str, Tensor]:
    """Of two updates in a row: what is wrong with the first shows in the second."""
    for _ in range(2):
        torch.manual_seed(1)
        model.zero_grad()
        criterion(model, sample)[0].backward()
    return {name.rpartition("module.")[2]: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.usefixtures("_one_process")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("find_unused", [False, True])
@pytest.mark.parametrize("name", ["summed_nll", "blackout", "smoothed_nll"])
def test_gradients_are_those_without_it(name: str, find_unused: bool) -> None:
    task, sample = Namespace(target_dictionary=make_dictionary(17)), WITHOUT_TREES
    model: nn.Module = make_model(dropout=0.3, readout_dropout=0.3).train()
    if name == "summed_nll":
        criterion: FairseqCriterion = SummedNLL(task)
    elif name == "smoothed_nll":
        criterion = SmoothedNLL(task, label_smoothing=0.1, sentence_avg=False)
    else:
        criterion, model, sample = make_criterion("--blackout-samples", "6"), trees.make_model().train(), SAMPLE
    expected = gradients(criterion, model, sample)
    model.zero_grad()
    parallel = ModuleProxyWrapper(DistributedDataParallel(model, find_unused_parameters=find_unused))
    assert scores_features(parallel)
    found = gradients(criterion, parallel, sample)
    assert found.keys() == expected.keys()
    for parameter in expected:
        torch.testing.assert_close(found[parameter], expected[parameter], rtol=0, atol=1e-5)
