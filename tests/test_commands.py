"""fairseq's own command lines with the plugin, end to end, on a few hundred sentence pairs."""

import collections
import importlib
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import split
from typing import Any

import fairseq.distributed.utils
import fairseq.options
import numpy as np
import pytest
import torch
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

import rnnsearch_fairseq
from recipes.grammar import generate as generate_pairs
from rnnsearch_fairseq.errors import InputError
from tests.commands import (
    PAPER,
    PLUGIN,
    SEARCH,
    TINY,
    Output,
    generate,
    preprocess,
    run,
    train,
    training_words,
)

# Hydra and fairseq warn of each other's age.
pytestmark = [pytest.mark.slow, pytest.mark.train, pytest.mark.filterwarnings("ignore::UserWarning")]

DROPOUT = split("--dropout 0.1 --readout-dropout 0.1")

TRAIN, VALID, NAMED = 200, 13, 10
TEST_SIZES = (5, 13)
# fairseq names the second of several --testpref "test1".
SUBSETS = {5: "test", 13: "test1", TRAIN: "test2"}
MAX_WORDS = 10
EPOCHS = 80
# What a training log says of the training itself, not of the time it took.
EXACT = ("loss", "ppl", "nll_sentence_nats", "nll_word_nats", "num_updates", "gnorm", "clip", "wpb", "bsz", "lr")

Pair = tuple[list[str], list[str]]


# The corpus


def count_words(pairs: Sequence[Pair]) -> list[collections.Counter[str]]:
    return [collections.Counter(word for pair in pairs for word in pair[side]) for side in (0, 1)]


def make_corpus() -> tuple[list[Pair], list[Pair]]:
    """Training pairs, of which the first NAMED have a name that occurs once; and others, with the same words.

    Every word but the names occurs at least twice in training: a threshold of 2 makes just the names unknown.
    """
    pool = [(pair.source, pair.target) for pair in generate_pairs(12000, seed=1, longest=MAX_WORDS)]
    counts = count_words(pool)
    common = [{word for word, _ in count.most_common(150)} for count in counts]

    def is_name(word: str) -> bool:
        return word[0].isupper() and counts[0][word] == counts[1][word] == 1

    known = [p for p in pool if all(is_name(word) or word in common[side] for side in (0, 1) for word in p[side])]
    named = [pair for pair in known if any(map(is_name, pair[0]))][:NAMED]
    plain = [pair for pair in known if not any(map(is_name, pair[0]))]
    while True:
        train = named + plain[: TRAIN - NAMED]
        seen = count_words(train)
        kept = [pair for pair in plain if all(seen[side][word] > 1 for side in (0, 1) for word in pair[side])]
        if kept[: TRAIN - NAMED] == plain[: TRAIN - NAMED]:
            return train, kept[TRAIN - NAMED :]
        plain = kept


def write_pairs(folder: Path, part: str, pairs: Sequence[Pair]) -> None:
    for side, language in enumerate(("en", "fr")):
        text = "".join(" ".join(pair[side]) + "\n" for pair in pairs)
        (folder / f"{part}.{language}").write_text(text, encoding="utf-8")


# The commands


def logged(output: str, key: str) -> list[dict[str, Any]]:
    """The JSON records of a log which have ``key``."""
    found = [json.loads(record) for record in re.findall(r"^.*?(\{\".*\})$", output, re.MULTILINE)]
    return [record for record in found if key in record]


def epoch_results(output: str) -> dict[int, dict[str, str]]:
    """All of EXACT, in training and validation, by epoch."""
    results: dict[int, dict[str, str]] = {}
    for record in logged(output, "train_loss") + logged(output, "valid_loss"):
        names = [f"{part}_{name}" for part in ("train", "valid") for name in EXACT]
        results.setdefault(record["epoch"], {}).update({name: record[name] for name in names if name in record})
    return results


def load(checkpoint: Path) -> dict[str, Any]:
    return torch.load(checkpoint, map_location="cpu", weights_only=True)


# What is made once


