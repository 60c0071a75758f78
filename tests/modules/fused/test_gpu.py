"""On a GPU: a training whose loops are replayed is the training whose loops run as they are."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from fairseq import utils

from rnnsearch_fairseq.modules.fused import recording
from rnnsearch_fairseq.modules.rnnsearch import RNNsearch, RNNsearchConfig
from rnnsearch_fairseq.modules.tree2seq import Tree2Seq
from rnnsearch_fairseq.modules.tree_lstm import Forest
from tests.builders import PAD
from tests.modules.fused.test_networks import CONFIGS, make_sample

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")]


def losses(name: str, dtype: torch.dtype) -> list[float]:
    """The losses of a training, on batches of two shapes in turn."""
    torch.manual_seed(1)
    config = replace(CONFIGS[name], scan="fused", embedding_size=32, hidden_size=32)
    network = (RNNsearch if isinstance(config, RNNsearchConfig) else Tree2Seq)(config, 16, 16).to("cuda", dtype)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    samples = [make_sample(target, True) for target in ("ragged", "full")]
    values = []
    for number in range(100):
        sample = utils.move_to_cuda(samples[number % 2])
        target = sample["target"]
        scores, _ = network(sample["src_tokens"], target, Forest(*sample["trees"]))
        loss = F.cross_entropy(scores.flatten(0, 1).float(), target.roll(-1, 1).flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        values.append(loss.detach())
    return torch.stack(values).tolist()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-3), (torch.bfloat16, 0.05)], ids=str)
@pytest.mark.parametrize("name", CONFIGS)
def test_replayed_training_has_the_same_losses(
    name: str, dtype: torch.dtype, tolerance: float, warned: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed = losses(name, dtype)
    assert warned.messages == []
    monkeypatch.delitem(recording.RECORDERS, "cuda")
    assert replayed == pytest.approx(losses(name, dtype), rel=tolerance)
    assert replayed[-1] < 0.8 * replayed[1]
