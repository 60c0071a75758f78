"""``rnnsearch prepare``: raw text to tokens and subwords, and the commands that it prints."""

import fcntl
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fairseq import options

from rnnsearch_fairseq.corpus import blocks
from rnnsearch_fairseq.corpus import prepare as module
from rnnsearch_fairseq.corpus.pairs import Pair
from rnnsearch_fairseq.corpus.plan import MANY_PAIRS, expectations, make_script, plan_training
from rnnsearch_fairseq.corpus.prepare import Settings, main
from rnnsearch_fairseq.corpus.split import PARTS
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.output import write_folder
from rnnsearch_fairseq.text.codec import TextCodec
from rnnsearch_fairseq.text.preparation import find_preparations, read_preparations
from tests.corpus.builders import LANGUAGES, make_pairs, number_pairs, write_files, write_tsv

PAIRS = [
    ("Hello, world!", "Bonjour, le monde !"),
    ("It's a well-known story.", "C'est une histoire bien connue."),
    ("Two dogs are playing in the snow.", "Deux chiens jouent dans la neige."),
    ("The dog's ball is red & blue.", "La balle du chien est rouge & bleue."),
    ('She said: "I don\'t know."', "Elle a dit : « Je ne sais pas. »"),
    ("", ""),
    ("The dogs played; the cats slept.", "Les chiens ont joué ; les chats ont dormi."),
    ("Is the garden well-kept?", "Le jardin est-il bien entretenu ?"),
    ("Dr. Smith isn't here.", "Le Dr Smith n'est pas là."),
    ("The naïve café owner smiled.", "Le propriétaire naïf du café sourit."),
    ("100% of dogs play.", "100 % des chiens jouent."),
    ("One | two [three].", "Un | deux [trois]."),
    ("Men are playing cards.", "Des hommes jouent aux cartes."),
    ("The snow is playing tricks.", "La neige joue des tours."),
    ("Good night!", "Aujourd'hui, bonne nuit !"),
]

NAMES = {"train": "train", "valid": "dev.2016", "test": "test.flickr"}
OPTIONS = [word for part, name in NAMES.items() for word in (f"--{part}", name)]
SIZES = {"train": 15, "valid": 3, "test": 5}
PIECES = 90
Capture = pytest.CaptureFixture[str]


def read(path: Path) -> list[str]:
    text = path.read_bytes().decode()
    assert text.endswith("\n")
    return text.split("\n")[:-1]


