"""``rnnsearch prepare``: raw text to tokens and subwords, and the script that it writes."""

import fcntl
import os
import shutil
import signal
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rnnsearch_fairseq.corpus import prepare as module
from rnnsearch_fairseq.corpus import rows
from rnnsearch_fairseq.corpus.pairs import Pair
from rnnsearch_fairseq.corpus.plan import MANY_PAIRS, make_script, plan_training
from rnnsearch_fairseq.corpus.split import PARTS
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.codec import TextCodec
from rnnsearch_fairseq.text.preparation import find_preparations, read_preparations
from tests.corpus import builders
from tests.corpus.builders import LANGUAGES, number_pairs, parse, prepare, run_script, write_files, write_tsv

PAIRS = [
    ("It's a well-known story.", "C'est une histoire bien connue."),
    ("Two dogs are playing in the snow.", "Deux chiens jouent dans la neige."),
    ("The dog's ball is red & blue.", "La balle du chien est rouge & bleue."),
    ('She said: "I don\'t know."', "Elle a dit : « Je ne sais pas. »"),
    ("", ""),
    ("The dogs played; the cats slept.", "Les chiens ont joué ; les chats ont dormi."),
    ("Dr. Smith isn't here.", "Le Dr Smith n'est pas là."),
    ("The naïve café owner smiled.", "Le propriétaire naïf du café sourit."),
    ("100% of dogs play.", "100 % des chiens jouent."),
    ("One | two [three].", "Un | deux [trois]."),
    ("The snow is playing tricks.", "La neige joue des tours."),
    ("Good night!", "Aujourd'hui, bonne nuit !"),
]

NAMES = {"train": "train", "valid": "dev.2016", "test": "test.flickr"}
OPTIONS = [word for part, name in NAMES.items() for word in (f"--{part}", name)]
SIZES = {"train": 12, "valid": 3, "test": 5}
Capture = pytest.CaptureFixture[str]


def read(path: Path) -> list[str]:
    *lines, end = path.read_bytes().decode().split("\n")
    assert end == ""
    return lines


def read_pairs(folder: Path, part: str = "train") -> list[Pair]:
    return list(zip(*(read(folder / f"{part}.{language}") for language in LANGUAGES), strict=True))


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    folder.mkdir()
    for part, name in NAMES.items():
        write_files(folder, PAIRS[-SIZES[part] :], name)
    return folder


# Words and subwords


@pytest.mark.parametrize(
    ("subwords", "file"),
    [
        ("--bpe 0 --lowercase", None),
        ("--bpe 40", "bpe.codes"),
        ("--sentencepiece 90", "sentencepiece.model"),
        ("--sentencepiece 90 --lowercase", "sentencepiece.model"),
    ],
)
def test_text_that_is_given_to_translate_becomes_what_was_prepared(
    raw: Path, tmp_path: Path, subwords: str, file: str | None
) -> None:
    out = tmp_path / "out"
    prepare(raw, out, *OPTIONS, *subwords.split())
    preparations = read_preparations(out)
    for part, size in SIZES.items():
        for language, lines in zip(LANGUAGES, zip(*PAIRS[-size:])):
            codec, words = TextCodec(preparations[language], language), read(out / f"{part}.{language}")
            assert [" ".join(codec.encode(line)) for line in lines] == words
            assert codec.preparation.lowercase == ("lower" in subwords)
            if "piece" in subwords and "lower" not in subwords:
                assert [codec.decode(line.split()) for line in words] == [*lines]
    files = {*(f"{part}.{language}" for part in NAMES for language in LANGUAGES), "preparation.json", "train.sh", "raw"}
    assert {path.name for path in out.iterdir()} == files | ({file} if file else set())
    assert preparations["en"].tokenizer == (None if "piece" in subwords else "moses")
    assert read_pairs(out / "raw", "test") == PAIRS[-5:]


def test_tokens_stay_and_subwords_are_learnt_from_both_languages(tmp_path: Path) -> None:
    for part in PARTS:
        write_files(tmp_path, [(english, "zyzyzyzy zyzyzyzy") for english, _ in PAIRS], part)
    prepare(tmp_path, tmp_path / "out", "--tokenized", "--bpe", "40")
    codes = read(tmp_path / "out" / "bpe.codes")
    assert "z y" in codes and any("z" not in merge for merge in codes[1:])
    assert [line.replace("@@ ", "") for line in read(tmp_path / "out/train.en")] == [english for english, _ in PAIRS]


