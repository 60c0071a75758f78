"""The BlackOut criterion, built as fairseq builds it, against the equations of the reference."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.criterions import build_criterion
from fairseq.data import LanguagePairDataset
from torch import Tensor

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.plugin import criterions
from rnnsearch_fairseq.plugin.criterions import BlackOut, count_targets
from rnnsearch_fairseq.plugin.data import LimitedPairs
from rnnsearch_fairseq.plugin.models import Tree2SeqModel
from tests.builders import EOS, PAD, make_dictionary, parse_training
from tests.plugin.test_tree2seq import SOURCES, TARGETS, TREES, make_batch, make_model
from tests.reference import tree2seq

# Hydra and fairseq warn of each other's age.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

WORDS = 9  # of the target vocabulary, without fairseq's four symbols
TRAINING = [[4, 4, 4, 4, 5, 6, EOS], [5, 5, 6, 7, 8, EOS], [4, 9, 10, EOS], [4, 4, 5, EOS]]  # 11 and 12 never occur
ALPHAS = pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])


def training_pairs() -> LanguagePairDataset:
    """Pairs with the targets of TRAINING; fairseq shuffles them."""
    dictionary, sizes = make_dictionary(WORDS), [len(sentence) for sentence in TRAINING]
    tensors = [torch.tensor(sentence) for sentence in TRAINING]
    return LanguagePairDataset(tensors, sizes, dictionary, tensors, sizes, dictionary)


def make_criterion(*words: str) -> BlackOut:
    """As ``--criterion blackout`` with these options; no negatives are counted but in TRAINING."""
    cfg = parse_training("--arch", "tree2seq", "--criterion", "blackout", *words)
    task = SimpleNamespace(target_dictionary=make_dictionary(WORDS), cfg=SimpleNamespace(train_subset="there"))
    task.dataset = {"there": training_pairs()}.__getitem__
    return build_criterion(cfg.criterion, task)


def proposal(alpha: float) -> np.ndarray:
    """Q, by the formula of Section 3.4."""
    counts = np.bincount(np.concatenate(TRAINING), minlength=4 + WORDS).astype(float)
    powers = np.where(counts > 0, counts**alpha, 0.0)
    return powers / powers.sum()


@pytest.fixture
def model() -> Tree2SeqModel:
    return make_model().train()


@pytest.fixture
def sample() -> dict[str, Any]:
    """Five sentences of unequal lengths, in words that occur in TRAINING."""
    return make_batch(SOURCES, TARGETS, TREES)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """The negatives of each batch, ``(words, K)``."""
    seen: list[np.ndarray] = []

    def draw(*args: Any, original: Any = criterions.draw_negatives) -> Tensor:
        negatives = original(*args)
        seen.append(negatives.numpy())
        return negatives

    monkeypatch.setattr(criterions, "draw_negatives", draw)
    return seen


def target_words() -> list[int]:
    return [word for target in TARGETS for word in target]


def scores_of(model: Tree2SeqModel, sample: dict[str, Any]) -> np.ndarray:
    """W_s s~ + b_s of every target word, ``(words, K_y)``."""
    with torch.no_grad():
        return model(**sample["net_input"])[0][sample["target"].ne(PAD)].numpy()


def reference_cost(scores: np.ndarray, negatives: np.ndarray, alpha: float) -> float:
    """The sum over the words of the reference's cost."""
    with np.errstate(divide="ignore"):
        weights = 1 / proposal(alpha)
    total = 0.0
    for z, target, row in zip(scores, target_words(), negatives):
        total += tree2seq.blackout_token_loss(z, [target, *map(int, row)], weights)
    return total


@ALPHAS
def test_the_training_loss_is_the_references(
    alpha: float, model: Tree2SeqModel, sample: dict[str, Any], drawn: list[np.ndarray]
) -> None:
    options = ["--blackout-samples", "6", "--blackout-alpha", str(alpha)]
    loss, _, _ = make_criterion(*options)(model, sample)
    (negatives,) = drawn
    assert negatives.shape == (len(target_words()), 6)
    assert loss.item() == pytest.approx(reference_cost(scores_of(model, sample), negatives, alpha), abs=1e-10)


def test_words_that_never_occur_have_a_finite_cost(model: Tree2SeqModel) -> None:
    """As in a batch of the development set, by which fairseq fills up an update; it multiplies the cost by zero."""
    loss, _, _ = make_criterion("--blackout-samples", "6")(model, make_batch(SOURCES, [[12, 11, EOS]] * 5, TREES))
    loss *= 0
    loss.backward()
    assert all(parameter.grad.eq(0).all() for parameter in model.parameters())


def test_validation_is_by_the_full_softmax(
    model: Tree2SeqModel, sample: dict[str, Any], drawn: list[np.ndarray]
) -> None:
    loss, _, log = make_criterion("--blackout-samples", "6")(model.eval(), sample)
    expected = -sum(tree2seq.log_softmax(z)[word] for z, word in zip(scores_of(model, sample), target_words()))
    assert loss.item() == log["loss"].item() == pytest.approx(expected, abs=1e-10)
    assert drawn == []


def test_the_settings_of_the_paper_are_the_default_and_negatives_must_be_drawn() -> None:
    criterion = make_criterion()
    assert (criterion.samples, criterion.alpha, criterion.sentence_avg) == (500, 0.4, False)
    with pytest.raises(InputError, match="--blackout-samples"):
        make_criterion("--blackout-samples", "0")


@pytest.mark.parametrize("trains", [True, False])
@pytest.mark.parametrize(("words", "divisor"), [([], sum(map(len, TARGETS))), (["--sentence-avg"], len(TARGETS))])
def test_gradients_are_averaged_over_words_or_sentences(
    words: list[str], divisor: int, trains: bool, model: Tree2SeqModel, sample: dict[str, Any]
) -> None:
    loss, sample_size, log = make_criterion("--blackout-samples", "6", *words)(model.train(trains), sample)
    assert sample_size == divisor
    counts = {"ntokens": sum(map(len, TARGETS)), "nsentences": len(TARGETS), "sample_size": divisor}
    assert log.items() >= {"loss": loss.detach(), **counts}.items()
    assert loss.requires_grad and not log["loss"].requires_grad


def test_counting_leaves_out_what_training_does_and_leaves_its_random_numbers_alone() -> None:
    chosen, state = np.array([True, False, True, True]), np.random.get_state()[1].tolist()
    counts = count_targets(LimitedPairs(training_pairs(), chosen, seed=1), 4 + WORDS)
    read = [TRAINING[number] for number in np.flatnonzero(chosen)]
    assert counts.tolist() == np.bincount(np.concatenate(read), minlength=4 + WORDS).tolist()
    assert count_targets(training_pairs(), 4 + WORDS).sum() == sum(map(len, TRAINING))
    assert np.random.get_state()[1].tolist() == state
