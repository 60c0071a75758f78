"""Budgets of one update on a GPU, at the paper's size, with 28 words a side and 80 sentences a batch, in bfloat16."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from fairseq.logging import metrics

pytest.importorskip("triton")

from recipes.benchmark.workloads import make_trainer
from rnnsearch_fairseq.models import rnnsearch
from tests.builders import EOS, make_sample
from tests.modules.fused.launches import Launches

PAPER = [
    *("--arch", "bahdanau_gru", "--task", "pooled_translation", "--batch-size", "80", "--cpu", "--bf16"),
    *("--criterion", "summed_nll", "--optimizer", "adadelta", "--clip-norm", "1"),
]
WORDS, PAIRS, VOCABULARY = 28, 80, 30_000
MOST_LAUNCHES = 860
# fairseq rounds four averages for its log at each update, and looks three times whether the gradient's norm is finite;
# the package copies the norm to the host once for all three.
WAITS = {("rest", "_local_scalar_dense"): 4, ("clipping", "to the host"): 1}


@pytest.fixture(scope="module")
def update() -> Iterator[Launches]:
    """One update, counted."""
    counter = Launches()
    sentences = [[5] * (WORDS - 1) + [EOS], *([[5] * 20 + [EOS]] * (PAIRS - 1))]
    batch = on_meta(make_sample(sentences, sentences, left=True))
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(rnnsearch, "initialize", lambda model: None)
        trainer = make_trainer(PAPER, VOCABULARY)
        trainer.model.to("meta")
        monkeypatch.setattr(trainer, "save_checkpoint", lambda *args: None)
        counter.watch(trainer, monkeypatch)
        with counter:
            trainer.train_step([batch])  # makes the optimizer's state, too
            counter.launches.clear()
            counter.waits.clear()
            trainer.train_step([batch])
        metrics.reset()  # fairseq's averages of this update have no numbers
        yield counter


def on_meta(sample: Any) -> Any:
    if isinstance(sample, dict):
        return {name: on_meta(value) for name, value in sample.items()}
    return sample.to("meta") if isinstance(sample, torch.Tensor) else sample


@pytest.mark.patched  # fairseq takes --bf16 for a TPU
def test_an_update_launches_few_kernels(update: Launches) -> None:
    assert update.launches["encoder", "triton _apply_gates"] == WORDS
    assert update.launches["optimizer", "triton _adadelta"] == 28  # parameters
    assert update.launches.total() <= MOST_LAUNCHES, update.table()


@pytest.mark.patched  # fairseq takes --bf16 for a TPU
def test_the_host_waits_where_fairseq_does(update: Launches) -> None:
    assert update.waits == WAITS, update.table()


def test_what_is_counted() -> None:
    counter = Launches()
    matrix = torch.zeros(3, 3, device="meta")
    with counter:
        matrix.T.unsqueeze(0).expand(2, 3, 3)  # views
        torch.addmm(matrix[0], matrix, matrix)
        torch.addmm(matrix, matrix, matrix)  # copies its summand
        torch.empty_like(matrix).zero_().add_(1)
        torch.zeros(3) + 1  # on the host
        assert (matrix > 0).any()
        matrix[matrix[0] > 0]
        matrix.cpu()
    names = {name: number for (_, name), number in counter.launches.items() if number}
    assert names == {"addmm": 3, "zero_": 1, "add_": 1, "gt": 2, "any": 1, "index": 4}, names
    assert counter.waits == {("rest", "_local_scalar_dense"): 1, ("rest", "index"): 1, ("rest", "to the host"): 1}
