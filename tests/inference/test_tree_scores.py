"""Forced scoring by models that read trees: their attention to words and phrases."""

import json
import random
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.models import BaseFairseqModel

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference import scoring
from rnnsearch_fairseq.inference.scoring import load_models, read_trees, score_pairs
from rnnsearch_fairseq.tasks.tree_translation import TreeTranslationTask
from rnnsearch_fairseq.text.forest import build_forest
from rnnsearch_fairseq.text.scores import AlignedPair
from rnnsearch_fairseq.text.trees import Tree, format_transitions, parse_transitions
from tests.builders import (
    EOS,
    PAIRS,
    SOURCE_WORDS,
    TARGET_WORDS,
    make_dictionary,
    parse_training,
    randomize,
    save_checkpoint,
)
from tests.models.builders import transitions_of
from tests.reference.recorded import TREE2SEQ, needs_tree2seq
from tests.reference.tree2seq_original import load_original

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

EXACT = {"rtol": 0, "atol": 1e-10}
SIZES = ["--embedding-size", "6", "--hidden-size", "6"]
# Architecture, its options, its task, and the scale of the random parameters.
MODELS: dict[str, tuple[str, list[str], str, float]] = {
    "tree": ("tree2seq_small", SIZES, "tree_translation", 0.5),
    "phrases": ("tree2seq_small", [*SIZES, "--constituents", "phrases-only"], "tree_translation", 0.9),
    "words": ("anmt_small", SIZES, "tree_translation", 0.7),
    "plain": ("anmt_small", SIZES, "translation", 0.7),
}


def random_splits(generator: random.Random, start: int, end: int) -> list[int]:
    if end - start < 2:
        return []
    split = generator.randint(start + 1, end - 1)
    return [split, *random_splits(generator, start, split), *random_splits(generator, split, end)]


def make_trees() -> list[Tree | None]:
    """Trees of PAIRS' sources, some of which leave out the last words; about one in five has none."""
    generator = random.Random(7)
    trees: list[Tree | None] = []
    for source, _ in PAIRS:
        leaves = len(source.split()) - generator.randrange(3)
        parsed = leaves > 0 and generator.random() > 0.2
        trees.append(Tree(tuple(random_splits(generator, 0, leaves))) if parsed else None)
    return trees


TREES = make_trees()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dictionaries, a checkpoint of each of MODELS, and PAIRS and TREES as text."""
    folder = tmp_path_factory.mktemp("tree_scores")
    dictionaries = make_dictionary(SOURCE_WORDS), make_dictionary(TARGET_WORDS), make_dictionary(0)
    for dictionary, language in zip(dictionaries, ("en", "fr", "tree")):
        dictionary.save(str(folder / f"dict.{language}.txt"))
    for name, (arch, options, task, std) in MODELS.items():
        config = parse_training("--arch", arch, *options, "--task", task, "-s", "en", "-t", "fr", "--optimizer", "sgd")
        model = TreeTranslationTask(config.task, *dictionaries).build_model(config.model)
        randomize(model, std)
        save_checkpoint(folder / f"{name}.pt", config, model)
    for side, language in enumerate(("en", "fr")):
        (folder / language).write_text("".join(pair[side] + "\n" for pair in PAIRS), encoding="utf-8")
    (folder / "trees").write_text("".join(format_transitions(tree) + "\n" for tree in TREES), encoding="utf-8")
    return folder


def load(folder: Path, *names: str) -> tuple[list[BaseFairseqModel], Any]:
    return load_models([str(folder / f"{name}.pt") for name in names], str(folder), cpu=True)


def score_all(folder: Path, *names: str, trees: list[Tree | None] | None = TREES, **limits: int) -> list[AlignedPair]:
    return list(score_pairs(*load(folder, *names), PAIRS, trees=trees, **limits))


def both(result: AlignedPair) -> torch.Tensor:
    """Attention to words and phrases."""
    assert result.alignment is not None
    assert result.phrase_attention is not None
    return torch.cat([result.alignment, result.phrase_attention], dim=1)


Command = Callable[..., str]


@pytest.fixture
def command(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Score PAIRS, in this process; returns standard output."""

    def run(*names: str, words: list[str | Path] | None = None, **changed: Path) -> str:
        files = [changed.get(side, folder / side) for side in ("en", "fr")]
        path = ":".join(str(folder / f"{name}.pt") for name in names)
        line = ["score", "--path", path, "--data", folder, *files, "--cpu", *(words or [])]
        monkeypatch.setattr(sys, "argv", [str(word) for word in line])
        capsys.readouterr()
        scoring.main()
        return capsys.readouterr().out

    return run


# The numbers


