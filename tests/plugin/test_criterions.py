"""The criterions, built as fairseq builds them: against fairseq's own, and against the equations of the reference."""

import math
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.criterions import FairseqCriterion, build_criterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import LanguagePairDataset
from fairseq.distributed import ModuleProxyWrapper
from fairseq.logging import metrics
from omegaconf import OmegaConf
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.plugin import criterions
from rnnsearch_fairseq.plugin.criterions import DIVIDE_BY_NOTHING, SummedNLL, count_targets
from rnnsearch_fairseq.plugin.data import LimitedPairs
from tests.builders import EOS, PAD, make_dictionary, make_model, make_sample, parse_training
from tests.modules.fused.test_recording import Operations
from tests.plugin import builders as trees
from tests.reference import tree2seq

# Hydra and fairseq warn of each other's age.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

WORDS = 9  # of the tree models' target vocabulary, without fairseq's four symbols
TRAINING = [[4, 4, 4, 4, 5, 6, EOS], [5, 5, 6, 7, 8, EOS], [4, 9, 10, EOS], [4, 4, 5, EOS]]  # 11 and 12 never occur
TARGETS = [word for target in trees.TARGETS for word in target]
KINDS = {
    "rnnsearch": (
        make_model(dropout=0.3),
        make_sample([[7, 5, 9, 2], [4, 2], [11, 12, 2]], [[5, 2], [9, 8, 7, 6, 2], [20, 2]]),
    ),
    "tree2seq": (trees.make_model(), trees.make_batch(trees.SOURCES, trees.TARGETS, trees.TREES)),
}


def training_pairs() -> LanguagePairDataset:
    """Pairs with the targets of TRAINING; fairseq shuffles them."""
    dictionary, sizes = make_dictionary(WORDS), [len(sentence) for sentence in TRAINING]
    tensors = [torch.tensor(sentence) for sentence in TRAINING]
    return LanguagePairDataset(tensors, sizes, dictionary, tensors, sizes, dictionary)


def build(name: str, **options: Any) -> FairseqCriterion:
    """As ``--criterion`` with these options."""
    cfg = OmegaConf.merge(parse_training("--arch", "tree2seq", "--criterion", name).criterion, options)
    task = Namespace(target_dictionary=make_dictionary(WORDS), cfg=Namespace(train_subset="there"))
    task.dataset = {"there": training_pairs()}.__getitem__
    return build_criterion(cfg, task)


def run(criterion: FairseqCriterion, model: nn.Module, sample: dict[str, Any]) -> tuple[Any, ...]:
    """The loss, its divisor, the log, and the gradients by the parameters' names."""
    torch.manual_seed(1)  # of dropout and of negative words
    model.zero_grad()
    loss, divisor, log = criterion(model, sample)
    if loss.requires_grad:
        loss.backward()
    assert not any(isinstance(value, Tensor) and value.requires_grad for value in log.values())
    gradients = {name.rpartition("module.")[2]: parameter.grad for name, parameter in model.named_parameters()}
    return loss.detach(), divisor, log, {name: grad for name, grad in gradients.items() if grad is not None}


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("options", [{}, {"label_smoothing": 0.1}, {"label_smoothing": 0.1, "sentence_avg": True}])
@pytest.mark.parametrize("kind", KINDS)
def test_smoothed_nll_is_fairseqs_criterion(kind: str, options: dict[str, Any], trains: bool) -> None:
    (model, sample), ours = KINDS[kind], build("smoothed_nll", **options)
    theirs = LabelSmoothedCrossEntropyCriterion(ours.task, ours.sentence_avg, ours.eps)
    model.train(trains)
    with torch.set_grad_enabled(trains):
        (loss, divisor, log, gradients), expected = (run(criterion, model, sample) for criterion in (ours, theirs))
    assert divisor == expected[1] and bool(gradients) == trains
    torch.testing.assert_close((loss, log), (expected[0], expected[2]), rtol=1e-6, atol=0, check_dtype=False)
    torch.testing.assert_close(gradients, expected[3], rtol=0, atol=1e-5)  # in float32


