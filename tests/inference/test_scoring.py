"""Forced scoring, against computations by hand, the NumPy reference and `fairseq-generate --score-reference`."""

import importlib
import json
import math
import os
import random
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.models import BaseFairseqModel
from fairseq.tasks.translation import TranslationTask

import rnnsearch_fairseq
from rnnsearch_fairseq.errors import InputError, print_without_traceback
from rnnsearch_fairseq.inference import scoring
from rnnsearch_fairseq.inference.scoring import load_models, score_pairs
from rnnsearch_fairseq.text.scores import AlignedPair
from tests.builders import (
    EOS,
    PAIRS,
    SOURCE_WORDS,
    TARGET_WORDS,
    Pair,
    make_dictionary,
    make_model,
    modules_from,
)
from tests.inference.builders import MODELS, write_models
from tests.reference import rnnsearch as reference

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

PLUGIN = str(Path(rnnsearch_fairseq.__file__).parent)
ALIGNS = ("search", "other", "groundhog_search", "transformer", "lstm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of `write_models`."""
    folder = tmp_path_factory.mktemp("score")
    write_models(folder)
    return folder


def load(folder: Path, *names: str) -> tuple[list[BaseFairseqModel], TranslationTask]:
    return load_models([str(folder / f"{name}.pt") for name in names], str(folder), cpu=True)


def score_all(folder: Path, *names: str, **limits: int) -> list[AlignedPair]:
    return list(score_pairs(*load(folder, *names), PAIRS, **limits))


def words_of(folder: Path, *names: str | Path, **changed: str | Path) -> list[str]:
    """A command line that scores PAIRS on the CPU, with some of its words changed."""
    files = {side: changed.get(side, folder / f"test.en-fr.{side}") for side in ("en", "fr")}
    path = changed.get("path", ":".join(str(folder / f"{name}.pt") for name in names))
    data = changed.get("data", folder)
    return [str(word) for word in ("--path", path, "--data", data, files["en"], files["fr"], "--cpu")]


Command = Callable[..., tuple[str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command in this process, which saves its start-up time; returns standard output and standard error."""

    def run(*words: str | Path) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["score", *map(str, words)])
        capsys.readouterr()
        scoring.main()
        return capsys.readouterr()

    return run


def assert_same(ours: AlignedPair, theirs: AlignedPair, atol: float) -> None:
    assert (ours.source, ours.target) == (theirs.source, theirs.target)
    torch.testing.assert_close(ours.word_logprobs, theirs.word_logprobs, rtol=0, atol=atol)
    assert ours.logprob == pytest.approx(theirs.logprob, abs=atol * len(ours.target))
    torch.testing.assert_close(ours.alignment, theirs.alignment, rtol=0, atol=atol)


# The numbers


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_the_teacher_forced_model(folder: Path, name: str) -> None:
    (model,), task = load(folder, name)
    scores = list(score_pairs([model], task, PAIRS))
    assert len(scores) == len(PAIRS)
    model.eval()
    for (source, target), result in zip(PAIRS, scores):
        x, y = (
            torch.tensor([*(int(word[1:]) + 4 if word != "plugh" else 3 for word in line.split()), EOS])
            for line in (source, target)
        )
        previous = torch.cat([torch.tensor([EOS]), y[:-1]])
        with torch.no_grad():
            logits, extra = model(x[None], torch.tensor([len(x)]), previous[None])
        expected = logits[0].double().log_softmax(dim=-1)[range(len(y)), y]
        np.testing.assert_allclose(result.word_logprobs, expected, rtol=0, atol=1e-5)
        assert result.logprob == pytest.approx(expected.sum().item(), abs=1e-4)
        assert result.source == [*(word.replace("plugh", "<unk>") for word in source.split()), "</s>"]
        assert result.target == [*(word.replace("plugh", "<unk>") for word in target.split()), "</s>"]
        if name in ALIGNS:
            assert result.alignment is not None
            weights = extra["attn"][0] if isinstance(extra, dict) else extra  # a tensor from fairseq's LSTM
            np.testing.assert_allclose(result.alignment, weights[0], rtol=0, atol=1e-6)
            np.testing.assert_allclose(result.alignment.sum(dim=1), 1, atol=1e-5)
            assert (result.alignment >= 0).all()
        else:
            assert result.alignment is None


def test_scores_are_those_of_the_papers_equations() -> None:
    sizes = {"n": 6, "m": 5, "l": 4, "n_prime": 7, "pool": 2, "K_x": SOURCE_WORDS + 4, "K_y": TARGET_WORDS + 4}
    params = reference.random_parameters(np.random.default_rng(2), **sizes, encdec=False)
    model = make_model("bahdanau_gru", SOURCE_WORDS, TARGET_WORDS)
    model.encoder.network, model.decoder.network = modules_from(params, pool=2)
    dictionaries = make_dictionary(SOURCE_WORDS), make_dictionary(TARGET_WORDS)
    task = Namespace(source_dictionary=dictionaries[0], target_dictionary=dictionaries[1])
    for pair, result in zip(PAIRS, score_pairs([model], task, PAIRS, batch_size=5)):
        x, y = (dictionary.encode_line(line, add_if_not_exist=False) for dictionary, line in zip(dictionaries, pair))
        assert result.logprob == pytest.approx(reference.sentence_log_prob(params, x, y, EOS), abs=2e-5)
        weights = reference.decode(params, x, [EOS, *y[:-1]])["alignments"]
        np.testing.assert_allclose(result.alignment, weights, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_neither_padding_nor_order_changes_a_score(folder: Path, name: str) -> None:
    models, task = load(folder, name)
    alone = [next(score_pairs(models, task, [pair])) for pair in PAIRS]
    # All in one batch; some in each; by a limit that some pairs exceed.
    for limits in ({}, {"batch_size": 3}, {"max_tokens": 8}):
        for ours, theirs in zip(score_pairs(models, task, PAIRS, **limits), alone, strict=True):
            assert_same(ours, theirs, 1e-5)
    mixed = random.Random(1).sample(range(len(PAIRS)), len(PAIRS))
    for number, ours in zip(mixed, score_pairs(models, task, [PAIRS[number] for number in mixed]), strict=True):
        assert_same(ours, alone[number], 1e-5)


@pytest.mark.parametrize("limits", [{"batch_size": 4}, {"batch_size": 100, "max_tokens": 16}])
def test_batches_hold_pairs_of_similar_length_within_the_limits(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    shapes = []
    collate = scoring.collate

    def watch(samples: list[dict[str, Any]], *args: Any, **kwargs: Any) -> dict[str, Any]:
        sample = collate(samples, *args, **kwargs)
        shapes.append((sample["net_input"]["src_tokens"].shape, sample["target"].shape))
        return sample

    monkeypatch.setattr(scoring, "collate", watch)
    assert len(score_all(folder, "search", **limits)) == len(PAIRS)
    for (rows, source), (_, target) in shapes:
        assert rows <= limits["batch_size"]
        assert rows == 1 or rows * max(source, target) <= limits.get("max_tokens", 1000)
    lengths = [target for _, (_, target) in shapes]
    assert lengths == sorted(lengths)
    assert len(shapes) < len(PAIRS)


def test_an_ensemble_has_the_mean_of_the_probabilities_and_alignments(folder: Path) -> None:
    one, other, both = (score_all(folder, *names) for names in (["search"], ["other"], ["search", "other"]))
    for a, b, ours in zip(one, other, both, strict=True):
        expected = np.log((np.exp(a.word_logprobs) + np.exp(b.word_logprobs)) / 2)
        np.testing.assert_allclose(ours.word_logprobs, expected, rtol=0, atol=1e-5)
        np.testing.assert_allclose(ours.alignment, (a.alignment + b.alignment) / 2, rtol=0, atol=1e-6)
    assert any((a.word_logprobs - b.word_logprobs).abs().max() > 0.1 for a, b in zip(one, other)), "the models differ"


def test_an_ensemble_is_aligned_by_those_of_its_models_that_align(folder: Path) -> None:
    alone = score_all(folder, "search")
    for names in (("search", "encdec"), ("encdec", "search")):
        for ours, theirs in zip(score_all(folder, *names), alone, strict=True):
            torch.testing.assert_close(ours.alignment, theirs.alignment)


def test_an_ensemble_keeps_probabilities_below_the_smallest_float(folder: Path) -> None:
    models, task = load(folder, "search", "search")
    for model in models:
        model.decoder.network.readout.to_vocabulary.weight.data *= 300
    both, alone = (list(score_pairs(some, task, PAIRS)) for some in (models, models[:1]))
    assert min(result.word_logprobs.min() for result in alone) < math.log(1e-45)
    for ours, theirs in zip(both, alone, strict=True):
        assert_same(ours, theirs, 1e-4)


def test_dropout_is_off(folder: Path) -> None:
    (model,), task = load(folder, "search")
    before = list(score_pairs([model], task, PAIRS))
    model.decoder.network.dropout.p = 0.5
    model.train()
    for ours, theirs in zip(score_pairs([model], task, PAIRS), before, strict=True):
        assert_same(ours, theirs, 1e-6)


def test_the_word_pad_is_an_unknown_word(folder: Path) -> None:
    models, task = load(folder, "search")
    ours, theirs = score_pairs(models, task, [("w1 <pad> w2", "w3 <pad> w4"), ("w1 plugh w2", "w3 plugh w4")])
    assert_same(ours, theirs, 1e-5)
    assert ours.target == ["w3", "<unk>", "w4", "</s>"]


# Memory


@pytest.mark.parametrize("limit", ["pairs", "weights"])
def test_pairs_are_read_as_they_are_needed(folder: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    models, task = load(folder, "search")
    if limit == "pairs":
        monkeypatch.setattr(scoring, "READ_AHEAD", 2)
    else:
        monkeypatch.setattr(scoring, "MOST_WEIGHTS", 40)
    taken = 0

    def endless() -> Iterator[Pair]:
        nonlocal taken
        for taken in count(1):
            assert taken < 100
            yield PAIRS[taken % len(PAIRS)]

    scores = score_pairs(models, task, endless(), batch_size=3)
    for number, result in zip(range(1, 20), scores):
        assert result.target[:-1] == PAIRS[number % len(PAIRS)][1].replace("plugh", "<unk>").split()
    assert taken <= 24


# The command


@pytest.mark.parametrize("names", [["search"], ["encdec"], ["transformer"], ["search", "transformer"]], ids="+".join)
def test_every_pair_is_a_line_of_json(folder: Path, command: Command, names: list[str]) -> None:
    scores = score_all(folder, *names)
    records = [json.loads(line) for line in command(*words_of(folder, *names))[0].splitlines()]
    assert len(records) == len(PAIRS)
    for number, (record, expected) in enumerate(zip(records, scores)):
        assert record.keys() == {"id", "source", "target", "logprob", "word_logprobs", "alignment"}
        assert (record["id"], record["source"], record["target"]) == (number, expected.source, expected.target)
        assert record["logprob"] == pytest.approx(expected.logprob, abs=1.1e-6)
        np.testing.assert_allclose(record["word_logprobs"], expected.word_logprobs, rtol=0, atol=1.1e-6)
        if expected.alignment is None:
            assert record["alignment"] is None
        else:
            np.testing.assert_allclose(record["alignment"], expected.alignment, rtol=0, atol=1.1e-6)


def test_the_summary_adds_up(folder: Path, command: Command) -> None:
    _, summary = command(*words_of(folder, "search"))
    nll = -sum(result.logprob for result in score_all(folder, "search"))
    unknown = [sum(line.count("plugh") for line in side) for side in zip(*PAIRS)]
    words = [sum(len(line.split()) for line in side) for side in zip(*PAIRS)]
    assert 0 < unknown[0] != unknown[1] > 0
    target = words[1] + len(PAIRS)
    assert summary.splitlines()[-2:] == [
        f"scored {len(PAIRS)} pairs, {target} target words with end-of-sentence: {nll / len(PAIRS):.4f} nats "
        f"a sentence, {nll / target:.4f} nats a word, perplexity {math.exp(nll / target):.4f}",
        f"unknown words: {unknown[0]} of {words[0]} in the source, {unknown[1]} of {words[1]} in the target",
    ]


def test_windows_line_ends_and_other_spaces_change_nothing(folder: Path, tmp_path: Path, command: Command) -> None:
    for language in ("en", "fr"):
        text = (folder / f"test.en-fr.{language}").read_text()
        (tmp_path / language).write_bytes(text.replace("\n", "\r\n").replace(" ", " \t").removesuffix("\r\n").encode())
    files = {language: tmp_path / language for language in ("en", "fr")}
    assert command(*words_of(folder, "search", **files))[0] == command(*words_of(folder, "search"))[0]


def test_the_languages_can_be_named_and_exchanged(folder: Path, tmp_path: Path, command: Command) -> None:
    for language, name in {"en": "xx", "fr": "yy"}.items():
        (tmp_path / f"dict.{name}.txt").write_bytes((folder / f"dict.{language}.txt").read_bytes())
    named = command(*words_of(folder, "search", data=tmp_path), "-s", "xx", "-t", "yy")
    assert named[0] == command(*words_of(folder, "search"))[0]


@pytest.mark.parametrize(
    ("name", "aligned"),
    [("search", "hard"), ("groundhog_search", "hard"), ("groundhog_search", "soft"), ("groundhog_encdec", None)],
)
def test_fairseq_generate_scores_references_alike(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, aligned: str | None
) -> None:
    words = [folder, "--user-dir", PLUGIN, "--path", folder / f"{name}.pt", "--score-reference", "--cpu"]
    words += ["--dataset-impl", "raw", "-s", "en", "-t", "fr", "--num-workers", "0", "--batch-size", "4"]
    if aligned is not None:
        words += ["--print-alignment", aligned]
    monkeypatch.setattr(sys, "argv", ["fairseq-generate", *map(str, words)])
    importlib.import_module("fairseq_cli.generate").cli_main()
    found = re.findall(r"^([HPA])-(\d+)\t(.*)$", capsys.readouterr().out, re.MULTILINE)
    lines = {(kind, int(number)): rest for kind, number, rest in found}
    for number, result in enumerate(score_all(folder, name)):
        # Base 2; the score is divided by the number of words; four decimals.
        per_word = result.logprob / math.log(2) / len(result.target)
        assert float(lines["H", number].split("\t")[0]) == pytest.approx(per_word, abs=1e-5)
        printed = [float(word) for word in lines["P", number].split()]
        np.testing.assert_allclose(printed, result.word_logprobs / math.log(2), rtol=0, atol=6e-5)
        if aligned == "hard":
            best = result.alignment[:-1, :-1].argmax(dim=1).tolist() if len(result.source) > 1 else []
            assert lines["A", number].split() == [f"{j}-{i}" for i, j in enumerate(best)]
        elif aligned == "soft":
            weights = [[float(weight) for weight in row.split(",")] for row in lines["A", number].split()]
            np.testing.assert_allclose(weights, result.alignment, rtol=0, atol=1e-5)


def test_when_the_reader_has_left_no_summary_is_printed(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as nobody, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", nobody)
        with pytest.raises(BrokenPipeError):
            command(*words_of(folder, "search"))
        os.dup2(os.open(os.devnull, os.O_WRONLY), nobody.fileno())  # closing writes what is left
    assert "scored" not in capsys.readouterr().err


# Output files


def broken_in_the_middle(scores: Iterator[AlignedPair], out: Any) -> None:
    out.write(b"half\n")
    next(iter(scores))
    raise KeyboardInterrupt


@pytest.mark.parametrize("before", [None, b"old"])
def test_an_interrupted_run_leaves_no_half_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command, before: bytes | None
) -> None:
    output = tmp_path / "scores"
    if before is not None:
        output.write_bytes(before)
    with monkeypatch.context() as patched:
        patched.setattr(scoring, "write_scores", broken_in_the_middle)
        with pytest.raises(KeyboardInterrupt):
            command(*words_of(folder, "search"), "--output", output)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == ([] if before is None else [before])
    # And a whole run replaces what was there.
    command(*words_of(folder, "search"), "--output", output)
    assert output.read_text() == command(*words_of(folder, "search"))[0]
    assert list(tmp_path.iterdir()) == [output]


# Refusals


Changes = dict[str, str | Path]


def different_lengths(folder: Path, tmp: Path) -> Changes:
    (tmp / "short").write_text("w1\nw2\n")
    return {"fr": tmp / "short"}


def bad_byte(folder: Path, tmp: Path) -> Changes:
    (tmp / "bad").write_bytes(b"w1\n" + b"w2 \xff\n" + b"w1\n" * (len(PAIRS) - 2))
    return {"en": tmp / "bad"}


def not_a_checkpoint(folder: Path, tmp: Path) -> Changes:
    (tmp / "bad.pt").write_text("hello\n")
    return {"path": tmp / "bad.pt"}


def broken_checkpoint(folder: Path, tmp: Path) -> Changes:
    (tmp / "bad.pt").write_bytes((folder / "search.pt").read_bytes()[:2000])
    return {"path": tmp / "bad.pt"}


def other_dictionary(folder: Path, tmp: Path) -> Changes:
    make_dictionary(SOURCE_WORDS + 1).save(str(tmp / "dict.en.txt"))
    make_dictionary(TARGET_WORDS).save(str(tmp / "dict.fr.txt"))
    return {"data": tmp}


def other_dictionary_of_a_transformer(folder: Path, tmp: Path) -> Changes:
    return {**other_dictionary(folder, tmp), "path": folder / "transformer.pt"}


def half_a_data_folder(folder: Path, tmp: Path) -> Changes:
    make_dictionary(SOURCE_WORDS).save(str(tmp / "dict.en.txt"))
    return {"data": tmp}


def changed_checkpoint(folder: Path, tmp: Path, **task: str | None) -> Changes:
    state = torch.load(folder / "search.pt")
    state["cfg"]["task"] |= task
    torch.save(state, tmp / "changed.pt")
    return {"path": tmp / "changed.pt"}


def no_languages(folder: Path, tmp: Path) -> Changes:
    # What fairseq-train saves where it found them in the names of the data; in the folder there is only text.
    (tmp / "data").mkdir()
    return {**changed_checkpoint(folder, tmp, source_lang=None, target_lang=None), "data": tmp / "data"}


def another_task(folder: Path, tmp: Path) -> Changes:
    return changed_checkpoint(folder, tmp, _name="translation_lev", noise="no_noise")


def language_model(folder: Path, tmp: Path) -> Changes:
    return changed_checkpoint(folder, tmp, _name="language_modeling")


def too_long_a_target(folder: Path, tmp: Path) -> Changes:
    lines = (folder / "test.en-fr.fr").read_text().splitlines(keepends=True)
    (tmp / "long").write_text("".join([*lines[:6], "w1 " * 30 + "\n", *lines[7:]]))
    return {"fr": tmp / "long", "path": folder / "transformer.pt"}


def a_pipe(folder: Path, tmp: Path) -> Changes:
    os.mkfifo(tmp / "pipe")
    return {"en": tmp / "pipe"}


REFUSALS: list[tuple[Callable[[Path, Path], Changes] | Changes, list[str], str]] = [
    (different_lengths, [], rf"parallel files differ .*en-fr\.en has {len(PAIRS)}, .*short has 2"),
    (bad_byte, [], r"bad, line 2: byte 0xff at column 4 is not UTF-8"),
    ({"en": "missing.en"}, [], r"missing\.en: cannot be read \(No such file or directory\)"),
    (a_pipe, [], "pipe: not a regular file, and it is read twice"),
    ({"path": "missing.pt"}, [], r"^missing\.pt: no such checkpoint; give one that fairseq-train wrote to its"),
    (not_a_checkpoint, [], r"bad\.pt: not a checkpoint \(not as torch\.save has written it"),
    (broken_checkpoint, [], r"bad\.pt: not a checkpoint \(File is not a zip file"),
    ({"data": "missing"}, [], "--data missing: no such folder"),
    (half_a_data_folder, [], r"dict\.fr\.txt: no such file"),
    ({}, ["-s", "de"], r"dict\.de\.txt: no such file"),
    (other_dictionary, [], f"trained with {SOURCE_WORDS + 4} source words, .* has {SOURCE_WORDS + 5}"),
    (
        other_dictionary_of_a_transformer,
        [],
        r"transformer\.pt: it was trained with .*/dict\.en\.txt has .*; give the folder",
    ),
    (no_languages, [], "does not name its languages; give --source-lang and --target-lang"),
    (another_task, [], "its task is translation_lev, whose options"),
    (language_model, [], "task is language_modeling, whose input is not plain text; give a checkpoint of --task tr"),
    (too_long_a_target, [], "pair 7 has 31 target words with end-of-sentence, and the model reads at most 30"),
    ({}, ["--batch-size", "0"], "--batch-size is 0"),
    ({}, ["--max-tokens", "-3"], "--max-tokens is -3"),
    ({}, ["--output", "missing/scores"], r"--output .*missing/scores: cannot be written \(No such file or directory\)"),
    ({}, ["--output", "."], "--output .*: not a file that can be written"),
    ({}, ["--output", "/dev/null"], "--output /dev/null: not a file that can be written"),
]


@pytest.mark.parametrize(("change", "words", "message"), REFUSALS, ids=lambda value: getattr(value, "__name__", ""))
def test_refusals(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: Command,
    change: Callable[[Path, Path], Changes] | Changes,
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    changed = change(folder, tmp_path) if callable(change) else change
    with pytest.raises(InputError, match=message) as refusal:
        command(*words_of(folder, "search", **changed), *words)
    printed, _ = capsys.readouterr()
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    print_without_traceback()
    sys.excepthook(refusal.type, refusal.value, refusal.tb)
    assert re.fullmatch(r"error: [^\n]*[^.\n]\n", capsys.readouterr().err)
    # Only in the last sentences of a text may something be found that could not be known before.
    assert printed == "" or change is too_long_a_target


def test_several_checkpoints_are_named_one_by_one(folder: Path, command: Command) -> None:
    with pytest.raises(InputError, match=r"missing\.pt: no such checkpoint"):
        command(*words_of(folder, "search", "missing"))
