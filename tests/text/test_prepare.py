"""Raw text to tokens and subwords, compared with what fairseq's encoders give."""

import itertools
import random
import re
import sys
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from fairseq.data import encoders
from fairseq.data.data_utils import post_process
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE, SubwordNMTBPEConfig

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text import prepare as module
from rnnsearch_fairseq.text.codec import TextCodec
from rnnsearch_fairseq.text.preparation import read_preparations
from rnnsearch_fairseq.text.prepare import main, prepare, shuffle

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
SPLITS = {"train": "train", "valid": "dev.2016", "test": "test.flickr"}
SIZES = {"train": 20, "valid": 3, "test": 5}


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
    for split, name in SPLITS.items():
        for language, lines in RAW.items():
            write(folder / f"{name}.{language}", lines[-SIZES[split] :])
    return folder


def run(raw: Path, merges: int) -> Path:
    out = raw.parent / "new" / f"out{merges}"
    prepare(raw, SPLITS, ("en", "fr"), out, merges)
    return out


def test_words_are_the_tokens_of_moses(raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(raw, 0)
    english, french = read(out / "train.en"), read(out / "train.fr")
    assert english[:4] == [
        "Hello , world !",
        "It &apos;s a well @-@ known story .",
        "Two dogs are playing in the snow .",
        "The dog &apos;s ball is red &amp; blue .",
    ]
    assert english[12] == "Dr. Smith isn &apos;t here ."
    assert french[0] == "Bonjour , le monde !"
    assert french[1] == "C&apos; est une histoire bien connue ."
    assert french[8] == "L&apos; homme bien connu dort ."
    assert english[7] == french[7] == "", "an empty line stays a line"
    assert not (out / "bpe.codes").exists()
    assert "tokenised 20 pairs of train" in capsys.readouterr().out


@pytest.mark.parametrize("merges", [0, 40])
def test_every_split_keeps_its_lines(raw: Path, merges: int) -> None:
    out = run(raw, merges)
    for split, size in SIZES.items():
        for language in RAW:
            assert len(read(out / f"{split}.{language}")) == size
    assert {file.name for file in out.iterdir()} == {
        *(f"{split}.{language}" for split in SPLITS for language in RAW),
        *(["bpe.codes"] if merges else []),
        "preparation.json",
    }


def test_subwords_join_back_to_the_tokens(raw: Path) -> None:
    words, subwords = run(raw, 0), run(raw, 40)
    for split in SPLITS:
        for language in RAW:
            pieces = read(subwords / f"{split}.{language}")
            assert [line.replace("@@ ", "") for line in pieces] == read(words / f"{split}.{language}")
            assert pieces != read(words / f"{split}.{language}"), "40 merges cannot make all words whole"


def test_merges_are_learnt_from_both_languages(raw: Path) -> None:
    codes = read(run(raw, 40) / "bpe.codes")
    assert codes[0].startswith("#version")
    assert len(codes) == 1 + 40
    other = raw.parent / "other"
    other.mkdir()
    for split, name in SPLITS.items():
        write(other / f"{name}.en", ENGLISH[-SIZES[split] :])
        write(other / f"{name}.fr", ["zyzyzyzy zyzyzyzy"] * SIZES[split])
    prepare(other, SPLITS, ("en", "fr"), other / "out", 40)
    changed = read(other / "out" / "bpe.codes")
    assert "z y" in changed, "only the French side has it"
    assert any("z" not in merge for merge in changed[1:]), "the French side has nothing else"


@pytest.mark.parametrize("language", ["en", "fr"])
def test_lines_are_what_fairseqs_encoders_give(raw: Path, language: str) -> None:
    out = run(raw, 40)
    tokenizer = MosesTokenizer(MosesTokenizerConfig(source_lang=language))
    bpe = SubwordNMTBPE(SubwordNMTBPEConfig(bpe_codes=str(out / "bpe.codes")))
    expected = [bpe.encode(tokenizer.encode(line)) for line in RAW[language]]
    assert read(out / f"train.{language}") == expected


def test_source_is_what_fairseq_interactive_makes_of_a_typed_line(raw: Path) -> None:
    out = run(raw, 40)
    options = {"tokenizer": "moses", "bpe": "subword_nmt", "bpe_codes": str(out / "bpe.codes")}
    args = Namespace(source_lang="en", target_lang="fr", **options)
    tokenizer, bpe = encoders.build_tokenizer(args), encoders.build_bpe(args)
    assert read(out / "train.en") == [bpe.encode(tokenizer.encode(line)) for line in ENGLISH]


def test_windows_line_ends_change_nothing(raw: Path) -> None:
    expected = {language: read(run(raw, 40) / f"train.{language}") for language in RAW}
    for file in list(raw.iterdir()):
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    prepare(raw, SPLITS, ("en", "fr"), raw.parent / "windows", 40)
    assert {language: read(raw.parent / "windows" / f"train.{language}") for language in RAW} == expected


def test_sides_of_different_length_are_refused_before_anything_is_written(raw: Path) -> None:
    write(raw / "test.flickr.fr", FRENCH[:4])
    with pytest.raises(InputError, match=r"test\.flickr\.en has 5, .*test\.flickr\.fr has 4"):
        run(raw, 0)
    assert not (raw.parent / "new").exists()


def test_missing_file_is_named(raw: Path) -> None:
    (raw / "dev.2016.fr").unlink()
    with pytest.raises(InputError, match=r"dev\.2016\.fr: cannot be read"):
        run(raw, 0)


@pytest.mark.parametrize(("content", "message"), [(b"", "empty"), (b"caf\xe9\n" * 5, "line 1: .* not UTF-8")])
def test_empty_and_undecodable_files_are_refused(raw: Path, content: bytes, message: str) -> None:
    (raw / "test.flickr.fr").write_bytes(content)
    with pytest.raises(InputError, match=rf"test\.flickr\.fr.*{message}"):
        run(raw, 0)


def test_negative_merges_are_refused(raw: Path) -> None:
    with pytest.raises(InputError, match="--bpe is -1"):
        run(raw, -1)
    assert not (raw.parent / "new").exists()


# Sentencepieces

PIECES = 90


def run_pieces(raw: Path, **more: int) -> Path:
    out = raw.parent / "pieces"
    prepare(raw, SPLITS, ("en", "fr"), out, pieces=PIECES, **more)
    return out


def test_sentencepieces_join_back_to_the_text(raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run_pieces(raw)
    for split, size in SIZES.items():
        for language, lines in RAW.items():
            pieces = read(out / f"{split}.{language}")
            assert [post_process(line, "sentencepiece") for line in pieces] == lines[-size:]
            assert len({piece for line in pieces for piece in line.split()}) > 20
    assert {file.name for file in out.iterdir()} == {
        *(f"{split}.{language}" for split in SPLITS for language in RAW),
        "sentencepiece.model",
        "preparation.json",
    }
    assert "90 sentencepieces learnt from both languages" in capsys.readouterr().out


def test_sentencepieces_are_what_fairseq_interactive_makes_of_a_typed_line(raw: Path) -> None:
    out = run_pieces(raw)
    bpe = encoders.build_bpe(Namespace(bpe="sentencepiece", sentencepiece_model=str(out / "sentencepiece.model")))
    assert bpe.sp.get_piece_size() == PIECES
    for language in RAW:
        assert read(out / f"train.{language}") == [bpe.encode(line) for line in RAW[language]]
        assert [bpe.decode(line) for line in read(out / f"train.{language}")] == RAW[language]


def test_a_small_text_gives_fewer_sentencepieces(raw: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepare(raw, SPLITS, ("en", "fr"), raw.parent / "pieces", pieces=5000)
    (learnt,) = re.findall(r"split text into (\d+) sentencepieces learnt", capsys.readouterr().out)
    assert PIECES < int(learnt) < 5000


def test_numbers_of_sentencepieces_are_checked(raw: Path) -> None:
    with pytest.raises(InputError, match=r"--sentencepiece 10: the training text does not allow it .*10 vs \d+"):
        prepare(raw, SPLITS, ("en", "fr"), raw.parent / "pieces", pieces=10)
    with pytest.raises(InputError, match="--sentencepiece is -1"):
        prepare(raw, SPLITS, ("en", "fr"), raw.parent / "new", pieces=-1)
    with pytest.raises(InputError, match="give one of them"):
        prepare(raw, SPLITS, ("en", "fr"), raw.parent / "new", merges=10, pieces=10)
    assert not (raw.parent / "new").exists()


def test_a_vocabulary_of_an_earlier_run_is_gone(raw: Path) -> None:
    out = run_pieces(raw)
    prepare(raw, SPLITS, ("en", "fr"), out, merges=30)
    assert not (out / "sentencepiece.model").exists()
    prepare(raw, SPLITS, ("en", "fr"), out)
    assert not (out / "bpe.codes").exists()
    with pytest.raises(InputError):
        prepare(raw, SPLITS, ("en", "fr"), out, pieces=10)
    assert not (out / "preparation.json").exists()


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("subwords", [{}, {"merges": 40}, {"pieces": 80}])
def test_text_typed_by_the_record_becomes_what_was_prepared(
    raw: Path, subwords: dict[str, int], lowercase: bool
) -> None:
    out = raw.parent / "recorded"
    prepare(raw, SPLITS, ("en", "fr"), out, **subwords, lowercase=lowercase)
    for language, one in read_preparations(out).items():
        assert one.lowercase == lowercase
        encoder = TextCodec(one, language)
        prepared = read(out / f"train.{language}")
        assert [encoder.encode(line) for line in RAW[language]] == prepared
        assert not lowercase or prepared == [line.lower() for line in prepared]


# Random segmentations, and text that is tokenised already


@pytest.mark.parametrize("subwords", [{"merges": 40}, {"pieces": PIECES}])
def test_random_segmentations_differ_and_join_back(raw: Path, subwords: dict[str, int]) -> None:
    plain, out = raw.parent / "plain", raw.parent / "sampled"
    prepare(raw, SPLITS, ("en", "fr"), plain, **subwords)
    prepare(raw, SPLITS, ("en", "fr"), out, **subwords, segmentations=5, randomness=0.2)
    symbol = "subword_nmt" if "merges" in subwords else "sentencepiece"
    for language in RAW:
        for split in SPLITS:
            assert read(out / f"{split}.{language}") == read(plain / f"{split}.{language}")
        whole = read(out / f"train.{language}")
        texts = [read(out / f"train.{number}.{language}") for number in range(5)]
        assert len({tuple(text) for text in [whole, *texts]}) == 6
        for text in texts:
            assert [post_process(line, symbol) for line in text] == [post_process(line, symbol) for line in whole]
            assert sum(len(line.split()) for line in text) > sum(len(line.split()) for line in whole)
    prepare(raw, SPLITS, ("en", "fr"), out, **subwords, segmentations=2)
    assert len([*out.glob("train.*.*")]) == 4, "those of an earlier run are gone"


def test_merges_are_skipped_as_often_as_is_asked(raw: Path) -> None:
    lengths = []
    for rate in (0.01, 0.1, 0.5, 0.99):
        prepare(raw, SPLITS, ("en", "fr"), raw.parent / "out", merges=40, segmentations=1, randomness=rate)
        lengths.append(sum(len(line.split()) for line in read(raw.parent / "out" / "train.0.en")))
    assert lengths == sorted(set(lengths))


def test_files_of_another_name_are_kept_and_inputs_are_not_removed(raw: Path) -> None:
    out = raw.parent / "out"
    out.mkdir()
    for name in ("train.5.en", "train.1.txt", "train.old.en"):
        (out / name).write_text("x\n")
    prepare(raw, SPLITS, ("en", "fr"), out, merges=40)
    assert sorted(path.name for path in out.glob("train.*.*")) == ["train.1.txt", "train.old.en"]
    for language in ("en", "fr"):
        (raw / f"train.2016.{language}").write_bytes((raw / f"{SPLITS['train']}.{language}").read_bytes())
    with pytest.raises(InputError, match=r"train\.2016\.en: it would replace an input"):
        prepare(raw, {**SPLITS, "train": "train.2016"}, ("en", "fr"), raw, merges=40)
    assert (raw / "train.2016.en").exists()


def test_equal_runs_give_equal_segmentations(raw: Path) -> None:
    texts = []
    for _ in range(2):
        prepare(raw, SPLITS, ("en", "fr"), raw.parent / "out", merges=40, segmentations=2)
        texts.append([read(raw.parent / "out" / f"train.{number}.fr") for number in range(2)])
    assert texts[0] == texts[1]


def test_tokenised_text_is_split_at_blanks(raw: Path) -> None:
    out = raw.parent / "tokens"
    prepare(raw, SPLITS, ("en", "fr"), out, tokenized=True)
    assert read(out / "train.en") == ENGLISH
    prepare(raw, SPLITS, ("en", "fr"), out, merges=40, tokenized=True, lowercase=True)
    assert [line.replace("@@ ", "") for line in read(out / "train.fr")] == [line.lower() for line in FRENCH]
    one = read_preparations(out)["fr"]
    assert one.tokenizer is None
    encoder = TextCodec(one, "fr")
    assert [encoder.encode(line) for line in FRENCH] == read(out / "train.fr")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"segmentations": 2}, "--segmentations needs subwords"),
        ({"merges": 9, "segmentations": -1}, "--segmentations is -1"),
        ({"merges": 9, "randomness": 1.0}, "--bpe-dropout is 1.0"),
        ({"pieces": 9, "randomness": 0.0}, "--sentencepiece-alpha is 0.0"),
        ({"pieces": 9, "tokenized": True}, "--sentencepiece splits text"),
    ],
)
def test_impossible_segmentations_are_refused(raw: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        prepare(raw, SPLITS, ("en", "fr"), raw.parent / "new", **options)
    assert not (raw.parent / "new").exists()


# Length limit and shuffle


@pytest.mark.parametrize("merges", [0, 40])
def test_long_training_pairs_are_dropped_by_their_words(
    raw: Path, merges: int, capsys: pytest.CaptureFixture[str]
) -> None:
    words = run(raw, 0)
    kept = [
        pair
        for pair in zip(*(read(words / f"train.{language}") for language in RAW))
        if all(len(line.split()) <= 7 for line in pair)
    ]
    assert any(len(french.split()) == 7 for _, french in kept)
    assert any(len(english.split()) <= 7 and (english, french) not in kept for english, french in zip(ENGLISH, FRENCH))
    assert 3 < len(kept) < 17
    out = raw.parent / "short"
    prepare(raw, SPLITS, ("en", "fr"), out, merges, most_words=7)
    assert f"kept {len(kept)} of 20 training pairs" in capsys.readouterr().out
    for side, language in enumerate(RAW):
        assert [line.replace("@@ ", "") for line in read(out / f"train.{language}")] == [pair[side] for pair in kept]
        assert len(read(out / f"test.{language}")) == SIZES["test"]


def test_impossible_limits_are_refused(raw: Path) -> None:
    with pytest.raises(InputError, match="--max-words is 0"):
        prepare(raw, SPLITS, ("en", "fr"), raw.parent / "new", most_words=0)
    for language in RAW:
        write(raw / f"train.{language}", ["one two three"] * 2)
    with pytest.raises(InputError, match="--max-words 2: every training pair is longer"):
        prepare(raw, SPLITS, ("en", "fr"), raw.parent / "new", most_words=2)


def test_training_pairs_are_shuffled_together_and_only_they(raw: Path) -> None:
    plain = run(raw, 0)
    orders = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        out = raw.parent / name
        prepare(raw, SPLITS, ("en", "fr"), out, seed=seed)
        orders.append(list(zip(read(out / "train.en"), read(out / "train.fr"))))
        for split in ("valid", "test"):
            for language in RAW:
                assert read(out / f"{split}.{language}") == read(plain / f"{split}.{language}")
    before = list(zip(read(plain / "train.en"), read(plain / "train.fr")))
    assert orders[0] == orders[1] != orders[2]
    assert all(sorted(order) == sorted(before) != order for order in orders)
    assert {file.name for file in out.iterdir()} == {file.name for file in plain.iterdir()}


@pytest.mark.parametrize(("bucket", "files"), [(1 << 20, 1), (10, 3)])
def test_every_order_is_equally_likely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bucket: int, files: int
) -> None:
    """Of 3 pairs, in one bucket and over several; 180 shuffles, 6 orders of 30 each on average."""
    monkeypatch.setattr(module, "BUCKET", bucket)
    monkeypatch.setattr(module, "MOST_BUCKETS", 3)
    opened = []
    monkeypatch.setattr(
        tempfile, "TemporaryFile", lambda dir, make=tempfile.TemporaryFile: opened.append(0) or make(dir=dir)
    )
    texts = [tmp_path / "en", tmp_path / "fr"]
    counts = dict.fromkeys(itertools.permutations("abc"), 0)
    for seed in random.Random(4).sample(range(10**9), 180):
        for text in texts:
            write(text, [f"{text.name} {letter}" for letter in "abc"])
        shuffle(texts, seed)
        english, french = (tuple(line.split()[1] for line in read(text)) for text in texts)
        assert english == french
        counts[english] += 1
    assert len(opened) == 180 * files
    # Chi-squared with 5 degrees of freedom is over 25.7 once in 10,000 times.
    assert sum((count - 30) ** 2 / 30 for count in counts.values()) < 25.7


