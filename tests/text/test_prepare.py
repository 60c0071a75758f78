"""``rnnsearch prepare``: raw text to tokens and subwords, and the commands that it prints."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fairseq import options
from fairseq.data import Dictionary

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.codec import TextCodec
from rnnsearch_fairseq.text.next_commands import BATCH, EPOCHS, LARGE, next_commands
from rnnsearch_fairseq.text.preparation import Preparation, find_preparations, read_preparations
from rnnsearch_fairseq.text.prepare import Settings, main, prepare
from rnnsearch_fairseq.text.split import PARTS
from tests.commands import BIN

ENGLISH = [
    "Hello, world!",
    "It's a well-known story.",
    "Two dogs are playing in the snow.",
    "The dog's ball is red & blue.",
    'She said: "I don\'t know."',
    "He paid $5.50 (five dollars).",
    "A man, a plan, a canal.",
    "",
    "The well-known man sleeps.",
    "Dogs play in the garden.",
    "The dogs played; the cats slept.",
    "Is the garden well-kept?",
    "Dr. Smith isn't here.",
    "The naïve café owner smiled.",
    "100% of dogs play.",
    "One | two [three].",
    "Men are playing cards.",
    "The snow is playing tricks.",
    "Well, well, well...",
    "Good night!",
]

FRENCH = [
    "Bonjour, le monde !",
    "C'est une histoire bien connue.",
    "Deux chiens jouent dans la neige.",
    "La balle du chien est rouge & bleue.",
    "Elle a dit : « Je ne sais pas. »",
    "Il a payé 5,50 $ (cinq dollars).",
    "Un homme, un plan, un canal.",
    "",
    "L'homme bien connu dort.",
    "Les chiens jouent dans le jardin.",
    "Les chiens ont joué ; les chats ont dormi.",
    "Le jardin est-il bien entretenu ?",
    "Le Dr Smith n'est pas là.",
    "Le propriétaire naïf du café sourit.",
    "100 % des chiens jouent.",
    "Un | deux [trois].",
    "Des hommes jouent aux cartes.",
    "La neige joue des tours.",
    "Bien, bien, bien...",
    "Aujourd'hui, bonne nuit !",
]

RAW = {"en": ENGLISH, "fr": FRENCH}
LANGUAGES = ("en", "fr")
NAMES = {"train": "train", "valid": "dev.2016", "test": "test.flickr"}
SIZES = {"train": 20, "valid": 3, "test": 5}
PIECES = 90


def write(path: Path, lines: list[str]) -> None:
    path.write_bytes("".join(line + "\n" for line in lines).encode())


def read(path: Path) -> list[str]:
    text = path.read_bytes().decode()
    assert text.endswith("\n")
    return text.split("\n")[:-1]


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    folder.mkdir()
    for part, name in NAMES.items():
        for language, lines in RAW.items():
            write(folder / f"{name}.{language}", lines[-SIZES[part] :])
    return folder


def run(raw: Path, out: str = "out", **settings: Any) -> Path:
    prepare(raw, NAMES, LANGUAGES, raw.parent / "new" / out, Settings(**settings))
    return raw.parent / "new" / out


def run_main(monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> None:
    monkeypatch.setattr(sys, "argv", ["prepare", *map(str, words), "-s", "en", "-t", "fr"])
    main()


# Words and subwords


def test_words_are_the_tokens_of_moses(raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(raw)
    english, french = read(out / "train.en"), read(out / "train.fr")
    assert english[:4] == [
        "Hello , world !",
        "It &apos;s a well @-@ known story .",
        "Two dogs are playing in the snow .",
        "The dog &apos;s ball is red &amp; blue .",
    ]
    assert english[12] == "Dr. Smith isn &apos;t here ."
    assert french[1] == "C&apos; est une histoire bien connue ."
    assert english[7] == french[7] == "", "an empty line stays a line"
    assert "tokenised 20 pairs of train" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "file", "count"),
    [({}, None, 0), ({"bpe": 40}, "bpe.codes", 40), ({"sentencepiece": PIECES}, "sentencepiece.model", PIECES)],
)
@pytest.mark.parametrize("more", [{}, {"lowercase": True}, {"tokenized": True}, {"workers": 2}])
def test_text_that_is_given_to_translate_becomes_what_was_prepared(
    raw: Path, capsys: pytest.CaptureFixture[str], settings: Any, file: str | None, count: int, more: dict[str, Any]
) -> None:
    if settings.get("sentencepiece") and more.get("tokenized"):
        with pytest.raises(InputError, match="--sentencepiece splits text, not tokens"):
            run(raw, **settings, **more)
        return
    out = run(raw, **settings, **more)
    preparations = read_preparations(out)
    for part, size in SIZES.items():
        for language, lines in RAW.items():
            assert len(read(out / f"{part}.{language}")) == size
            codec = TextCodec(preparations[language], language)
            assert [codec.encode(line) for line in lines[-size:]] == read(out / f"{part}.{language}")
            if "sentencepiece" in settings and not more.get("lowercase"):
                assert [codec.decode(line) for line in read(out / f"{part}.{language}")] == lines[-size:]
    files = {*(f"{part}.{language}" for part in NAMES for language in RAW), "preparation.json"}
    assert {path.name for path in out.iterdir()} == files | ({file} if file else set())
    assert preparations["en"].tokenizer == (None if more.get("tokenized") or "sentencepiece" in settings else "moses")
    if file:
        assert len({piece for line in read(out / "train.en") for piece in line.split()}) > 20
        assert f"{count} BPE merges" in (said := capsys.readouterr().out) or f"{count} sentencepieces" in said


def test_merges_are_learnt_from_both_languages(raw: Path) -> None:
    for part, name in NAMES.items():
        write(raw / f"{name}.fr", ["zyzyzyzy zyzyzyzy"] * SIZES[part])
    codes = read(run(raw, bpe=40) / "bpe.codes")
    assert codes[0].startswith("#version")
    assert "z y" in codes, "only the French side has it"
    assert any("z" not in merge for merge in codes[1:]), "the French side has nothing else"


def test_a_small_text_gives_fewer_sentencepieces(raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(raw, sentencepiece=5000)
    (learnt,) = re.findall(r"learnt (\d+) sentencepieces", capsys.readouterr().out)
    assert PIECES < int(learnt) < 5000


def test_windows_line_ends_change_nothing(raw: Path) -> None:
    expected = run(raw, bpe=40)
    for file in list(raw.iterdir()):
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    windows = run(raw, "windows", bpe=40)
    assert all(read(windows / f"train.{language}") == read(expected / f"train.{language}") for language in RAW)


def test_an_earlier_record_is_gone(raw: Path) -> None:
    out = run(raw, sentencepiece=PIECES)
    run(raw, bpe=30)
    assert not (out / "sentencepiece.model").exists()
    run(raw)
    assert not (out / "bpe.codes").exists()
    with pytest.raises(InputError, match=r"--sentencepiece 10: the training text does not allow it .*10 vs \d+"):
        run(raw, sentencepiece=10)
    assert read_preparations(out) is None


# Length limit and shuffle


@pytest.mark.parametrize("bpe", [0, 40])
def test_long_training_pairs_are_left_out_by_their_words(
    raw: Path, bpe: int, capsys: pytest.CaptureFixture[str]
) -> None:
    words = run(raw)
    pairs = zip(*(read(words / f"train.{language}") for language in RAW))
    kept = [pair for pair in pairs if all(1 <= len(line.split()) <= 7 for line in pair)]
    assert 3 < len(kept) < 17
    out = run(raw, "short", bpe=bpe, max_words=7)
    assert f"kept {len(kept)} of 20 training pairs" in capsys.readouterr().out
    for side, language in enumerate(RAW):
        assert [line.replace("@@ ", "") for line in read(out / f"train.{language}")] == [pair[side] for pair in kept]
        assert len(read(out / f"test.{language}")) == SIZES["test"]


def test_training_pairs_are_shuffled_together_and_only_they(raw: Path) -> None:
    plain = run(raw)
    orders = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        out = run(raw, name, shuffle=seed)
        orders.append(list(zip(read(out / "train.en"), read(out / "train.fr"))))
        for part in ("valid", "test"):
            assert all(read(out / f"{part}.{one}") == read(plain / f"{part}.{one}") for one in RAW)
    before = list(zip(read(plain / "train.en"), read(plain / "train.fr")))
    assert orders[0] == orders[1] != orders[2]
    assert all(sorted(order) == sorted(before) != order for order in orders)
    assert {file.name for file in out.iterdir()} == {file.name for file in plain.iterdir()}


# Bad input


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bpe": -1}, "--bpe is -1"),
        ({"sentencepiece": -1}, "--sentencepiece is -1"),
        ({"bpe": 10, "sentencepiece": 10}, "give one of them"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Settings(**settings)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        (b"", "empty"),
        (b"caf\xe9\n" * 5, "line 1: .* not UTF-8"),
        (b"a\n", "en has 5, .*fr has 1"),
    ],
)
def test_bad_files_are_refused_before_anything_is_written(raw: Path, content: bytes | None, message: str) -> None:
    path = raw / "test.flickr.fr"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=rf"test\.flickr\..*{message}"):
        run(raw)
    assert not (raw.parent / "new").exists()


def test_the_command_line_gives_the_same_files(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, names = raw.parent / "by_command", [word for part, name in NAMES.items() for word in (f"--{part}", name)]
    runs = [
        ("--bpe 30 --tokenized --lowercase", {"bpe": 30, "tokenized": True, "lowercase": True}),
        (
            f"--sentencepiece {PIECES} --max-words 8 --shuffle 7",
            {"sentencepiece": PIECES, "max_words": 8, "shuffle": 7},
        ),
    ]
    for words, settings in runs:
        expected = run(raw, words, **settings)
        run_main(monkeypatch, raw, out, *names, *words.split(), "--workers", "2")
        for file in expected.iterdir():
            assert (out / file.name).read_bytes() == file.read_bytes()


# The next commands

SUBWORDS = {
    "words": ("", "--tokenizer moses"),
    "bpe": ("--bpe 40", "--tokenizer moses --bpe subword_nmt --bpe-codes {}/bpe.codes"),
    "sentencepiece": ("--sentencepiece 50", "--bpe sentencepiece --sentencepiece-model {}/sentencepiece.model"),
    "tokens in lower case": ("--tokenized --lowercase", None),
}


def write_tsv(path: Path, pairs: int = 300) -> Path:
    lines = [f"a black cat number {pair} sees it\tun chat noir numéro {pair} le voit" for pair in range(pairs)]
    write(path / "corpus.tsv", lines)
    return path / "corpus.tsv"


def commands_of(printed: str) -> dict[str, str]:
    """The printed commands by their programs."""
    _, commands = printed.split("The next commands, to binarize the text, to train and to translate:\n")
    lines = [line for line in commands.replace("\\\n", " ").splitlines() if line and line[0] != "#"]
    return {
        " ".join(line.split()[: 1 + line.startswith("rnnsearch")]): line for line in lines if line and line[0] != "#"
    }


def parse(command: str) -> Any:
    name, *words = shlex.split(command)
    if name == "fairseq-preprocess":
        return options.get_preprocessing_parser().parse_args(words)
    if name == "fairseq-interactive":
        return options.parse_args_and_arch(options.get_interactive_generation_parser(), words)
    return options.parse_args_and_arch(options.get_training_parser(), words)


@pytest.mark.parametrize("subwords", SUBWORDS)
def test_printed_commands_fit_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], subwords: str
) -> None:
    out = tmp_path / "my text"
    words, interactive = SUBWORDS[subwords]
    run_main(monkeypatch, write_tsv(tmp_path), out, "--max-words", "8", "--workers", "1", *words.split())
    commands = commands_of(capsys.readouterr().out)
    args = parse(commands["fairseq-preprocess"])
    for part in PARTS:
        prefix = getattr(args, f"{part}pref")
        assert prefix == str(out / part)
        assert all(Path(f"{prefix}.{language}").is_file() for language in (args.source_lang, args.target_lang))
    has_subwords = subwords in ("bpe", "sentencepiece")
    assert args.joined_dictionary == has_subwords
    assert (args.nwordssrc, args.nwordstgt) == ((-1, -1) if has_subwords else (30004, 30004))
    assert args.destdir == str(out / "bin")
    assert find_preparations(Path(args.destdir), LANGUAGES) is not None
    args = parse(commands["fairseq-train"])
    assert (args.data, args.save_dir) == (str(out / "bin"), str(out / "checkpoints"))
    assert args.max_update == int(args.total_num_update) == 2000
    best, hypotheses = f"{args.save_dir}/checkpoint_best.pt", str(out / "test.hyp.fr")
    translate = [
        "rnnsearch",
        "translate",
        str(out / "raw/test.en"),
        "--model",
        best,
        "--beam",
        "12",
        "--output",
        hypotheses,
    ]
    assert shlex.split(commands["rnnsearch translate"]) == translate
    assert shlex.split(commands["sacrebleu"]) == [
        "sacrebleu",
        str(out / "raw/test.fr"),
        "-i",
        hypotheses,
        "-l",
        "en-fr",
    ]
    assert Path(translate[2]).is_file()
    if interactive is None:
        assert "fairseq-interactive" not in commands
        return
    args = parse(commands["fairseq-interactive"])
    assert (args.data, args.path, args.source_lang, args.target_lang) == (str(out / "bin"), best, *LANGUAGES)
    assert " ".join(shlex.split(commands["fairseq-interactive"])).endswith(interactive.format(out))


@pytest.mark.slow
def test_printed_preprocessing_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tsv(tmp_path)
    run_main(monkeypatch, "corpus.tsv", "my text")
    preprocess = commands_of(capsys.readouterr().out)["fairseq-preprocess"]
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run(["bash", "-euo", "pipefail", "-c", preprocess], env=environment, check=True)
    dictionaries = [Dictionary.load(f"my text/bin/dict.{language}.txt") for language in LANGUAGES]
    assert dictionaries[0] != dictionaries[1]
    assert all(Path(f"my text/bin/{part}.en-fr.fr.idx").is_file() for part in PARTS)


def test_training_is_longer_on_more_text() -> None:
    def train(pairs: int) -> Any:
        test = (Path("test.en"), Path("test.fr"))
        commands = next_commands(Path("text"), LANGUAGES, pairs, Preparation(bpe="a b\n"), test).replace("\\\n", " ")
        return parse(next(line for line in commands.splitlines() if line.startswith("fairseq-train")))

    args = train(29_000)
    assert (args.arch, args.batch_size) == ("bahdanau_gru_small", BATCH)
    assert args.max_update == int(args.total_num_update) == EPOCHS * 363
    args = train(LARGE)
    assert (args.arch, args.task, args.max_epoch) == ("bahdanau_gru", "pooled_translation", 5)