@pytest.fixture(scope="module")
def pairs() -> dict[str, list[Pair]]:
    train, rest = make_corpus()
    test = rest[VALID:]
    return {"train": train, "valid": rest[:VALID], **{f"test{n}": test[:n] for n in TEST_SIZES}}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, pairs: dict[str, list[Pair]]) -> Path:
    """A folder with the text of `pairs`."""
    folder = tmp_path_factory.mktemp("commands")
    for part, some in pairs.items():
        write_pairs(folder, part, some)
    return folder


@pytest.fixture(scope="module")
def data(corpus: Path) -> Path:
    """The binarized data; its subset "test2" is the training set again."""
    tests = ",".join([*(f"test{n}" for n in TEST_SIZES), "train"])
    thresholds = ["--thresholdsrc", "2", "--thresholdtgt", "2"]
    preprocess(corpus, "bin", "--trainpref", "train", "--validpref", "valid", "--testpref", tests, *thresholds)
    return corpus / "bin"


@pytest.fixture(scope="module")
def overfitted(data: Path) -> tuple[Path, str]:
    """A folder with a model that knows the training pairs by heart and one half-way there, and the log."""
    folder = data.parent / "overfitted"
    sizes = split("--embedding-size 64 --hidden-size 96 --alignment-size 96 --maxout-size 64")
    words = split("--optimizer adam --lr 0.005 --clip-norm 1 --criterion cross_entropy --batch-size 25")
    words += ["--task", "rnnsearch", "--batch-size-valid", "8", "--max-epoch", str(EPOCHS)]
    words += ["--save-interval", str(EPOCHS // 2), "--validate-interval", str(EPOCHS // 2), "--no-save-optimizer-state"]
    return folder, train(data, folder, "--arch", "bahdanau_gru_small", *sizes, *words)


@pytest.fixture(scope="module")
def best(overfitted: tuple[Path, str]) -> Path:
    return overfitted[0] / f"checkpoint{EPOCHS}.pt"


@pytest.fixture(scope="module")
def halfway(overfitted: tuple[Path, str]) -> Path:
    return overfitted[0] / f"checkpoint{EPOCHS // 2}.pt"


@pytest.fixture(scope="module")
def unbroken(data: Path) -> tuple[Path, str]:
    """Three epochs of the paper's training, with dropout so that the random state matters; and the log."""
    folder = data.parent / "unbroken"
    words = [*SEARCH, *PAPER, *DROPOUT, "--batch-size", "16", "--max-epoch", "3"]
    done = run("fairseq-train", *training_words(data, folder, *words), cwd=data.parent)
    return folder, done.stdout + done.stderr


@pytest.fixture(scope="module")
def aligned(data: Path, best: Path) -> Output:
    """13 sentences with the weights of their alignments."""
    return generate(data, best, "--print-alignment", "soft", subset=SUBSETS[13])


# Training


def test_the_log_says_how_many_pairs_the_length_limit_drops(
    unbroken: tuple[Path, str], pairs: dict[str, list[Pair]]
) -> None:
    kept = [pair for pair in pairs["train"] if max(map(len, pair)) <= MAX_WORDS]
    assert 0 < len(kept) < TRAIN, "the corpus has pairs on both sides of the limit"
    message = f"train: at most {MAX_WORDS} words a side: kept {len(kept)} of {TRAIN} pairs, dropped {TRAIN - len(kept)}"
    assert unbroken[1].count(message) == 1
    results = epoch_results(unbroken[1])
    # An update of 16 pairs is one batch; the last, smaller one counts too.
    assert [int(results[epoch]["train_num_updates"]) for epoch in (1, 2, 3)] == [
        math.ceil(len(kept) / 16) * epoch for epoch in (1, 2, 3)
    ]


def test_the_log_has_the_cost_of_a_sentence_and_of_a_word(
    unbroken: tuple[Path, str], pairs: dict[str, list[Pair]]
) -> None:
    words = sum(len(target) + 1 for _, target in pairs["valid"])
    results = epoch_results(unbroken[1])
    for epoch in (1, 2, 3):
        of_sentence, of_word, bits = (
            float(results[epoch][f"valid_{name}"]) for name in ("nll_sentence_nats", "nll_word_nats", "loss")
        )
        assert of_sentence * VALID == pytest.approx(of_word * words, abs=0.02)
        assert of_sentence * VALID == pytest.approx(bits * math.log(2) * words, abs=0.1)
    costs = [float(results[epoch]["train_nll_sentence_nats"]) for epoch in (1, 2, 3)]
    assert costs == sorted(costs, reverse=True), "training reduces the cost"


def test_validation_counts_every_sentence(overfitted: tuple[Path, str], pairs: dict[str, list[Pair]]) -> None:
    last = logged(overfitted[1], "valid_loss")[-1]
    words = sum(len(target) + 1 for _, target in pairs["valid"])
    # Means over the two batches of 8 and 5 sentences, with one decimal.
    assert float(last["valid_bsz"]) == VALID / 2
    assert float(last["valid_wpb"]) == pytest.approx(words / 2, abs=0.051)


def test_a_run_broken_after_and_within_an_epoch_ends_as_an_unbroken_one(data: Path, unbroken: tuple[Path, str]) -> None:
    whole, whole_log = unbroken
    results = epoch_results(whole_log)
    epoch = int(results[1]["train_num_updates"])
    folder = data.parent / "broken"
    words = [*SEARCH, *PAPER, *DROPOUT, "--batch-size", "16"]
    first = train(data, folder, *words, "--max-epoch", "1")
    stop = ["--max-update", str(epoch + 5), "--save-interval-updates", "5"]
    second = train(data, folder, *words, "--max-epoch", "3", *stop)
    assert f"(epoch 2 @ {epoch} updates)" in second
    assert load(folder / "checkpoint_last.pt")["optimizer_history"][-1]["num_updates"] == epoch + 5
    third = train(data, folder, *words, "--max-epoch", "3")
    assert re.search(rf"Loaded checkpoint .* \(epoch 2 @ {epoch + 5} updates\)", third)

    assert epoch_results(first) == {1: results[1]}
    assert epoch_results(third) == {2: results[2], 3: results[3]}
    for name in ("checkpoint1.pt", "checkpoint2.pt", "checkpoint3.pt"):
        ours, theirs = load(folder / name), load(whole / name)
        assert ours["model"].keys() == theirs["model"].keys()
        assert ours["model"].pop("_extra_state") == theirs["model"].pop("_extra_state")
        assert all(torch.equal(ours["model"][key], theirs["model"][key]) for key in ours["model"])
        states = ours["last_optimizer_state"]["state"], theirs["last_optimizer_state"]["state"]
        assert states[0].keys() == states[1].keys()
        for parameter in states[0]:
            assert all(
                torch.equal(torch.as_tensor(states[0][parameter][key]), torch.as_tensor(value))
                for key, value in states[1][parameter].items()
            )


def test_two_processes_and_two_steps_train_as_one_batch(data: Path) -> None:
    # Pools of two updates, and so of a part of the pairs; no dropout, which differs by batch.
    words = [*SEARCH, *PAPER, "--pool-batches", "2", "--max-update", "2", "--log-interval", "1"]
    ways: dict[str, Callable[[Path], str]] = {
        "whole": lambda folder: train(data, folder, *words, "--batch-size", "16"),
        "steps": lambda folder: train(data, folder, *words, "--batch-size", "8", "--update-freq", "2"),
        "processes": lambda folder: train(data, folder, *words, "--batch-size", "8", processes=2),
    }
    logs = {way: start(data.parent / f"two_{way}") for way, start in ways.items()}
    states = {way: load(data.parent / f"two_{way}" / "checkpoint_last.pt") for way in ways}
    texts = [state["model"].pop("_extra_state") for state in states.values()]
    assert texts == texts[:1] * 3
    assert states["processes"]["cfg"]["distributed_training"]["distributed_world_size"] == 2
    parts = {"whole": "16 x 1 processes x --update-freq 1", "steps": "8 x 1 processes x --update-freq 2"}
    for way, part in {**parts, "processes": "8 x 2 processes x --update-freq 1"}.items():
        assert logs[way].count(f"sentences in an update: 16 (--batch-size {part})") == 1
    for way in ("steps", "processes"):
        assert states[way]["optimizer_history"][-1]["num_updates"] == 2
        ours, theirs = (logged(logs[name], "nll_sentence_nats") for name in (way, "whole"))
        assert [record["num_updates"] for record in ours] == [record["num_updates"] for record in theirs] == ["1", "2"]
        for record, expected in zip(ours, theirs):
            for name in ("nll_sentence_nats", "nll_word_nats", "gnorm", "bsz"):
                assert float(record[name]) == pytest.approx(float(expected[name]), rel=1e-3)
        torch.testing.assert_close(states[way]["model"], states["whole"]["model"], rtol=1e-4, atol=1e-6)


def test_bf16_trains_on_the_cpu_and_its_checkpoint_translates(data: Path) -> None:
    folder = data.parent / "bf16"
    train(data, folder, *SEARCH, *PAPER, "--batch-size", "16", "--bf16", "--cpu", "--max-update", "2")
    state = load(folder / "checkpoint_last.pt")
    history = state["optimizer_history"][-1]
    assert (history["optimizer_name"], history["num_updates"]) == ("FP16Optimizer", 2)
    output = generate(data, folder / "checkpoint_last.pt", "--cpu", "--max-len-b", "20", subset=SUBSETS[5])
    assert sorted(output.order) == list(range(5))


# Translating a data set


def test_a_model_that_knows_200_pairs_by_heart_translates_them(data: Path, best: Path) -> None:
    output = generate(data, best, "--max-tokens", "1000", subset=SUBSETS[TRAIN])
    assert sorted(output.order) == list(range(TRAIN))
    bleu = re.search(r"^Generate test2 with beam=5: BLEU4 = ([\d.]+)", output.text, re.MULTILINE)
    assert bleu is not None
    # An unknown name in a reference never matches, which alone costs about 2 points.
    assert float(bleu[1]) > 95


def test_references_are_scored_by_each_model_and_by_their_mean(
    data: Path, overfitted: tuple[Path, str], best: Path, halfway: Path, pairs: dict[str, list[Pair]]
) -> None:
    scores = {
        path: generate(data, path, "--score-reference", subset="valid").numbers("P")
        for path in (str(best), str(halfway), f"{best}:{halfway}")
    }
    one, other, both = scores.values()
    assert sorted(one) == sorted(both) == list(range(VALID))
    for number in range(VALID):
        assert len(both[number]) == len(pairs["valid"][number][1]) + 1
        mean = np.log2((np.exp2(one[number]) + np.exp2(other[number])) / 2)
        np.testing.assert_allclose(both[number], mean, atol=3e-4)
    # Training reported the same cost: bits a word over all of the validation set.
    for scored, record in zip((other, one), logged(overfitted[1], "valid_loss")):
        bits = [bit for row in scored.values() for bit in row]
        assert -np.mean(bits) == pytest.approx(float(record["valid_loss"]), abs=1e-3)


# Translating text


def translated(folder: Path, lines: Sequence[str], *words: str | Path) -> list[str]:
    """What ``rnnsearch translate`` prints for these lines."""
    (folder / "typed").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = ("-m", "rnnsearch_fairseq", "translate", folder / "typed", *words)
    return run("python", *command, cwd=folder).stdout.split("\n")[:-1]


def test_text_is_translated_as_binarized_data_is(data: Path, best: Path, halfway: Path, aligned: Output) -> None:
    zero, one = (" ".join(aligned.words("S")[number]) for number in (0, 1))
    expected = [" ".join(aligned.words("H")[number]) for number in (0, 1)]
    assert translated(data.parent, [zero, "", one], "--model", best) == [expected[0], "", expected[1]]
    assert rnnsearch_fairseq.load(best).translate([zero, one]) == expected
    both = generate(data, f"{best}:{halfway}", subset=SUBSETS[5])
    lines = [" ".join(both.words("S")[number]) for number in range(5)]
    assert translated(data.parent, lines, "--model", f"{best}:{halfway}") == [
        " ".join(both.words("H")[number]) for number in range(5)
    ]


def test_alignments_are_those_that_generate_prints(data: Path, best: Path, aligned: Output) -> None:
    lines = [" ".join(aligned.words("S")[number]) for number in range(3)]
    translated(data.parent, lines, "--model", best, "--alignments", data.parent / "alignments")
    records = [json.loads(line) for line in (data.parent / "alignments").read_text().splitlines()]
    for number, record in enumerate(records):
        rows = [[float(weight) for weight in row.split(",")] for row in aligned.words("A")[number]]
        np.testing.assert_allclose(record["alignment"], rows, atol=1e-4)


def test_unknown_words_are_replaced_by_the_source_words_they_are_aligned_with(
    corpus: Path, best: Path, pairs: dict[str, list[Pair]]
) -> None:
    lines = [" ".join(source) for source, _ in pairs["train"][:NAMED]]
    before = translated(corpus, lines, "--model", best)
    after = translated(corpus, lines, "--model", best, "--replace-unknown")
    copied = []
    for (source, _), one, other in zip(pairs["train"], before, after):
        for word, replaced in zip(one.split(), other.split(), strict=True):
            if word == "<unk>":
                copied.append(replaced)
                assert replaced in source
            else:
                assert replaced == word
    # The model was not made to align well, but some names it must find.
    sources, targets = count_words(pairs["train"])
    assert any(word[0].isupper() and sources[word] == targets[word] == 1 for word in copied)


# Bad input


def assert_one_sentence(done: subprocess.CompletedProcess[str], message: str) -> None:
    assert "Traceback" not in done.stdout + done.stderr
    last = done.stderr.rstrip("\n").rsplit("\n", 1)[-1]
    assert re.fullmatch(rf"error: .*{message}.*", last), done.stderr


def test_training_refuses_a_checkpoint_of_another_architecture_in_one_sentence(
    data: Path, unbroken: tuple[Path, str]
) -> None:
    restore = ["--restore-file", unbroken[0] / "checkpoint_last.pt"]
    words = training_words(data, "refused", "--arch", "rnnencdec", *TINY, *PAPER, "--batch-size", "16", *restore)
    done = run("fairseq-train", *words, cwd=data.parent, status=1)
    assert_one_sentence(done, "another architecture.* --arch")


@pytest.fixture(scope="module")
def other(corpus: Path, data: Path) -> Path:
    """The data with other dictionaries: no word is unknown."""
    folder = corpus / "other"
    preprocess(corpus, folder, "--trainpref", "train", "--validpref", "valid", "--testpref", "test5")
    return folder


def test_generating_refuses_another_dictionary_in_one_sentence(data: Path, other: Path, best: Path) -> None:
    done = run("fairseq-generate", other, *PLUGIN, "--path", best, "--num-workers", "0", cwd=other.parent, status=1)
    # The four symbols that every dictionary begins with are not in its file.
    counts = [len((folder / "dict.en.txt").read_text(encoding="utf-8").splitlines()) + 4 for folder in (data, other)]
    assert_one_sentence(done, rf"another source dictionary \(of {counts[0]} words, here {counts[1]}\); .*")


def train_here(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    """`fairseq-train` in this process, which saves its start-up time."""
    monkeypatch.setattr(sys, "argv", ["fairseq-train", *words])
    args = fairseq.options.parse_args_and_arch(fairseq.options.get_training_parser(), words)
    module = importlib.import_module("fairseq_cli.train")
    fairseq.distributed.utils.call_main(convert_namespace_to_omegaconf(args), module.main)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--alignment-size", "-1"], "--alignment-size is -1"),
        (["--max-words", "1"], "none of 200 training pairs is left; see --max-words"),
        (["--max-tokens", "100"], "give --batch-size"),
    ],
    ids=lambda value: value[0].removeprefix("--") if isinstance(value, list) else "",
)
def test_training_refuses_bad_options(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: list[str], message: str
) -> None:
    words = training_words(data, tmp_path, *SEARCH, *PAPER, "--cpu", "--batch-size", "16", *extra)
    with pytest.raises(InputError, match=message):
        train_here(monkeypatch, words)