@pytest.mark.parametrize(
    ("settings", "many", "line", "kind"),
    [
        ({}, False, "Hello, world!", "sentencepiece"),
        ({"tokenized": True}, False, "Hello , world !", "bpe"),
        ({}, True, "In 1.5 h on GitHub: <b>see</b> https://a.org &amp; a|b, yes-or-no 5%", None),
        ({}, True, "彼は昨日、新しいiPhoneを買いました。", "sentencepiece"),
        ({}, True, "See this :func:`open` and ``file``.", "sentencepiece"),
    ],
)
def test_subwords_are_the_default_below_a_million_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any, many: bool, line: str, kind: str | None
) -> None:
    if many:
        monkeypatch.setattr(module, "MANY_PAIRS", 20)
    parts = {part: [(line, line)] * 20 for part in PARTS}
    number, preparation = module.prepare(parts, LANGUAGES, tmp_path, **settings)
    assert preparation.subwords == kind and number == 20
    found = [(replace(of, words=None), of.known_words()) for of in read_preparations(tmp_path).values()]
    assert preparation.markup == ("`" in line) and found == [(preparation, {"this"} if "`" in line else None)] * 2
    assert {"⟦1⟧", "⟦2⟧"}.issubset(read(tmp_path / "train.fr")[-1].split()) == preparation.markup


# Which files are read


def test_a_folder_of_parts_is_read_whatever_else_is_in_it(tmp_path: Path) -> None:
    folder, out = tmp_path / "raw", tmp_path / "out"
    (folder / "old" / "x").mkdir(parents=True)
    for part in PARTS:
        write_files(folder, number_pairs(30), part)
    write_tsv(folder / "old" / "x", number_pairs(100, 900), "terms.tsv")
    prepare(folder, out, "--bpe", "0")
    assert len(read_pairs(out)) == 30
    (folder / "test.fr").unlink()
    with pytest.raises(InputError, match=r"test\.fr"):
        prepare(folder, out, "--bpe", "0")


def test_text_is_the_same_from_one_process_and_from_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (corpus,) = write_tsv(tmp_path, [*number_pairs(150), ("", "vide"), *builders.make_pairs(150)])
    command = (corpus, "--bpe", "30", "--shuffle", "1")
    prepare(*command, tmp_path / "one")
    monkeypatch.setattr(rows, "BLOCK", 40)
    monkeypatch.setattr(rows, "MIN_BLOCKS", 3)
    prepare(*command, tmp_path / "several")
    assert contents(tmp_path / "one") == contents(tmp_path / "several")


def test_training_pairs_are_limited_by_their_words_and_shuffled_together(raw: Path, tmp_path: Path) -> None:
    prepare(raw, tmp_path / "plain", *OPTIONS, "--bpe", "0")
    short = [pair for pair in read_pairs(tmp_path / "plain") if all(1 <= len(line.split()) <= 7 for line in pair)]
    for path in raw.iterdir():
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))  # line ends of Windows change nothing
    prepare(raw, tmp_path / "short", *OPTIONS, "--bpe", "40", "--max-words", "7", "--shuffle", "1")
    joined = [tuple(line.replace("@@ ", "") for line in pair) for pair in read_pairs(tmp_path / "short")]
    assert sorted(joined) == sorted(short) != joined and 3 < len(short) < 10
    assert len(read_pairs(tmp_path / "short", "test")) == SIZES["test"]


def die(block: list[int]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_ends_the_work() -> None:
    with pytest.raises(InputError, match="a process was killed"):
        list(rows.map_blocks(die, range(rows.MIN_BLOCKS * rows.BLOCK), "words"))


# Bad input


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("corpus.tsv --split 5", None),
        ("corpus.tsv --bpe -3", None),
        ("corpus.tsv -t en", "give two languages"),
        ("nothing.tsv", "nothing.tsv: no such file or folder"),
        ("corpus.tsv -t sh", "sh_RS for sh"),
        ("corpus.tsv -s english", "english: .* as en or pt_BR"),
        ("pipe.tsv", "not a regular file"),
        ("empty", "empty: holds no"),
        ("parts --split 5 5", "leave out --split"),
    ],
)
def test_impossible_commands_are_refused(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, words: str, message: str | None
) -> None:
    write_tsv(tmp_path, number_pairs(50))
    os.mkfifo(tmp_path / "pipe.tsv")
    for folder in ("empty", "parts"):
        (tmp_path / folder).mkdir()
    write_files(tmp_path / "parts", number_pairs(9), "train")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError if message else SystemExit, match=message):
        prepare(*words.split(), "out")
    printed = capsys.readouterr().err
    assert message or "give a whole number from" in printed or "expected 2 arguments" in printed
    assert not (tmp_path / "out").exists()


# All or nothing


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_failed_command_makes_no_folder_and_a_used_folder_is_refused(tmp_path: Path) -> None:
    (corpus,), out, new = write_tsv(tmp_path, number_pairs(300)), tmp_path / "out", tmp_path / "new"
    prepare(corpus, "--bpe", "30", out)  # an option may also stand before OUT
    before, test = contents(out), read_pairs(out / "raw", "test")
    refused = {
        "--sentencepiece 10": (corpus, new, "--split", "9", "9", "--sentencepiece", "10"),
        "--max-words": (corpus, new, "--max-words", "2"),
        r"out: is not empty .*train\.sh": (corpus, out, "--bpe", "30"),
        r"corpus\.tsv: a file, but the last word is the folder": (out / "raw", corpus),
    }
    for named, words in refused.items():
        with pytest.raises(InputError, match=named):
            prepare(*words)
        assert contents(out) == before and not new.exists()
    prepare(out / "raw", new, "--sentencepiece", "60")
    assert read_pairs(new / "raw", "test") == test and read_preparations(new)["en"].subwords == "sentencepiece"


