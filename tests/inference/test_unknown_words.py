"""Unknown words replaced through alignments, by hand and against fairseq's own --replace-unk."""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

import fairseq.utils
import pytest
import torch
from fairseq.tasks.translation import TranslationTask

import rnnsearch_fairseq
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference import scoring, unknown_words
from tests.builders import SMALL, make_dictionary, parse_training, randomize, save_checkpoint
from tests.inference.builders import SOURCE, TARGET, score_line

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

Command = Callable[..., tuple[str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command in this process; returns standard output and standard error."""

    def run(*words: str | Path) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["unknown_words", *map(str, words)])
        capsys.readouterr()
        unknown_words.main()
        return capsys.readouterr()

    return run


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def text(tmp_path: Path) -> dict[str, Path]:
    """The text, and its scores in two files."""
    pairs = list(zip(SOURCE.splitlines(), TARGET.splitlines()))
    links = [[0, 1, 2, 3, 4], [0, 0], [0, 1, 2, 3, 5, 5], [0, 1, 2, 3]]  # "gnou" once with "gnu", once with nothing
    # The last stands alone in a file of scores, which count from 0.
    lines = [score_line(number, *pair, link) for number, pair, link in zip((0, 1, 2, 0), pairs, links)]
    return {
        "source": write(tmp_path / "train.en", SOURCE),
        "target": write(tmp_path / "train.fr", TARGET),
        "first": write(tmp_path / "scores.1.jsonl", "".join(lines[:3])),
        "second": write(tmp_path / "scores.2.jsonl", lines[3]),
        "output": tmp_path / "dictionary",
    }


def learning(text: dict[str, Path]) -> list[str | Path]:
    sides = ["--source", text["source"], "--target", text["target"]]
    return ["learn", text["first"], text["second"], *sides, "--output", text["output"]]


# The dictionary


def test_each_source_word_keeps_the_words_of_the_text_it_is_linked_with(
    text: dict[str, Path], command: Command
) -> None:
    out, _ = command(*learning(text))
    assert text["output"].read_text(encoding="utf-8") == (
        "Anna Anne 1\ngnu gnou 1\nsees voit 2\nsleeps dort 1\nthe le 4\nzebra zèbre 2\n"
    )
    assert "11 links of 6 source words" in out, "links with end-of-sentence, and those of it, are no links"


def test_the_most_frequent_word_is_kept_and_of_equals_the_first(tmp_path: Path, command: Command) -> None:
    files = {"source": write(tmp_path / "s", "b a b b\n"), "target": write(tmp_path / "t", "y z x z\n")}
    scores = {"id": 0, "source": ["b", "a", "b", "b", "</s>"], "target": ["y", "z", "x", "z", "</s>"]}
    alignment = [[0, 0, 0, 0, 1]] * 5
    for links, expected in (([0, 1, 2, 0], "a z 1\nb y 1\n"), ([0, 0, 2, 3], "b z 2\n")):
        rows = [[float(i == link) for i in range(5)] for link in links] + alignment[:1]
        path = write(tmp_path / "scores", json.dumps({**scores, "alignment": rows}) + "\n")
        command("learn", path, "--source", files["source"], "--target", files["target"], "--output", tmp_path / "d")
        assert (tmp_path / "d").read_text() == expected


def test_fairseq_reads_the_dictionary(text: dict[str, Path], command: Command) -> None:
    command(*learning(text))
    ours = unknown_words.read_dictionary(text["output"])
    assert fairseq.utils.load_align_dict(str(text["output"])) == ours
    assert ours["zebra"] == "zèbre"


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (
            "source",
            "sleeps",
            "eats",
            r"scores\.2\.jsonl, line 1: word 3 is 'sleeps', but 'eats' in .*train\.en, line 4",
        ),
        ("target", "le gnou dort", "le gnou", r"scores\.2\.jsonl, line 1: 3 words, but .*train\.fr, line 4 has 2"),
        ("second", "0.6, ", "", r"scores\.2\.jsonl, line 1: not a score .*; give what rnnsearch score wrote"),
        ("first", '"id": 2', '"id": 3', r"scores\.1\.jsonl, line 3: the score of sentence 3, not 2; "),
    ],
)
def test_bad_scores_and_other_texts_are_refused(
    text: dict[str, Path], command: Command, file: str, old: str, new: str, message: str
) -> None:
    before = text[file].read_text(encoding="utf-8")
    assert old in before
    write(text[file], before.replace(old, new))
    with pytest.raises(InputError, match=message):
        command(*learning(text))
    assert not text["output"].exists()


def test_too_few_and_too_many_scores_are_refused(text: dict[str, Path], command: Command) -> None:
    words = learning(text)
    with pytest.raises(InputError, match=r"scores\.1\.jsonl, line 3: the scores end before line 4 of .*train\.en"):
        command(words[0], words[1], *words[3:])
    with pytest.raises(InputError, match=r"scores\.2\.jsonl, line 1: .*train\.en has no more lines"):
        command(*words[:3], words[2], *words[3:])
    with pytest.raises(InputError, match="cannot be read"):
        command(words[0], text["output"], *words[1:-1], text["output"].with_name("other"))
    with pytest.raises(InputError, match="would replace"):
        command(*words[:-1], text["first"])
    write(text["second"], "")
    with pytest.raises(InputError, match=r"scores\.2\.jsonl: the file is empty"):
        command(*words)
    assert not text["output"].exists()


def test_a_model_without_attention_is_refused(text: dict[str, Path], command: Command) -> None:
    score = json.loads(text["second"].read_text())
    write(text["second"], json.dumps({**score, "alignment": None}) + "\n")
    with pytest.raises(
        InputError, match=r"scores\.2\.jsonl, line 1: no alignment; score with a model that has attention"
    ):
        command(*learning(text))


# The replacement

GENERATED = """loading
S-1\t<unk> sleeps
H-1\t-0.5\t<unk> dort
A-1\t0.1,0.2,0.7 0.1,0.8,0.1 0.0,0.0,1.0
S-0\tthe <unk> sees a gnu
H-0\t-0.5\tle <unk> voit <unk> <unk>
A-0\t1,0,0,0,0,0 0,0.9,0,0,0.1,0 0,0,1,0,0,0 0,0.1,0,0,0.9,0 0,0.9,0,0,0.1,0 0,0,0,0,0,1
H-0\t-0.9\t<unk>
A-0\t0,0,1,0,0,0 0,0,0,0,0,1
S-2\t
H-2\t-0.5\t<unk> !
A-2\t1 1
"""
INPUT = "the Vulru sees  a gnu \nAnna sleeps\n\n"


def test_unknown_words_become_what_they_are_most_aligned_with(tmp_path: Path, command: Command) -> None:
    generated, source = write(tmp_path / "out", GENERATED), write(tmp_path / "test.en", INPUT)
    out, err = command("replace", generated, "--source", source)
    assert out == "le Vulru voit gnu Vulru\nsleeps dort\n<unk> !\n", "end-of-sentence is no word to copy"
    assert "5 unknown words in 3 of 3 translations: 0 replaced from the dictionary, 4 by the source word, 1 left" in err
    dictionary = write(tmp_path / "dictionary", "Vulru Voulrou 1\nsees voit 7\n")
    out, err = command("replace", generated, "--source", source, "--dictionary", dictionary)
    assert out == "le Voulrou voit gnu Voulrou\nsleeps dort\n<unk> !\n"
    assert "2 replaced from the dictionary, 2 by the source word" in err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("A-1\t0.1,0.2,0.7 0.1,0.8,0.1 0.0,0.0,1.0\n", "", r"out, sentence 1: there is no alignment; .*soft"),
        ("A-1\t0.1,0.2,0.7 0.1,0.8,0.1 0.0,0.0,1.0", "A-1\t", r"out, sentence 1: its alignment is .*with attention"),
        ("0.1,0.2,0.7 0.1,0.8,0.1 0.0,0.0,1.0", "0.1,0.9 0.2,0.8", r"sentence 1: its alignment is \(2, 2\)"),
        ("S-1\t<unk> sleeps", "S-1\t<unk> eats", r"sentence 1: word 2 is 'eats', but 'sleeps' in .*test\.en, line 2"),
        ("-2\t", "-3\t", r"sentence 2, line 3 of .*test\.en, is missing"),
        ("loading", "S-3\tmore\nH-3\t-0.5\tplus", r"sentence 3 is more than .*test\.en has"),
    ],
)
def test_outputs_of_other_texts_or_without_alignments_are_refused(
    tmp_path: Path, command: Command, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str
) -> None:
    assert old in GENERATED
    generated, source = write(tmp_path / "out", GENERATED.replace(old, new)), write(tmp_path / "test.en", INPUT)
    with pytest.raises(InputError, match=message):
        command("replace", generated, "--source", source)
    assert capsys.readouterr().out == ""


def test_a_line_of_one_word_is_no_entry(tmp_path: Path, command: Command) -> None:
    generated, source = write(tmp_path / "out", GENERATED), write(tmp_path / "test.en", INPUT)
    dictionary = write(tmp_path / "dictionary", "a b\nc\n")
    with pytest.raises(InputError, match=r"dictionary, line 2: not a word and its translation"):
        command("replace", generated, "--source", source, "--dictionary", dictionary)


# With fairseq


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model that likes unknown words, and a text in which it knows about half of the words."""
    folder = tmp_path_factory.mktemp("unknown")
    dictionaries = make_dictionary(20), make_dictionary(17)
    for dictionary, language in zip(dictionaries, ("en", "fr")):
        dictionary.save(str(folder / f"dict.{language}.txt"))
        lines = [" ".join(f"w{(7 * i + 5 * j) % 40}" for j in range(1 + i % 6)) for i in range(12)]
        write(folder / f"test.en-fr.{language}", "\n".join(lines) + "\n")
    sizes = [word for name, size in SMALL.items() for word in (f"--{name.replace('_', '-')}", str(size))]
    config = parse_training("--arch", "bahdanau_gru", *sizes, "--task", "translation", "-s", "en", "-t", "fr")
    model = TranslationTask(config.task, *dictionaries).build_model(config.model)
    randomize(model, 0.9)
    with torch.no_grad():
        model.decoder.network.readout.to_vocabulary.bias[dictionaries[1].unk()] += 2.0
    save_checkpoint(folder / "model.pt", config, model)
    return folder


def test_fairseqs_own_replacement_gives_the_same_translations(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(name: str, module: str, *words: str | Path) -> str:
        monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
        capsys.readouterr()
        main = importlib.import_module(module)
        main.cli_main()
        return capsys.readouterr().out

    plugin = str(Path(rnnsearch_fairseq.__file__).parent)
    texts = [folder / f"test.en-fr.{language}" for language in ("en", "fr")]
    sides = ["--source", texts[0], "--target", texts[1]]
    words = ["--path", folder / "model.pt", "--data", folder, *texts, "--cpu", "--output", folder / "scores"]
    monkeypatch.setattr(sys, "argv", ["score", *map(str, words)])
    scoring.main()
    command("learn", folder / "scores", *sides, "--output", folder / "dictionary")

    words = [folder, "--user-dir", plugin, "--path", folder / "model.pt", "--cpu", "--dataset-impl", "raw"]
    words += ["-s", "en", "-t", "fr", "--num-workers", "0", "--batch-size", "4", "--beam", "3", "--max-len-b", "8"]
    generate = ("fairseq-generate", "fairseq_cli.generate", *words)
    generated = write(folder / "generated", run(*generate, "--print-alignment", "soft"))
    for theirs, ours in ([], []), ([folder / "dictionary"], ["--dictionary", folder / "dictionary"]):
        printed = run(*generate, "--replace-unk", *theirs)
        lines = sorted(
            (line[2:].split("\t") for line in printed.split("\n") if line[:2] == "H-"), key=lambda x: int(x[0])
        )
        out, err = command("replace", generated, "--source", texts[0], *ours)
        assert out == "".join(f"{line[2]}\n" for line in lines)
        assert len(lines) == 12
        assert "<unk>" not in out
        assert ("0 replaced from the dictionary" in err) == (not ours)
