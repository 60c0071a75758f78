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

from rnnsearch_fairseq.corpus import prepare as module
from rnnsearch_fairseq.corpus.plan import LARGE, expectations, next_commands, plan_training
from rnnsearch_fairseq.corpus.prepare import LOCK, Settings, main, prepare
from rnnsearch_fairseq.corpus.split import PARTS
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.codec import TextCodec
from rnnsearch_fairseq.text.preparation import Preparation, find_preparations, read_preparations
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
    monkeypatch.setattr(module, "expectations", lambda plan, source, target: f"{plan.updates} updates")
    monkeypatch.setattr(sys, "argv", ["prepare", "--workers", "1", *map(str, words), "-s", "en", "-t", "fr"])
    main()


# Words and subwords


def test_words_are_the_tokens_of_moses(raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(raw, bpe=0)
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
    [({"bpe": 0}, None, 0), ({"bpe": 40}, "bpe.codes", 40), ({"sentencepiece": PIECES}, "sentencepiece.model", PIECES)],
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
            assert [" ".join(codec.encode(line)) for line in lines[-size:]] == read(out / f"{part}.{language}")
            if "sentencepiece" in settings and not more.get("lowercase"):
                assert [codec.decode(line.split()) for line in read(out / f"{part}.{language}")] == lines[-size:]
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


@pytest.mark.parametrize(
    ("settings", "pairs", "line", "kind"),
    [
        ({}, 20, "Hello, world!", "sentencepiece"),
        ({"tokenized": True}, 20, "Hello , world !", "bpe"),
        ({}, LARGE, "Hello, world!", None),
        ({}, LARGE, "彼は昨日、新しいiPhoneを買いました。", "sentencepiece"),
        ({}, LARGE, "See :func:`open` and ``file``.", "sentencepiece"),
    ],
)
def test_subwords_are_the_default_below_a_million_pairs(
    raw: Path, monkeypatch: pytest.MonkeyPatch, settings: Any, pairs: int, line: str, kind: str | None
) -> None:
    monkeypatch.setattr(module, "check_parallel", lambda paths: pairs)
    for language in LANGUAGES:
        write(raw / f"train.{language}", [line] * 20)
    plan, preparation = prepare(raw, NAMES, LANGUAGES, raw.parent / "out", Settings(**settings))
    assert preparation.subwords == kind and plan.pairs == pairs


def test_windows_line_ends_change_nothing(raw: Path) -> None:
    expected = run(raw, bpe=40)
    for file in list(raw.iterdir()):
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    windows = run(raw, "windows", bpe=40)
    assert all(read(windows / f"train.{language}") == read(expected / f"train.{language}") for language in RAW)


# Length limit and shuffle


@pytest.mark.parametrize("bpe", [0, 40])
def test_long_training_pairs_are_left_out_by_their_words(
    raw: Path, bpe: int, capsys: pytest.CaptureFixture[str]
) -> None:
    words = run(raw, bpe=0)
    pairs = zip(*(read(words / f"train.{language}") for language in RAW))
    kept = [pair for pair in pairs if all(1 <= len(line.split()) <= 7 for line in pair)]
    assert 3 < len(kept) < 17
    out = run(raw, "short", bpe=bpe, max_words=7)
    assert f"kept {len(kept)} of 20 training pairs" in capsys.readouterr().out
    for side, language in enumerate(RAW):
        assert [line.replace("@@ ", "") for line in read(out / f"train.{language}")] == [pair[side] for pair in kept]
        assert len(read(out / f"test.{language}")) == SIZES["test"]


def test_training_pairs_are_shuffled_together_and_only_they(raw: Path) -> None:
    plain = run(raw, bpe=0)
    orders = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        out = run(raw, name, bpe=0, shuffle=seed)
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
        ({"bpe": -1}, "give at least 0"),
        ({"sentencepiece": -1}, "give at least 0"),
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
    assert {path.name for path in out.iterdir()} == {path.name for path in expected.iterdir()} | {LOCK, "train.sh"}


# All or nothing


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_failed_command_leaves_the_folder_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, out = write_tsv(tmp_path), tmp_path / "out"
    cause = r"--sentencepiece 10: too few for the training text: its characters need \d\d; give at least that"
    with pytest.raises(InputError, match=cause):
        run_main(monkeypatch, corpus, out, "--sentencepiece", "10")
    assert [path.name for path in out.iterdir()] == [LOCK]
    run_main(monkeypatch, corpus, out, "--bpe", "30")
    before = contents(out)
    with pytest.raises(InputError, match=cause):
        run_main(monkeypatch, corpus, out, "--split", "9,9", "--sentencepiece", "10")
    assert contents(out) == before
    with pytest.raises(InputError, match=r"train\.en: it would replace an input; give another name"):
        run_main(monkeypatch, *(out / "raw" / f"train.{language}" for language in LANGUAGES), out)
    assert contents(out) == before
    (out / "checkpoints").mkdir()
    run_main(monkeypatch, corpus, out, "--sentencepiece", "60")
    assert (out / "sentencepiece.model").exists() and not (out / "bpe.codes").exists()
    with pytest.raises(InputError, match=r"corpus\.tsv: cannot be written .*; give another folder"):
        run_main(monkeypatch, out / "raw", corpus)


def test_one_command_at_a_time_writes_to_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    out.mkdir()
    holder = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, 2); print(1, flush=True); input()"
    command = [sys.executable, "-c", holder, str(out / LOCK)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(InputError, match="another rnnsearch prepare writes there; wait for its end"):
            run_main(monkeypatch, write_tsv(tmp_path), out)
        other.communicate(b"\n")
    (out / ".prepare/raw").mkdir(parents=True)
    (out / ".prepare/raw/left").touch()  # by a command that was killed
    run_main(monkeypatch, write_tsv(tmp_path), out)
    assert (out / "preparation.json").exists() and not (out / ".prepare").exists() and not (out / "left").exists()


# What follows

SUBWORDS = {"words": "--bpe 0", "bpe": "--bpe 40", "sentencepieces": "", "lower case": "--tokenized --lowercase"}


def write_tsv(path: Path, pairs: int = 300) -> Path:
    lines = [f"a black cat number {pair} sees it\tun chat noir numéro {pair} le voit" for pair in range(pairs)]
    write(path / "corpus.tsv", lines)
    return path / "corpus.tsv"


def parse(command: str) -> Any:
    name, *words = shlex.split(command)
    if name == "fairseq-preprocess":
        return options.get_preprocessing_parser().parse_args(words)
    return options.parse_args_and_arch(options.get_training_parser(), words)


@pytest.mark.parametrize("subwords", SUBWORDS)
def test_printed_commands_fit_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], subwords: str
) -> None:
    out = tmp_path / "my text"
    run_main(monkeypatch, write_tsv(tmp_path), out, "--max-words", "8", *SUBWORDS[subwords].split())
    printed = capsys.readouterr().out
    script = (out / "train.sh").read_text().split(f"cd {shlex.quote(str(Path.cwd()))}\n")[1]
    assert script in printed
    commands = [
        line for line in printed.replace("\\\n", " ").splitlines() if line.startswith(("fairseq-", "rnn", "sacre"))
    ]
    preprocess, training, *rest = commands
    args = parse(preprocess)
    for part in PARTS:
        prefix = getattr(args, f"{part}pref")
        assert prefix == str(out / part)
        assert all(Path(f"{prefix}.{language}").is_file() for language in (args.source_lang, args.target_lang))
    assert args.joined_dictionary == (subwords != "words")
    assert (args.nwordssrc, args.nwordstgt) == ((-1, -1) if args.joined_dictionary else (30004, 30004))
    assert args.destdir == str(out / "bin")
    assert find_preparations(Path(args.destdir), LANGUAGES) is not None
    args = parse(training)
    assert (args.data, args.save_dir) == (str(out / "bin"), str(out / "checkpoints"))
    assert args.log_file == str(out / "train.log")
    assert args.max_update == int(args.total_num_update) == 2000
    assert ("--share-all-embeddings" in training) == (subwords != "words")
    best, hypotheses, beam = f"{args.save_dir}/checkpoint_best.pt", str(out / "test.hyp.fr"), ["--beam", "12"]
    assert [shlex.split(command) for command in rest] == [
        ["rnnsearch", "translate", f"{out}/raw/test.en", "--model", best, *beam, "--output", hypotheses],
        ["sacrebleu", f"{out}/raw/test.fr", "-i", hypotheses, *shlex.split("-m bleu chrf -f text -l en-fr")],
        ["rnnsearch", "translate", "--model", best, *beam],
        ["rnnsearch", "serve", "--model", best, *beam],
    ]
    assert "2000 updates" in printed


