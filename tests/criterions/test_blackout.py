"""The BlackOut criterion, built as fairseq builds it, against the equations of the reference."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.criterions import build_criterion
from fairseq.data import Dictionary, LanguagePairDataset, indexed_dataset
from fairseq.logging import metrics
from fairseq.tasks import setup_task
from torch import Tensor

from rnnsearch_fairseq.criterions import blackout
from rnnsearch_fairseq.criterions.blackout import BlackOut
from rnnsearch_fairseq.criterions.target_counts import count_targets, training_data
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.models.tree2seq import Tree2SeqModel
from tests.builders import EOS, PAD, make_dictionary, parse_training
from tests.models.test_tree2seq import SOURCES, TARGETS, TREES, make_batch, make_model
from tests.reference import tree2seq

# Hydra and fairseq warn of each other's age.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

WORDS = 9  # of the target vocabulary, without fairseq's four symbols
TRAINING = [[4, 4, 4, 4, 5, 6, EOS], [5, 5, 6, 7, 8, EOS], [4, 9, 10, EOS], [4, 4, 5, EOS]]  # 11 and 12 never occur
ALPHAS = pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])


def make_criterion(*words: str) -> BlackOut:
    """As ``--criterion blackout`` with these options; no negatives are counted but in TRAINING."""
    cfg = parse_training("--arch", "tree2seq", "--criterion", "blackout", *words)
    dictionary = make_dictionary(WORDS)
    tensors = [torch.tensor(sentence) for sentence in TRAINING]
    pairs = LanguagePairDataset(tensors, [1] * len(tensors), dictionary, tensors, [1] * len(tensors), dictionary)
    cfg_of_task = SimpleNamespace(train_subset="there", data="bin")
    task = SimpleNamespace(target_dictionary=dictionary, cfg=cfg_of_task)
    task.dataset = {"there": pairs}.__getitem__
    criterion = build_criterion(cfg.criterion, task)
    assert isinstance(criterion, BlackOut)
    return criterion


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

    def draw(*args: Any, original: Any = blackout.draw_negatives) -> Tensor:
        negatives = original(*args)
        seen.append(negatives.numpy())
        return negatives

    monkeypatch.setattr(blackout, "draw_negatives", draw)
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


@ALPHAS
def test_negatives_are_drawn_by_the_power_of_their_counts(
    alpha: float, model: Tree2SeqModel, sample: dict[str, Any], drawn: list[np.ndarray]
) -> None:
    options = ["--blackout-samples", "20000", "--blackout-alpha", str(alpha)]
    make_criterion(*options)(model, sample)
    for target, row in zip(target_words(), drawn[0], strict=True):
        expected = proposal(alpha)
        expected[target] = 0
        found = np.bincount(row, minlength=len(expected)) / len(row)
        np.testing.assert_allclose(found, expected / expected.sum(), atol=0.02)


def test_the_settings_of_the_paper_are_the_default() -> None:
    criterion = make_criterion()
    assert (criterion.samples, criterion.alpha, criterion.sentence_avg) == (500, 0.4, False)


@pytest.mark.parametrize(
    "words", [["--blackout-samples", "0"], ["--blackout-alpha", "-1"], ["--blackout-alpha", "inf"]]
)
def test_settings_out_of_range_are_refused(words: list[str]) -> None:
    with pytest.raises(InputError, match=f"{words[0]} is "):
        make_criterion(*words)


@pytest.mark.parametrize("trains", [True, False])
@pytest.mark.parametrize(("words", "divisor"), [([], sum(map(len, TARGETS))), (["--sentence-avg"], len(TARGETS))])
def test_gradients_are_averaged_over_words_or_sentences(
    words: list[str], divisor: int, trains: bool, model: Tree2SeqModel, sample: dict[str, Any]
) -> None:
    loss, sample_size, log = make_criterion("--blackout-samples", "6", *words)(model.train(trains), sample)
    assert sample_size == divisor
    counts = {"ntokens": sum(map(len, TARGETS)), "nsentences": len(TARGETS), "sample_size": divisor}
    assert log == {"loss": loss.detach(), **counts}
    assert loss.requires_grad and not log["loss"].requires_grad


def test_bits_a_word_and_perplexity_are_logged() -> None:
    assert BlackOut.logging_outputs_can_be_summed()
    logs = [{"loss": torch.tensor(30.0), "ntokens": 10}, {"loss": torch.tensor(7.0), "ntokens": 1}]
    with metrics.aggregate(new_root=True) as logged:
        BlackOut.reduce_metrics(logs)
    values = logged.get_smoothed_values()
    assert values["loss"] == pytest.approx(37 / 11 / math.log(2), abs=6e-4)
    assert values["ppl"] == pytest.approx(math.exp(37 / 11), rel=1e-3)


# -- the counts --


def parallel_data(folder: Path, targets: list[list[int]], trees: list[str]) -> None:
    """Binarized data, as fairseq-preprocess writes them, of sources of the targets' lengths."""
    folder.mkdir()
    words, transitions = make_dictionary(WORDS), Dictionary()
    for symbol in ("S", "R", "-"):
        transitions.add_symbol(symbol)
    for language, dictionary in (("en", words), ("ja", words), ("tree", transitions)):
        dictionary.save(str(folder / f"dict.{language}.txt"))
    lines = {"en-ja.en": targets, "en-ja.ja": targets}
    lines["tree-None.tree"] = [transitions.encode_line(tree, add_if_not_exist=False).tolist() for tree in trees]
    for name, of_language in lines.items():
        builder = indexed_dataset.make_builder(str(folder / f"train.{name}.bin"), "mmap", 100)
        for line in of_language:
            builder.add_item(torch.tensor(line))
        builder.finalize(str(folder / f"train.{name}.idx"))