def test_what_only_fairseq_computes_is_left_to_fairseq(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(criterions, "smoothed_loss", None)
    model, sample = KINDS["rnnsearch"]
    assert "n_correct" in build("smoothed_nll", report_accuracy=True)(model, sample)[2]
    monkeypatch.setattr(criterions, "scores_features", lambda model: False)
    assert build("smoothed_nll")(model, sample)[0].requires_grad


@pytest.mark.parametrize("by_sentence", [True, False])
@pytest.mark.parametrize(("name", "divisor"), [("summed_nll", DIVIDE_BY_NOTHING), ("blackout", len(TARGETS))])
def test_gradients_are_averaged_over_nothing_words_or_sentences(name: str, by_sentence: bool, divisor: int) -> None:
    model, sample = KINDS["tree2seq"]
    divisor = len(trees.TARGETS) if by_sentence else divisor
    loss, size, log, _ = run(build(name, sentence_avg=by_sentence), model.train(), sample)
    counts = {"ntokens": len(TARGETS), "nsentences": len(trees.TARGETS), "sample_size": divisor}
    assert size == divisor and log.items() >= {"loss": loss, **counts}.items()


def waits(operations: Operations) -> list[str]:
    """The operations for which a host waits until a GPU has finished."""
    found = []
    for function, args, *_ in operations.records:
        indices = args[1] if function is torch.ops.aten.index.Tensor else []
        if function in WAITING or any(index is not None and index.dtype == torch.bool for index in indices):
            found.append(str(function))
    return found


WAITING = {torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default}
WAITING |= {torch.ops.aten.masked_select.default, torch.ops.aten.equal.default, torch.ops.aten.unique_dim.default}


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_does_not_wait_for_a_gpu(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the softmax: BlackOut draws again the negatives that are the target, and asks how many these are."""
    (model, sample), criterion = KINDS[kind], build("summed_nll")
    with Operations() as on_cpu:
        run(criterion, model.train(), sample)
    assert waits(on_cpu)
    monkeypatch.setattr(Tensor, "is_cuda", True)
    with Operations() as on_gpu:
        run(criterion, model.train(), sample)
    assert waits(on_gpu) == []


def test_logged_means_are_over_all_words_and_sentences() -> None:
    records = [(30.0, 10, 2), (7.0, 1, 1), (100.0, 20, 7)]
    logs = [{"loss": torch.tensor(loss), "ntokens": words, "nsentences": count} for loss, words, count in records]
    with metrics.aggregate(new_root=True) as logged:
        SummedNLL.reduce_metrics(logs[:2])
        SummedNLL.reduce_metrics(logs[2:])
    values = logged.get_smoothed_values()
    assert values["nll_sentence_nats"] == pytest.approx(137 / 10, abs=6e-4)
    assert values["nll_word_nats"] == pytest.approx(137 / 31, abs=6e-5)
    assert values["loss"] == pytest.approx(137 / 31 / math.log(2), abs=6e-4)  # bits
    assert values["ppl"] == pytest.approx(math.exp(137 / 31), rel=1e-3)


# -- BlackOut --


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """The negatives of each batch, ``(words, K)``."""
    seen: list[np.ndarray] = []

    def draw(*args: Any, original: Any = criterions.draw_negatives) -> Tensor:
        seen.append((negatives := original(*args)).numpy())
        return negatives

    monkeypatch.setattr(criterions, "draw_negatives", draw)
    return seen


@torch.no_grad()
def scores() -> np.ndarray:
    """W_s s~ + b_s of every target word, ``(words, K_y)``."""
    model, sample = KINDS["tree2seq"]
    return model(**sample["net_input"])[0][sample["target"].ne(PAD)].numpy()


@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])
def test_blackout_is_the_references_with_words_drawn_by_their_counts(alpha: float, drawn: list[np.ndarray]) -> None:
    model, sample = KINDS["tree2seq"]
    loss = run(build("blackout", blackout_samples=6, blackout_alpha=alpha), model.train(), sample)[0]
    counts = np.bincount(np.concatenate(TRAINING), minlength=4 + WORDS).astype(float)
    powers = np.where(counts > 0, counts**alpha, 0.0)
    with np.errstate(divide="ignore"):
        weights = powers.sum() / powers
    (negatives,) = drawn
    assert negatives.shape == (len(TARGETS), 6)
    words = [[target, *map(int, row)] for target, row in zip(TARGETS, negatives)]
    expected = sum(tree2seq.blackout_token_loss(z, row, weights) for z, row in zip(scores(), words))
    assert loss.item() == pytest.approx(expected, abs=1e-10)


def test_words_that_never_occur_have_a_finite_cost() -> None:
    """As in a batch of the development set, by which fairseq fills up an update; it multiplies the cost by zero."""
    model = KINDS["tree2seq"][0].train()
    model.zero_grad()
    loss, _, _ = build("blackout")(model, trees.make_batch(trees.SOURCES, [[12, 11, EOS]] * 5, trees.TREES))
    (0 * loss).backward()
    assert all(parameter.grad.eq(0).all() for parameter in model.parameters())


def test_blackout_validates_by_the_full_softmax(drawn: list[np.ndarray]) -> None:
    model, sample = KINDS["tree2seq"]
    loss = run(build("blackout"), model.eval(), sample)[0]
    expected = -sum(tree2seq.log_softmax(z)[word] for z, word in zip(scores(), TARGETS))
    assert loss.item() == pytest.approx(expected, abs=1e-10) and drawn == []


def test_the_settings_of_the_paper_are_the_default_and_negatives_must_be_drawn() -> None:
    criterion = build("blackout")
    assert (criterion.samples, criterion.alpha, criterion.sentence_avg) == (500, 0.4, False)
    with pytest.raises(InputError, match="needs a model of this package"):
        criterion(torch.nn.Linear(1, 1), {})


def test_counting_leaves_out_what_training_does_and_leaves_its_random_numbers_alone() -> None:
    chosen, state = np.array([True, False, True, True]), np.random.get_state()[1].tolist()
    counts = count_targets(LimitedPairs(training_pairs(), chosen, seed=1), 4 + WORDS)
    read = [TRAINING[number] for number in np.flatnonzero(chosen)]
    assert counts.tolist() == np.bincount(np.concatenate(read), minlength=4 + WORDS).tolist()
    assert np.random.get_state()[1].tolist() == state


# -- several processes --


@pytest.fixture
def _one_process() -> Iterator[None]:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("_one_process")
@pytest.mark.parametrize("find_unused", [False, True])
@pytest.mark.parametrize(("name", "kind"), [("smoothed_nll", "rnnsearch"), ("blackout", "tree2seq")])
def test_gradients_are_the_same_in_distributed_data_parallel(name: str, kind: str, find_unused: bool) -> None:
    model, sample = KINDS[kind]
    criterion = build(name)
    expected = run(criterion, model.train(), sample)[3]
    model.zero_grad()
    parallel = ModuleProxyWrapper(DistributedDataParallel(model, find_unused_parameters=find_unused))
    assert criterions.scores_features(parallel)
    for _ in range(2):  # what is wrong with the first update shows in the second
        gradients = run(criterion, parallel, sample)[3]
    torch.testing.assert_close(gradients, expected, rtol=0, atol=1e-5)