@pytest.mark.slow
@pytest.mark.train
def test_one_line_trains_translates_and_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tsv(tmp_path)
    run_main(monkeypatch, "corpus.tsv", "my text")
    script = tmp_path / "my text" / "train.sh"
    script.write_text(
        script.read_text().replace("update 2000", "update 3").replace("gru_small", "gru_small --hidden-size 8")
    )
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(["bash", script], cwd="/", env=environment, check=True, capture_output=True, encoding="utf-8")
    assert "BLEU|" in done.stdout and "chrF2|" in done.stdout
    assert len(read(tmp_path / "my text" / "test.hyp.fr")) == 15


def test_training_is_longer_on_more_text() -> None:
    def train(pairs: int) -> Any:
        test = (Path("test.en"), Path("test.fr"))
        commands, _ = next_commands(Path("text"), LANGUAGES, plan_training(pairs), Preparation(bpe="a b\n"), test)
        return parse(commands[1].replace("\\\n", " "))

    few, some = train(3600), train(29_000)
    assert (few.batch_size, few.max_update, few.dropout) == (40, 2000, 0.4)
    assert (some.arch, some.batch_size, some.max_update, some.dropout) == ("bahdanau_gru_small", 80, 18 * 363, 0.3)
    args = train(LARGE)
    assert (args.arch, args.task, args.max_epoch) == ("bahdanau_gru", "pooled_translation", 5)
    assert [plan_training(pairs).pieces for pairs in (100, 3600, 29_000, LARGE)] == [1000, 2000, 5600, 32_000]


def test_updates_are_timed_to_say_what_to_expect() -> None:
    said = expectations(plan_training(3600), ["a b c", "d e"], ["a b c"] * 2)
    assert re.match(r"What to expect of 3,600 pairs: bahdanau_gru_small, 2\.\d million parameters \(a larger", said)
    assert re.search(r"2,000 updates of 40 pairs, about \d+ minutes of .* \(0\.\d+ seconds an update", said)


def test_no_bar_is_drawn_where_nobody_watches(raw: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(raw, bpe=40)
    assert capfd.readouterr().err == ""