# Of a limit of 3 words, the first is too long; the third has no parse.
SHARDS = [[[5, 6, 7, 8, EOS], [4, 4, EOS], [9, 9, 9, EOS]], [[10, EOS], [4, EOS]]]
SHARD_TREES = [["S S R S R S R", "S S R", "-"], ["S", "S"]]


@pytest.mark.parametrize("shards", [1, 2])
def test_counts_are_of_all_pairs_that_training_reads_in_all_shards(tmp_path: Path, shards: int) -> None:
    paths = [tmp_path / f"bin{number}" for number in range(shards)]
    for path, targets, trees in zip(paths, SHARDS, SHARD_TREES):
        parallel_data(path, targets, trees)
    data = ":".join(map(str, paths))
    words = ["-s", "en", "-t", "ja", "--task", "rnnsearch", "--tree-lang", "tree"]
    words += ["--max-words", "3", "--require-parse"]
    cfg = parse_training("--arch", "tree2seq", "--criterion", "blackout", *words).task
    cfg.data = data
    task = setup_task(cfg)
    task.load_dataset("train")
    before = task.dataset("train")
    counts = sum(count_targets(pairs, len(task.target_dictionary)) for pairs in training_data(task))
    read = [[4, 4, EOS], [10, EOS], [4, EOS]][: 1 if shards == 1 else 3]
    assert counts.tolist() == np.bincount(np.concatenate(read), minlength=4 + WORDS).tolist()
    assert task.dataset("train") is before


def test_counting_leaves_the_random_numbers_of_training_alone() -> None:
    tensors = [torch.tensor(sentence) for sentence in TRAINING]
    sizes, dictionary = [len(sentence) for sentence in TRAINING], make_dictionary(WORDS)
    shuffled = LanguagePairDataset(tensors, sizes, dictionary, tensors, sizes, dictionary, shuffle=True)
    np.random.seed(3)
    state = np.random.get_state()[1].tolist()
    assert count_targets(shuffled, 4 + WORDS).sum() == sum(sizes)
    assert np.random.get_state()[1].tolist() == state


# -- several processes --


def negatives_of(
    rank: int, seed: int, drawn: list[np.ndarray], monkeypatch: pytest.MonkeyPatch, batches: int = 1
) -> list[np.ndarray]:
    """What the process of a rank draws in an update, seeded as fairseq seeds it."""
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: rank)
    drawn.clear()
    criterion, model = make_criterion("--blackout-samples", "50"), make_model().train()
    torch.manual_seed(seed)
    for _ in range(batches):
        criterion(model, make_batch(SOURCES, TARGETS, TREES))
    return list(drawn)


def is_like(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether more numbers are the same than chance makes so: about one in six, of draws from proposal(0.4)."""
    return bool((one == other).mean() > 0.5)


def test_each_process_draws_its_own_negatives(drawn: list[np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    found = [negatives_of(rank, 7, drawn, monkeypatch)[0] for rank in range(4)]
    assert not any(is_like(found[i], found[j]) for i in range(4) for j in range(i))


@pytest.mark.parametrize("rank", [0, 3])
def test_negatives_are_those_of_seed_and_update_and_batch(
    rank: int, drawn: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = negatives_of(rank, 7, drawn, monkeypatch, batches=2)
    again = negatives_of(rank, 7, drawn, monkeypatch, batches=2)
    assert np.array_equal(first, again[0]) and np.array_equal(second, again[1])
    assert not is_like(first, second)
    assert not is_like(first, negatives_of(rank, 8, drawn, monkeypatch)[0])