@pytest.mark.parametrize("name", ["tree", "phrases"])
def test_scores_and_attention_are_those_of_the_teacher_forced_model(folder: Path, name: str) -> None:
    (model,), _ = load(folder, name)
    model.eval()
    for (source, target), tree, result in zip(PAIRS, TREES, score_all(folder, name), strict=True):
        x, y = (
            torch.tensor([*(int(word[1:]) + 4 if word != "plugh" else 3 for word in line.split()), EOS])
            for line in (source, target)
        )
        previous = torch.cat([torch.tensor([EOS]), y[:-1]])
        with torch.no_grad():
            trees = tuple(build_forest([tree], [0], len(x)))
            logits, extra = model(x[None], torch.tensor([len(x)]), previous[None], trees=trees)
        expected = logits[0].double().log_softmax(dim=-1)[range(len(y)), y]
        np.testing.assert_allclose(result.word_logprobs, expected, rtol=0, atol=1e-5)
        assert result.phrases == ([] if tree is None else tree.spans())
        assert result.alignment.shape == (len(y), len(x))
        np.testing.assert_allclose(both(result), extra["constituents"][0][0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("names", [["tree"], ["tree", "phrases"], ["words", "tree"]], ids="+".join)
def test_words_and_phrases_share_one_unit(folder: Path, names: list[str]) -> None:
    scores = score_all(folder, *names, batch_size=5)
    for result in scores:
        np.testing.assert_allclose(both(result).sum(dim=1), 1, atol=1e-6)
    assert max(result.phrase_attention.sum(dim=1).max() for result in scores) > 0.1
    assert any(result.phrases == [] for result in scores)


def test_neither_padding_nor_order_changes_a_score(folder: Path) -> None:
    models, task = load(folder, "tree")
    alone = [next(score_pairs(models, task, [pair], trees=[tree])) for pair, tree in zip(PAIRS, TREES)]
    mixed = random.Random(1).sample(range(len(PAIRS)), len(PAIRS))
    for order in (range(len(PAIRS)), mixed):
        for limits in ({}, {"batch_size": 3}, {"max_tokens": 8}):
            pairs, trees = [PAIRS[number] for number in order], [TREES[number] for number in order]
            for number, ours in zip(order, score_pairs(models, task, pairs, trees=trees, **limits), strict=True):
                assert ours.phrases == alone[number].phrases
                assert ours.logprob == pytest.approx(alone[number].logprob, abs=1e-4)
                torch.testing.assert_close(both(ours), both(alone[number]), rtol=0, atol=1e-5)


def test_an_ensemble_has_the_mean_of_the_probabilities_and_of_the_attention(folder: Path) -> None:
    one, other, ours = (score_all(folder, *names) for names in (["tree"], ["phrases"], ["tree", "phrases"]))
    for a, b, result in zip(one, other, ours, strict=True):
        expected = np.log((np.exp(a.word_logprobs) + np.exp(b.word_logprobs)) / 2)
        np.testing.assert_allclose(result.word_logprobs, expected, rtol=0, atol=1e-5)
        np.testing.assert_allclose(both(result), (both(a) + both(b)) / 2, rtol=0, atol=1e-6)


def test_in_an_ensemble_a_model_of_words_gives_phrases_no_weight(folder: Path) -> None:
    trees, words, ours = (
        score_all(folder, "tree"),
        score_all(folder, "plain", trees=None),
        score_all(folder, "tree", "plain"),
    )
    for a, b, result in zip(trees, words, ours, strict=True):
        np.testing.assert_allclose(result.alignment, (a.alignment + b.alignment) / 2, rtol=0, atol=1e-6)
        np.testing.assert_allclose(result.phrase_attention, a.phrase_attention / 2, rtol=0, atol=1e-6)


def test_a_model_of_words_has_no_phrases_whatever_its_task(folder: Path) -> None:
    for ours, theirs in zip(*(score_all(folder, name, trees=None) for name in ("words", "plain")), strict=True):
        assert ours.phrases is ours.phrase_attention is None
        torch.testing.assert_close(ours.alignment, theirs.alignment)


@needs_tree2seq
@pytest.mark.parametrize("section", ["dev", "train40", "dev_failed_parse"])
def test_recorded_scores_and_attention(section: str) -> None:
    model = load_original(TREE2SEQ / "softmax.npz", TREE2SEQ / "softmax.json")
    described = json.loads((TREE2SEQ / "softmax.json").read_text(encoding="utf-8"))
    task = Namespace(source_dictionary=model.encoder.dictionary, target_dictionary=model.decoder.dictionary)
    records = described[section]
    pairs = [
        tuple(" ".join(described[f"{side}_vocab"][word] for word in record[side][:-1]) for side in ("src", "tgt"))
        for record in records
    ]
    trees = [parse_transitions(transitions_of(record["tree"])) for record in records]
    with_attention = 0
    for record, result in zip(records, score_pairs([model], task, pairs, batch_size=4, trees=trees), strict=True):
        np.testing.assert_allclose(result.word_logprobs, record["logprobs"], **EXACT)
        assert result.logprob == pytest.approx(record["total"], abs=1e-10)
        if "attention" in record:
            with_attention += 1
            assert result.phrases == [tuple(span) for span in record["phrase_spans"]]
            np.testing.assert_allclose(both(result), record["attention"], **EXACT)
    assert with_attention == {"dev": 3, "train40": 0, "dev_failed_parse": 1}[section]


# The command


@pytest.mark.parametrize("names", [["tree"], ["tree", "plain"]], ids="+".join)
def test_every_pair_is_a_line_of_json_with_its_phrases(folder: Path, command: Command, names: list[str]) -> None:
    records = [json.loads(line) for line in command(*names, words=["--trees", folder / "trees"]).splitlines()]
    assert len(records) == len(PAIRS)
    for record, expected in zip(records, score_all(folder, *names)):
        assert record["logprob"] == pytest.approx(expected.logprob, abs=1.1e-6)
        assert record["phrases"] == [list(span) for span in expected.phrases]
        for field in ("alignment", "phrase_attention"):
            np.testing.assert_allclose(record[field], getattr(expected, field), rtol=0, atol=1.1e-6)


def test_a_model_of_words_writes_no_phrases(command: Command) -> None:
    record = json.loads(command("plain").splitlines()[3])
    assert record.keys() == {"id", "source", "target", "logprob", "word_logprobs", "alignment"}


# Refusals


def changed_trees(folder: Path, tmp: Path, number: int, line: str) -> Path:
    lines = (folder / "trees").read_text(encoding="utf-8").splitlines()
    lines[number - 1] = line
    (tmp / "trees").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp / "trees"


def test_trees_that_are_not_those_of_the_source_are_refused(folder: Path, tmp_path: Path, command: Command) -> None:
    words = len(PAIRS[4][0].split())
    assert words > 0
    cases = [
        (
            " ".join(["S"] * (words + 1) + ["R"] * words),
            rf"trees, line 5: the tree has {words + 1} leaves and .* {words} ",
        ),
        ("S R", r"trees, line 5: transition 2 is R, but .*; write the trees by rnnsearch trees"),
        ("", r"trees, line 5: the transitions end with 0 phrases"),
    ]
    for line, message in cases:
        output, trees_file = tmp_path / "out", changed_trees(folder, tmp_path, 5, line)
        with pytest.raises(InputError, match=message):
            command("tree", words=["--trees", trees_file, "--output", output])
        assert not output.exists()
    with pytest.raises(InputError, match="trees, line 5"):
        command("missing", words=["--trees", trees_file])  # before anything long begins
    trees = tmp_path / "short"
    trees.write_text("-\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"parallel files differ .*/en has {len(PAIRS)}, .*short has 1"):
        command("tree", words=["--trees", trees])


def test_trees_are_given_to_models_that_read_them_and_to_no_others(folder: Path, command: Command) -> None:
    with pytest.raises(InputError, match="the model reads trees; give --trees FILE"):
        command("tree")
    for name in ("words", "plain"):
        with pytest.raises(InputError, match="--trees: the model reads no trees; leave the option out"):
            command(name, words=["--trees", folder / "trees"])


def test_a_model_of_trees_after_one_without_is_refused_with_the_cure(folder: Path, command: Command) -> None:
    with pytest.raises(InputError, match=r"tree\.pt: reads trees, .*; name this one first"):
        command("plain", "tree", words=["--trees", folder / "trees"])


def test_a_missing_dictionary_of_trees_is_named(folder: Path, tmp_path: Path) -> None:
    for language in ("en", "fr"):
        (tmp_path / f"dict.{language}.txt").symlink_to(folder / f"dict.{language}.txt")
    with pytest.raises(InputError, match=r"dict\.tree\.txt: no such file"):
        load_models([str(folder / "tree.pt")], str(tmp_path), cpu=True)


def test_a_tree_too_large_for_its_pair_is_refused(folder: Path) -> None:
    tree = Tree((1,))
    with pytest.raises(InputError, match="pair 2: the tree has 2 leaves and the source 1 words"):
        list(score_pairs(*load(folder, "tree"), [("w1 w2", "w1"), ("w1", "w1")], trees=[tree, tree]))


def test_trees_are_read_back(folder: Path) -> None:
    assert list(read_trees(folder / "trees", folder / "en")) == TREES
    assert any(tree is None for tree in TREES)
    assert any(tree is not None and tree.leaves < len(pair[0].split()) for tree, pair in zip(TREES, PAIRS))