def read_pairs(folder: Path, part: str = "train") -> list[Pair]:
    return list(zip(*(read(folder / f"{part}.{language}") for language in LANGUAGES), strict=True))


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    folder.mkdir()
    for part, name in NAMES.items():
        write_files(folder, PAIRS[-SIZES[part] :], name)
    return folder


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that runs the command on these words."""

    def run_main(*words: str | Path, languages: Pair = LANGUAGES) -> None:
        command = ["prepare", "-s", languages[0], "-t", languages[1], *map(str, words)]
        monkeypatch.setattr(sys, "argv", command)
        main()

    return run_main


# Words and subwords


@pytest.mark.parametrize(
    ("subwords", "file"),
    [("--bpe 0", None), ("--bpe 40", "bpe.codes"), (f"--sentencepiece {PIECES}", "sentencepiece.model")],
)
@pytest.mark.parametrize("more", ["", "--lowercase"])
def test_text_that_is_given_to_translate_becomes_what_was_prepared(
    raw: Path, tmp_path: Path, run: Any, subwords: str, file: str | None, more: str
) -> None:
    out = tmp_path / "out"
    run(raw, out, *OPTIONS, *subwords.split(), *more.split())
    preparations = read_preparations(out)
    for part, size in SIZES.items():
        for language, lines in zip(LANGUAGES, zip(*PAIRS[-size:])):
            codec, words = TextCodec(preparations[language], language), read(out / f"{part}.{language}")
            assert [" ".join(codec.encode(line)) for line in lines] == words
            if "piece" in subwords and "lower" not in more:
                assert [codec.decode(line.split()) for line in words] == [*lines]
    files = {*(f"{part}.{language}" for part in NAMES for language in LANGUAGES), "preparation.json", "train.sh", "raw"}
    assert {path.name for path in out.iterdir()} == files | ({file} if file else set())
    assert preparations["en"].tokenizer == (None if "piece" in subwords else "moses")
    assert read_pairs(out / "raw", "test") == PAIRS[-5:]


def test_tokens_stay_and_subwords_are_learnt_from_both_languages(tmp_path: Path, run: Any) -> None:
    for part in PARTS:
        write_files(tmp_path, [(english, "zyzyzyzy zyzyzyzy") for english, _ in PAIRS], part)
    run(tmp_path, tmp_path / "out", "--tokenized", "--bpe", "40")
    codes = read(tmp_path / "out" / "bpe.codes")
    assert "z y" in codes and any("z" not in merge for merge in codes[1:])
    assert [line.replace("@@ ", "") for line in read(tmp_path / "out/train.en")] == [english for english, _ in PAIRS]


@pytest.mark.parametrize(
    ("settings", "many", "line", "kind"),
    [
        ({}, False, "Hello, world!", "sentencepiece"),
        ({"tokenized": True}, False, "Hello , world !", "bpe"),
        ({}, True, "Hello, world!", None),
        ({}, True, "彼は昨日、新しいiPhoneを買いました。", "sentencepiece"),
        ({}, True, "See :func:`open` and ``file``.", "sentencepiece"),
    ],
)
def test_subwords_are_the_default_below_a_million_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any, many: bool, line: str, kind: str | None
) -> None:
    if many:
        monkeypatch.setattr(module, "MANY_PAIRS", 20)
    parts = {part: [(line, line)] * 20 for part in PARTS}
    number, preparation = module.prepare(parts, LANGUAGES, tmp_path, Settings(**settings))
    assert preparation.subwords == kind and number == 20


# Which files are read


def test_a_folder_of_parts_is_read_whatever_else_is_in_it(tmp_path: Path, run: Any) -> None:
    folder, out = tmp_path / "raw", tmp_path / "out"
    (folder / "old" / "x").mkdir(parents=True)
    for part in PARTS:
        write_files(folder, number_pairs(30), part)
    write_tsv(folder / "old" / "x", number_pairs(100, 900), "terms.tsv")
    run(folder, out, "--bpe", "0")
    assert len(read_pairs(out)) == 30
    (folder / "test.fr").unlink()
    with pytest.raises(InputError, match=r"test\.fr"):
        run(folder, out, "--bpe", "0")


def test_text_is_the_same_from_one_process_and_from_several(
    tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (corpus,) = write_tsv(tmp_path, [*number_pairs(150), ("", "vide"), *make_pairs(150)])
    command = (corpus, "--bpe", "30", "--shuffle", "1")
    run(*command, tmp_path / "one")
    monkeypatch.setattr(blocks, "BLOCK", 40)
    monkeypatch.setattr(blocks, "MIN_BLOCKS", 3)
    run(*command, tmp_path / "several")
    assert contents(tmp_path / "one") == contents(tmp_path / "several")


def test_other_languages_in_a_corpus_are_noticed(tmp_path: Path, run: Any, capsys: Capture) -> None:
    english = [f"A small dog plays with the old man in the garden at {n} o'clock." for n in range(100)]
    french = [f"Un petit chien joue avec le vieil homme dans le jardin à {n} heures." for n in range(100)]
    german = [f"Ein kleiner Hund spielt um {n} Uhr mit dem alten Mann im Garten." for n in range(100)]
    for name, target in (("good", french), ("mixed", [*french[:90], *german[90:]])):
        run(*write_tsv(tmp_path, [*zip(english, target)], f"{name}.tsv"), tmp_path / name, "--bpe", "0")
        printed = capsys.readouterr().out
        assert ("in the fr text" in printed and " like de)" in printed) == (name == "mixed")
        assert "in the en text" not in printed
    run(*write_tsv(tmp_path, [*zip(french, english)], "swapped.tsv"), tmp_path / "swapped", "--bpe", "0")
    printed = capsys.readouterr().out
    assert " like en)" in printed and " like fr)" in printed


def test_a_language_is_named_by_its_code(tmp_path: Path, run: Any) -> None:
    with pytest.raises(InputError, match=r"english: .* as en$"):
        run(tmp_path, tmp_path / "out", languages=("english", "fr"))


# Length limit and shuffle


@pytest.mark.parametrize("bpe", ["0", "40"])
def test_long_training_pairs_are_left_out_by_their_words(raw: Path, tmp_path: Path, run: Any, bpe: str) -> None:
    run(raw, tmp_path / "words", *OPTIONS, "--bpe", "0")
    kept = [pair for pair in read_pairs(tmp_path / "words") if all(1 <= len(line.split()) <= 7 for line in pair)]
    assert 3 < len(kept) < 12
    run(raw, tmp_path / "short", *OPTIONS, "--bpe", bpe, "--max-words", "7")
    joined = [tuple(line.replace("@@ ", "") for line in pair) for pair in read_pairs(tmp_path / "short")]
    assert joined == kept
    assert len(read_pairs(tmp_path / "short", "test")) == SIZES["test"]


def test_training_pairs_are_shuffled_together_and_only_they(raw: Path, tmp_path: Path, run: Any) -> None:
    run(raw, tmp_path / "plain", *OPTIONS, "--bpe", "0")
    plain = read_pairs(tmp_path / "plain")
    for path in raw.iterdir():
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))  # line ends of Windows change nothing
    run(raw, tmp_path / "shuffled", *OPTIONS, "--bpe", "0", "--shuffle", "1")
    assert sorted(plain) == sorted(read_pairs(tmp_path / "shuffled")) != read_pairs(tmp_path / "shuffled")
    assert read_pairs(tmp_path / "plain", "test") == read_pairs(tmp_path / "shuffled", "test")


# Bad input


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("corpus.tsv --split=-5,5", None),
        ("corpus.tsv --split 5", None),
        ("corpus.tsv --bpe -3", None),
        ("corpus.tsv -t en", "same language"),
        ("pipe.tsv", "not a regular file"),
        ("empty", "empty: holds no"),
        ("parts --split 5,5", "leave out --split"),
    ],
)
def test_impossible_commands_are_refused(
    tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch, words: str, message: str | None
) -> None:
    write_tsv(tmp_path, number_pairs(50))
    os.mkfifo(tmp_path / "pipe.tsv")
    for folder in ("empty", "parts"):
        (tmp_path / folder).mkdir()
    write_files(tmp_path / "parts", number_pairs(9), "train")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError if message else SystemExit, match=message):
        run(*words.split(), "out")
    assert not (tmp_path / "out").exists()


def test_sides_that_do_not_belong_together_are_noticed(tmp_path: Path, run: Any, capsys: Capture) -> None:
    pairs = number_pairs(400)
    sources, targets = zip(*pairs)
    shifted = [*zip(sources, (*targets[:200], "une ligne de trop", *targets[200:]))]
    for name, corpus in (("good", pairs), ("shifted", shifted)):
        run(*write_tsv(tmp_path, corpus, f"{name}.tsv"), tmp_path / name, "--bpe", "0")
        assert ("do not belong together in 3 of 7 places" in capsys.readouterr().out) == (name == "shifted")


# All or nothing


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_failed_command_leaves_the_folder_as_it_was(tmp_path: Path, run: Any) -> None:
    (corpus,), out = write_tsv(tmp_path, number_pairs(300)), tmp_path / "out"
    run(corpus, out, "--bpe", "30")
    before = contents(out)
    too_few = (corpus, out, "--split", "9,9", "--sentencepiece", "10")
    no_pair = (corpus, out, "--max-words", "2")
    itself = (*(out / "raw" / f"train.{language}" for language in LANGUAGES), out)
    for words, named in ((too_few, "--sentencepiece 10"), (no_pair, "--max-words"), (itself, r"train\.en")):
        with pytest.raises(InputError, match=named):
            run(*words)
        assert contents(out) == before
    with pytest.raises(InputError, match=r"corpus\.tsv"):
        run(out / "raw", corpus)


def test_what_a_killed_command_left_is_removed_and_what_another_writes_is_not(tmp_path: Path, run: Any) -> None:
    (corpus,), out = write_tsv(tmp_path, number_pairs(300)), tmp_path / "out"
    (out / ".new-killed" / "raw").mkdir(parents=True)
    with write_folder(out) as other:
        run(out.parent / corpus.name, "--bpe", "0", out)  # an option may also stand before OUT
        assert [path for path in out.iterdir() if path.name.startswith(".new-")] == [other]


def test_text_is_prepared_anew_unless_a_model_is_there(tmp_path: Path, run: Any) -> None:
    (corpus,), out = write_tsv(tmp_path, number_pairs(300)), tmp_path / "out"
    run(corpus, out, "--bpe", "30")
    test = read_pairs(out / "raw", "test")
    run(out / "raw", out, "--sentencepiece", "60")
    assert read_pairs(out / "raw", "test") == test and read_preparations(out)["en"].subwords == "sentencepiece"
    (out / "checkpoints").mkdir()
    with pytest.raises(InputError, match="checkpoints"):
        run(corpus, out)


# What follows


def read_commands(script: str) -> list[str]:
    """The commands of train.sh that binarise, train, translate and score."""
    lines = (line.strip() for line in script.replace("\\\n", " ").splitlines())
    return [line for line in lines if line.startswith(("fairseq-", "rnnsearch ", "sacre"))]


def parse(command: str) -> Any:
    """The options of a command of fairseq."""
    command = command.replace('--user-dir "$user_dir"', "")
    name, *words = shlex.split(re.split(" > | 2>&1", command)[0])
    if name == "fairseq-preprocess":
        return options.get_preprocessing_parser().parse_args(words)
    return options.parse_args_and_arch(options.get_training_parser(), words)


@pytest.mark.parametrize("words", [["--bpe", "0"], []])
def test_the_commands_fit_the_files(
    tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    out = tmp_path / "my text"
    run(*write_tsv(tmp_path, number_pairs(300)), out, "--max-words", "8", *words)
    monkeypatch.chdir(out)
    preprocess, training, *following = read_commands((out / "train.sh").read_text())
    args = parse(preprocess)
    for part in PARTS:
        prefix = getattr(args, f"{part}pref")
        assert all(Path(f"{prefix}.{language}").is_file() for language in (args.source_lang, args.target_lang))
    assert args.joined_dictionary == (not words)
    assert (args.nwordssrc, args.nwordstgt) == ((30004, 30004) if words else (-1, -1))
    assert find_preparations(Path(args.destdir), LANGUAGES) is not None
    assert args.destdir == "bin.part"
    args = parse(training)
    assert args.data == "bin"
    assert args.max_update == int(args.total_num_update) == 2000
    assert ("--share-all-embeddings" in training) == (not words)
    best = f"{args.save_dir}/checkpoint_best.pt"
    assert following == [
        "rnnsearch progress train.log 2000",
        f"rnnsearch export {best} --output model.part --half --beam 12 > /dev/null",
        'sacrebleu raw/test.fr -i "$2" -m bleu chrf -f text -l en-fr',
    ]
    assert str(tmp_path) not in (out / "train.sh").read_text()


@pytest.mark.slow
@pytest.mark.train
def test_the_script_trains_translates_and_scores_in_a_folder_that_was_moved(tmp_path: Path, run: Any) -> None:
    run(*write_tsv(tmp_path, number_pairs(300)), tmp_path / "text")
    folder = shutil.move(tmp_path / "text", tmp_path / "my text")
    script = folder / "train.sh"
    changes = {"update 2000": "update 3", "gru_small": "gru_small --hidden-size 8"}
    text = script.read_text()
    for old, new in changes.items():
        text = text.replace(old, new)
    script.write_text(text)
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}

    def start() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", script], cwd="/", env=environment, check=False, capture_output=True, encoding="utf-8"
        )

    (folder / "bin.part").mkdir()  # of a start that was killed
    first = start()
    assert first.returncode == 0, first.stderr
    assert "BLEU|" in first.stdout and "chrF2|" in first.stdout and "Warning" not in first.stderr
    assert f"{folder}/model" in first.stdout and "update 3 of 2,000" in first.stdout
    assert len(read(folder / "test.hyp.fr")) == 15
    files = [path for path in folder.rglob("*") if path.is_file()]
    times = [path.stat().st_mtime_ns for path in files]
    again = start()
    assert again.returncode == 0 and first.stdout.endswith(again.stdout)
    assert times == [path.stat().st_mtime_ns for path in files]
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = start()
        assert refused.returncode == 1 and str(folder) in refused.stderr


def test_training_is_longer_on_more_text() -> None:
    def train(pairs: int) -> Any:
        return parse(read_commands(make_script(LANGUAGES, plan_training(pairs), joined=True))[1])

    few, some = train(3600), train(29_000)
    assert (few.batch_size, few.max_update, few.dropout) == (40, 2000, 0.4)
    assert (some.arch, some.batch_size, some.max_update, some.dropout) == ("bahdanau_gru_small", 80, 18 * 363, 0.3)
    args = train(MANY_PAIRS)
    assert (args.arch, args.task, args.pool_batches, args.max_words) == ("bahdanau_gru", "rnnsearch", 20, 50)
    assert [plan_training(pairs).pieces for pairs in (100, 3600, 29_000, MANY_PAIRS)] == [1000, 2000, 5600, 32_000]


def test_the_time_of_a_training_depends_on_its_words() -> None:
    pair = ("one two three", " ".join(map(str, range(3000))))
    plan = plan_training(3600)
    short = expectations(plan, [("a", "b")])
    assert short.startswith("What to expect of 3,600 pairs: bahdanau_gru_small;")
    assert "2,000 updates of 40 pairs, about 1 to 2 minutes" in short and "hours" in expectations(plan, [pair])


@pytest.mark.parametrize("words", [["--bpe", "0"], []])
def test_a_warning_says_what_helps(tmp_path: Path, run: Any, capsys: Capture, words: list[str]) -> None:
    pairs = [(f"He took the {number} of it.", f"彼は昨日、新しいiPhoneを買いました。{number}") for number in range(100)]
    run(*write_tsv(tmp_path, pairs), tmp_path / "out", *words, languages=("en", "ja"))
    printed = capsys.readouterr().out
    assert ("warning: the text needs sentencepieces" in printed) == bool(words)
    assert "-f text --tokenize char" in (tmp_path / "out" / "train.sh").read_text()