def test_command_line_gives_the_same_files(
    raw: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected, out = run(raw, 30), raw.parent / "by_command"
    names = [word for split, name in SPLITS.items() for word in (f"--{split}", name)]
    command = ["prepare", str(raw), str(out), "-s", "en", "-t", "fr", *names]
    monkeypatch.setattr(sys, "argv", [*command, "--bpe", "30"])
    main()
    assert "30 BPE merges" in capsys.readouterr().out
    for file in expected.iterdir():
        assert (out / file.name).read_bytes() == file.read_bytes()
    expected = run_pieces(raw, most_words=8, seed=7)
    monkeypatch.setattr(sys, "argv", [*command, "--sentencepiece", str(PIECES), "--max-words", "8", "--shuffle", "7"])
    main()
    for file in expected.iterdir():
        assert (out / file.name).read_bytes() == file.read_bytes()
    monkeypatch.setattr(
        sys, "argv", [*command, "--bpe", "30", "--segmentations", "1", "--bpe-dropout", "0.4", "--tokenized"]
    )
    main()
    expected = raw.parent / "sampled"
    prepare(raw, SPLITS, ("en", "fr"), expected, 30, tokenized=True, segmentations=1, randomness=0.4)
    for file in expected.iterdir():
        assert (out / file.name).read_bytes() == file.read_bytes()
    monkeypatch.setattr(sys, "argv", [*command, "--lowercase"])
    main()
    assert read_preparations(out)["en"].lowercase
    expected = raw.parent / "lower"
    prepare(raw, SPLITS, ("en", "fr"), expected, lowercase=True)
    for file in expected.iterdir():
        assert (out / file.name).read_bytes() == file.read_bytes()