# What follows


@pytest.mark.parametrize("words", [["--bpe", "0"], []])
def test_the_commands_fit_the_files(tmp_path: Path, monkeypatch: Any, words: list[str]) -> None:
    out = tmp_path / "my text"
    prepare(*write_tsv(tmp_path, number_pairs(300)), out, "--max-words", "8", *words)
    assert str(tmp_path) not in (out / "train.sh").read_text()
    commands = run_script(out)
    monkeypatch.chdir(out)
    args = parse(commands, "fairseq-preprocess")
    for part in PARTS:
        prefix = getattr(args, f"{part}pref")
        assert all(Path(f"{prefix}.{language}").is_file() for language in (args.source_lang, args.target_lang))
    assert args.joined_dictionary == (not words)
    assert (args.nwordssrc, args.nwordstgt) == ((30004, 30004) if words else (-1, -1))
    assert find_preparations(Path(args.destdir), LANGUAGES) is not None
    args = parse(commands, "fairseq-train")
    assert (args.data, args.max_update, args.total_num_update, args.batch_size) == ("bin", 2000, "2000", 40)
    assert getattr(args, "share_all_embeddings", False) == (not words)
    following = {" ".join(words) for words in commands if not words[0].startswith("fairseq-")}
    assert following == {
        "rnnsearch user-dir",
        "rnnsearch progress train.log 2000",
        f"rnnsearch export {args.save_dir}/checkpoint_best.pt --output model.part --half --beam 12",
        "rnnsearch translate raw/test.en --model model --beam 12 --output test.hyp.fr",
        "sacrebleu raw/test.fr -i test.hyp.fr -m bleu chrf -f text -l en-fr",
    }


@pytest.mark.slow
@pytest.mark.train
def test_the_script_trains_translates_and_scores_in_a_folder_that_was_moved(tmp_path: Path) -> None:
    prepare(*write_tsv(tmp_path, number_pairs(300)), tmp_path / "text")
    folder = shutil.move(tmp_path / "text", tmp_path / "my text")
    script = folder / "train.sh"
    text = script.read_text().replace("update 2000", "update 3")
    script.write_text(text.replace("gru_small", "gru_small --hidden-size 8"))
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    start = partial(subprocess.run, ["bash", script], cwd="/", env=environment, capture_output=True, text=True)
    (folder / "bin.part").mkdir()  # of a start that was killed
    first = start()
    assert first.returncode == 0, first.stderr
    assert "BLEU|" in first.stdout and "chrF2|" in first.stdout and "Warning" not in first.stderr
    assert f"{folder}/model" in first.stdout and "update 3 of 2,000" in first.stdout
    assert len(read(folder / "test.hyp.fr")) == 15
    times = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert first.stdout.endswith(start(check=True).stdout)
    assert times == {path: path.stat().st_mtime_ns for path in times}
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert str(folder) in start().stderr


def test_training_is_longer_on_more_text(tmp_path: Path) -> None:
    few, some, many = (plan_training(pairs) for pairs in (3600, 29_000, MANY_PAIRS))
    assert (few.batch, few.updates, few.dropout, few.pieces) == (40, 2000, 0.4, 2000)
    assert (some.batch, some.updates, some.dropout, some.pieces) == (80, 18 * 363, 0.3, 5600)
    (tmp_path / "train.sh").write_text(make_script(("en", "zh_TW"), many, joined=False, lower=True))
    args = parse(run_script(tmp_path), "fairseq-train")
    assert (args.arch, args.task, args.pool_batches, args.max_words) == ("bahdanau_gru", "rnnsearch", 20, 50)
    assert "tokens=(\n    -l en-zh\n    -lc)" in (tmp_path / "train.sh").read_text()


@pytest.mark.parametrize("words", [["--bpe", "0"], []])
def test_a_warning_says_what_helps(tmp_path: Path, words: list[str]) -> None:
    pairs = [(f"He took the {number} of it.", f"彼は昨日、新しいiPhoneを買いました。{number}") for number in range(100)]
    printed = prepare(*write_tsv(tmp_path, pairs), tmp_path / "out", *words, languages=("en", "ja"))
    assert ("warning: the text needs sentencepieces" in printed) == bool(words)
    assert "warning: 90 pairs teach a model little" in printed
    assert "tokens=(\n    --tokenize char)" in (tmp_path / "out" / "train.sh").read_text()
