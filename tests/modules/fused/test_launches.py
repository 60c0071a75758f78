"""Budgets of one update on a GPU: of RNNsearch in bfloat16, and of the tree-to-sequence model in float32."""

from typing import Any

import pytest
import torch
from fairseq.logging import metrics

pytest.importorskip("triton")

from recipes.benchmark import workloads
from rnnsearch_fairseq.criterions import blackout
from rnnsearch_fairseq.models import rnnsearch, tree2seq
from rnnsearch_fairseq.modules.blackout import AliasTable
from rnnsearch_fairseq.modules.fused import dispatch
from rnnsearch_fairseq.tasks.tree_translation import TreeTranslationTask
from tests.builders import EOS, make_sample
from tests.models.builders import make_batch
from tests.modules.fused.launches import Launches

# The paper's size.
PAPER = [
    *("--arch", "bahdanau_gru", "--task", "pooled_translation", "--batch-size", "80", "--cpu", "--bf16"),
    *("--criterion", "summed_nll", "--optimizer", "adadelta", "--clip-norm", "1"),
]
WORDS, PAIRS, VOCABULARY = 28, 80, 30_000
MOST_LAUNCHES = {False: 860, True: 840}  # whether the annotations are multiplied once
# fairseq rounds four averages for its log at each update, and looks three times whether the gradient's norm is finite;
# the package copies the norm to the host once for all three.
WAITS = {("rest", "_local_scalar_dense"): 4, ("clipping", "to the host"): 1}


# The second paper's small setting, with sentences of 10 words: half of the trees branch to the right, half both ways.
SMALL = [
    *("--arch", "tree2seq_small", "--task", "tree_translation", "--batch-size", "128", "--cpu"),
    *("--optimizer", "sgd", "--lr", "1", "--clip-norm", "3", "--sentence-avg"),
]
TREE_WORDS, TREE_PAIRS, TREE_VOCABULARY = 10, 128, 20_000
MOST_TREE_LAUNCHES = {"summed_nll": 440, "blackout": 490}
HEIGHTS = TREE_WORDS - 1


@pytest.fixture(scope="module", params=[False, True], ids=["many pairs", "few pairs"])
def update(request: pytest.FixtureRequest) -> tuple[bool, Launches]:
    """Whether products with annotations stay in the cache, and one update of RNNsearch then, counted."""
    sentences = [[5] * (WORDS - 1) + [EOS], *([[5] * 20 + [EOS]] * (PAIRS - 1))]
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(dispatch, "stays_in_cache", lambda numbers, tensor: request.param)
        return request.param, count_update(PAPER, VOCABULARY, make_sample(sentences, sentences, left=True), monkeypatch)


@pytest.fixture(scope="module", params=["summed_nll", "blackout"])
def tree_update(request: pytest.FixtureRequest) -> tuple[str, Launches]:
    """A criterion, and one update of the tree-to-sequence model with it, counted."""
    criterion, dictionary = request.param, workloads.make_dictionary(TREE_VOCABULARY)
    sentences = [[5] * TREE_WORDS + [EOS]] * TREE_PAIRS
    trees = [tree_over(0, TREE_WORDS, share) for share in (0, 0.5)] * (TREE_PAIRS // 2)
    numbers = torch.zeros(TREE_VOCABULARY, dtype=torch.float64, device="meta")
    proposal = numbers, AliasTable(numbers, numbers.long())
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(tree2seq, "initialize_uniform", lambda model: None)
        monkeypatch.setattr(workloads, "make_up_task", lambda cfg, _: TreeTranslationTask(cfg, *[dictionary] * 3))
        monkeypatch.setattr(blackout.BlackOut, "distribution", lambda self, device: proposal)
        batch = make_batch(sentences, sentences, trees, left=True)
        return criterion, count_update([*SMALL, "--criterion", criterion], TREE_VOCABULARY, batch, monkeypatch)


def tree_over(begin: int, end: int, share: float) -> Any:
    """A tree of the words from ``begin`` to ``end``, with that share of them, or one, in each left branch."""
    middle = begin + max(1, int(share * (end - begin)))
    return begin if end - begin == 1 else [tree_over(begin, middle, share), tree_over(middle, end, share)]


def count_update(options: list[str], vocabulary: int, batch: Any, monkeypatch: pytest.MonkeyPatch) -> Launches:
    """Count the second update of a trainer with these options."""
    counter, batch = Launches(), on_meta(batch)
    monkeypatch.setattr(rnnsearch, "initialize", lambda model: None)
    trainer = workloads.make_trainer(options, vocabulary)
    trainer.model.to("meta")
    monkeypatch.setattr(trainer, "save_checkpoint", lambda *args: None)
    counter.watch(trainer, monkeypatch)
    with counter:
        trainer.train_step([batch])  # makes the optimizer's state, too
        counter.launches.clear()
        counter.waits.clear()
        trainer.train_step([batch])
    metrics.reset()  # fairseq's averages of this update have no numbers
    return counter


def on_meta(sample: Any) -> Any:
    if isinstance(sample, dict):
        return {name: on_meta(value) for name, value in sample.items()}
    if isinstance(sample, tuple):
        return tuple(map(on_meta, sample))
    return sample.to("meta") if isinstance(sample, torch.Tensor) else sample


@pytest.mark.patched  # fairseq takes --bf16 for a TPU
def test_an_update_launches_few_kernels(update: tuple[bool, Launches]) -> None:
    once, update = update
    assert update.launches["encoder", "triton _apply_gates"] == WORDS
    assert update.launches["optimizer", "triton _adadelta"] == 28  # parameters
    assert update.launches.total() <= MOST_LAUNCHES[once], update.table()


@pytest.mark.patched  # fairseq takes --bf16 for a TPU
def test_the_host_waits_where_fairseq_does(update: tuple[bool, Launches]) -> None:
    _, update = update
    assert update.waits == WAITS, update.table()


def test_an_update_of_trees_launches_few_kernels(tree_update: tuple[str, Launches]) -> None:
    criterion, update = tree_update
    assert update.launches["LSTM", "triton _apply_cell"] == TREE_WORDS + 1
    for region in ("Tree-LSTM", "Tree-LSTM, backward"):
        cells = (number for (of, name), number in update.launches.items() if of == region and "_apply_cell" in name)
        assert sum(cells) == HEIGHTS
        assert sum(number for (of, _), number in update.launches.items() if of == region) <= 2 * HEIGHTS + 6
    assert update.launches.total() <= MOST_TREE_LAUNCHES[criterion], update.table()


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
