"""One corpus to training, development and test sets."""

import gzip
import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from rnnsearch_fairseq.corpus import prepare
from rnnsearch_fairseq.corpus.pairs import Pair, read_corpus, read_files, read_tmx
from rnnsearch_fairseq.corpus.split import PARTS, split_corpus
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.scripts import lacks_blanks, lacks_common_words

LANGUAGES = ("en", "fr")
Capture = pytest.CaptureFixture[str]
ENGLISH = ["a", "big", "black", "cat", "sees", "the", "small", "red", "house", "of", "my", "good", "old", "friend"]
FRENCH = ["un", "grand", "noir", "chat", "voit", "la", "petite", "rouge", "maison", "de", "mon", "bon", "vieil", "ami"]


def make_pairs(number: int, seed: int = 1) -> list[Pair]:
    """Pairs of 2 to 6 words; many sources and targets repeat, in pairs of their own or equal ones."""
    generator = random.Random(seed)
    pairs = []
    for _ in range(number):
        words = [generator.randrange(len(ENGLISH)) for _ in range(generator.randint(2, 6))]
        source, target = (" ".join(side[word] for word in words) for side in (ENGLISH, FRENCH))
        pairs.append((source, target))
        other = generator.choice(pairs)
        pairs += generator.choice([[], [], [], [other], [(source, other[1])], [(other[0], target)], [(source, "ami")]])
    return pairs[:number]


def write_files(folder: Path, pairs: list[Pair]) -> list[Path]:
    paths = [folder / f"corpus.{language}" for language in LANGUAGES]
    for path, side in zip(paths, zip(*pairs)):
        path.write_bytes("".join(f"{sentence}\n" for sentence in side).encode())
    return paths


def write_tsv(folder: Path, pairs: list[Pair]) -> list[Path]:
    path = folder / "corpus.tsv"
    path.write_bytes("".join(f"{source}\t{target}\n" for source, target in pairs).encode())
    return [path]


def unit(source: str, target: str) -> str:
    english, french = escape(source), escape(target)
    return f'<tu><tuv xml:lang="en"><seg>{english}</seg></tuv><tuv xml:lang="fr"><seg>{french}</seg></tuv></tu>\n'


def write_tmx(folder: Path, pairs: list[Pair]) -> list[Path]:
    return write_units(folder, "".join(unit(*pair) for pair in pairs))


def write_units(folder: Path, units: str, doctype: str = "", encoding: str = "utf-8") -> list[Path]:
    path = folder / "corpus.tmx"
    head = f'<?xml version="1.0" encoding="{encoding}"?>\n{doctype}\n<tmx version="1.4"><header/><body>'
    path.write_bytes(f"{head}{units}</body></tmx>\n".encode(encoding))
    return [path]


def write_po(folder: Path, pairs: list[Pair]) -> list[Path]:
    messages = (f"msgid {json.dumps(source)}\nmsgstr {json.dumps(target)}\n\n" for source, target in pairs)
    (folder / "corpus.po").write_text(
        f'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8"\n\n{"".join(messages)}'
    )
    return [folder / "corpus.po"]


def write_folder(folder: Path, pairs: list[Pair]) -> list[Path]:
    for number, write in enumerate((write_po, write_tmx, write_tsv)):
        part = folder / "folder" / str(number)
        part.mkdir(parents=True)
        write(part, pairs[100 * number : None if number == 2 else 100 * number + 100])
    (folder / "folder" / "notes.txt").write_text("not read")
    return [folder / "folder"]


def read_parts(folder: Path) -> dict[str, list[Pair]]:
    sides = {
        part: [(folder / f"{part}.{language}").read_text().splitlines() for language in LANGUAGES] for part in PARTS
    }
    return {part: list(zip(*both, strict=True)) for part, both in sides.items()}


def run_main(monkeypatch: pytest.MonkeyPatch, *words: str | Path, languages: Pair = LANGUAGES) -> None:
    monkeypatch.setattr(prepare, "expectations", lambda plan, source, target: "")
    monkeypatch.setattr(
        sys, "argv", ["prepare", "--workers", "1", *map(str, words), "-s", languages[0], "-t", languages[1]]
    )
    prepare.main()


# Parts


def test_no_sentence_is_in_two_parts(tmp_path: Path) -> None:
    pairs = make_pairs(600)
    plain = Counter(pairs)
    assert max(plain.values()) > 1 and len({source for source, _ in pairs}) < 500 > len({target for _, target in pairs})
    pairs += [(f"  {source.upper()}", target.replace(" ", "  ")) for source, target in pairs[::7]]
    split_corpus(write_files(tmp_path, pairs), LANGUAGES, tmp_path / "raw", (40, 50), keep=["duplicates"])
    parts = read_parts(tmp_path / "raw")
    assert {part: len(of_part) for part, of_part in parts.items()} == {
        "train": len(pairs) - 90,
        "valid": 40,
        "test": 50,
    }
    for side in (0, 1):
        sentences = [{pair[side].lower() for pair in of_part} for of_part in parts.values()]
        assert sum(map(len, sentences)) == len(set().union(*sentences))
    cleaned = [tuple(" ".join(sentence.split()) for sentence in pair) for pair in pairs]
    assert Counter(pair for of_part in parts.values() for pair in of_part) == Counter(cleaned)
    for of_part in parts.values():
        remaining = iter(cleaned)
        assert all(pair in remaining for pair in of_part), "the order is kept"


def test_the_seed_determines_the_split(tmp_path: Path) -> None:
    files = write_files(tmp_path, make_pairs(400))
    found = []
    for seed in (1, 1, 2):
        split_corpus(files, LANGUAGES, tmp_path / "raw", (30, 30), seed)
        found.append(read_parts(tmp_path / "raw"))
    assert found[0] == found[1]
    assert found[0]["valid"] != found[2]["valid"]
    assert found[0]["test"] != found[2]["test"]


@pytest.mark.parametrize(("number", "size"), [(200, 10), (100, 5)])
def test_small_corpora_give_a_twentieth(tmp_path: Path, number: int, size: int) -> None:
    pairs = [(f"word {index}", f"mot {index}") for index in range(number)]
    split_corpus(write_files(tmp_path, pairs), LANGUAGES, tmp_path / "raw")
    assert [len(part) for part in read_parts(tmp_path / "raw").values()] == [number - 2 * size, size, size]


def test_whole_files_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    for number in range(40):
        (tmp_path / "docs" / str(number)).mkdir(parents=True)
        pairs = [(f"sentence {number} {line}", f"phrase {number} {line}") for line in range(9)]
        write_po(tmp_path / "docs" / str(number), [*pairs, ("See also", f"voir {number}")])
    run_main(monkeypatch, tmp_path / "docs", tmp_path / "out", "--split", "30,50")
    assert "split 400 pairs (seed 1): train 320, valid 27, test 45, left out 8 (whole files" in capsys.readouterr().out
    parts = read_parts(tmp_path / "out" / "raw")
    files = [{pair[0].split()[1] for pair in pairs if pair[0] != "See also"} for pairs in parts.values()]
    assert [len(numbers) for numbers in files] == [32, 3, 5]
    assert len(set().union(*files)) == 40


# Cleaning


def test_dropped_pairs_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = [("\ufeffone  two", "un\u2028deux"), ("a " * 100, "b " * 100), ("one", "b " * 9), ("x y", "猫" * 36)]
    empty = [("", "un"), ("one", "  "), ("\ufeff", "un")]
    long = [("a " * 101, "b " * 90), ("a " * 90, "猫" * 202)]
    unequal = [("one", "b " * 10), ("x y", "猫" * 37), ("b " * 19, "un deux")]
    other = [("same  text", "same text"), ("One two", "un deux"), ("one two", "un deux")]
    files = write_files(tmp_path, good + unequal + empty + long + other)
    split_corpus(files, LANGUAGES, tmp_path / "raw", (1, 1))
    found = {pair for part in read_parts(tmp_path / "raw").values() for pair in part}
    assert found == {("one two", "un deux"), *((source.strip(), target.strip()) for source, target in good[1:])}
    printed = capsys.readouterr().out
    assert "read 15 pairs" in printed and "dropped 11: 3 with over 9 times as many" in printed
    assert (
        ", 3 without a sentence on a side, 2 of more than 100 words on a side, 1 with equal sides, 2 that came"
        in printed
    )
    assert "split 4 pairs (seed 1): train 2, valid 1, test 1" in printed
    split_corpus(files, LANGUAGES, tmp_path / "raw", (1, 1), keep=["equal", "duplicates"])
    assert sum(map(len, read_parts(tmp_path / "raw").values())) == 7


WEB = ("<p>A <b class='x'>black</b> cat&#39;s &lt;b&gt; 5 < 6<br/>", "Un chat <i>noir</i> : 5 < 6 > <URL>\0 &amp; fin")
DOCS = ("Call :func:`open` of <b>%s</b>", "Appeler :func:`open` de <b>%s</b> &amp; fin")


@pytest.mark.parametrize(
    ("pair", "keep", "expected"),
    [
        (WEB, [], ("A black cat's <b> 5 < 6", "Un chat noir : 5 < 6 > <URL> & fin")),
        (WEB, ["markup"], (WEB[0], WEB[1].replace("\0", ""))),
        (DOCS, [], DOCS),
    ],
)
def test_tags_and_entities_stay_where_they_are_markup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pair: Pair, keep: list[str], expected: Pair
) -> None:
    files = write_files(tmp_path, [(f"{source} {n}", f"{target} {n}") for n in range(3) for source, target in [pair]])
    split_corpus(files, LANGUAGES, tmp_path / "raw", (1, 1), keep=keep)
    (found,) = read_parts(tmp_path / "raw")["train"]
    assert tuple(side[:-2] for side in found) == expected
    printed = capsys.readouterr().out
    assert ("cleaned sentences: " in printed) == (expected != pair)
    assert ("3 with control characters" in printed) == ("\0" in pair[1])
    assert ("6 with tags, 6 with entities" in printed) == (expected[0] != pair[0])


@pytest.mark.parametrize("write", [write_files, write_tsv, write_tmx])
def test_packed_files_are_read(tmp_path: Path, write: Callable[[Path, list[Pair]], list[Path]]) -> None:
    pairs = make_pairs(20)
    packed = []
    for path in write(tmp_path, pairs):
        packed.append(path.with_name(f"{path.name}.gz"))
        packed[-1].write_bytes(gzip.compress(path.read_bytes()))
    assert [tuple(map(str.rstrip, pair)) for pair in read_corpus(packed, LANGUAGES)] == pairs
    packed[0].write_bytes(packed[0].read_bytes()[:-9])
    with pytest.raises(InputError, match=r"\.gz: cannot be read \(Compressed file ended"):
        list(read_corpus(packed, LANGUAGES))


# Formats


@pytest.mark.parametrize("write", [write_tsv, write_tmx, write_po, write_folder])
def test_formats_give_the_same_split(tmp_path: Path, write: Callable[[Path, list[Pair]], list[Path]]) -> None:
    pairs = [*make_pairs(300), ('the <b>cat</b> & the "dog"', "le <b>chat</b> & le chien")]
    split_corpus(write_files(tmp_path, pairs), LANGUAGES, tmp_path / "files", (20, 30), keep=["markup"])
    split_corpus(write(tmp_path, pairs), LANGUAGES, tmp_path / "other", (20, 30), keep=["markup"])
    assert read_parts(tmp_path / "other") == read_parts(tmp_path / "files")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_translation_memories_of_many_programs(tmp_path: Path, encoding: str) -> None:
    units = (
        '<tu><prop type="x">ignored</prop><note>ignored</note>'
        '<tuv xml:lang="EN-us"><seg>A <bpt i="1">&lt;b&gt;</bpt>na\u00efve <hi>cat</hi><ept i="1">&lt;/b&gt;</ept><ph/>'
        "\n <!-- no text -->sleeps.</seg></tuv>"
        '<tuv xml:lang="de"><seg>Katze</seg></tuv><tuv lang="FR_ca"><seg>Un chat<ut>x</ut> dort.</seg></tuv></tu>'
        '<tu><tuv xml:lang="en"><seg>alone</seg></tuv><tuv xml:lang="frr"><seg>Frisian</seg></tuv></tu>'
        '<tu><tuv xml:lang="fr-CA"><seg>ici</seg></tuv><tuv xml:lang="en"><seg>here</seg></tuv>'
        '<tuv xml:lang="fr"><seg>l\u00e0</seg></tuv></tu>'
    )
    (path,) = write_units(tmp_path, units, '<!DOCTYPE tmx SYSTEM "tmx14.dtd">', encoding)
    found = [tuple(" ".join(side.split()) for side in pair) for pair in read_tmx(path, LANGUAGES)]
    assert found == [("A naïve cat sleeps.", "Un chat dort."), ("alone", ""), ("here", "là")]
    assert [pair[1] for pair in read_tmx(path, ("en", "FR_CA"))][2] == "ici"


def test_large_translation_memories_are_streamed(tmp_path: Path) -> None:
    pairs = make_pairs(2000)
    (path,) = write_tmx(tmp_path, pairs)
    path.write_bytes(path.read_bytes() + b"<unexpected/>")
    assert list(islice(read_tmx(path, LANGUAGES), 100)) == pairs[:100]
    with pytest.raises(InputError, match=r"corpus\.tmx, line \d+: not well-formed XML"):
        list(read_tmx(path, LANGUAGES))


ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 20 if n else "ha" * 1000}">' for n in range(12))
BOMB = f"<!DOCTYPE tmx [{ENTITIES}]><tmx>{unit('&e11;', 'un').replace('&amp;', '&')}</tmx>"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", b"one\tun\none two\n", r"a\.tsv, line 2: columns: 1,"),
        ("a.tsv", b"one\tun\t0.5\n", r"a\.tsv, line 1: columns: 3,.*cut -f 1,2"),
        ("a.tsv", b"one\tun\n\xe9\tun\n", r"a\.tsv, line 2: .*not UTF-8"),
        ("a.tmx", f"<tmx>{unit('one', 'un')}</tu></tmx>".encode(), r"a\.tmx, line 2: not well-formed XML"),
        ("a.tmx", BOMB.encode(), r"a\.tmx, line 1: not well-formed XML \(Maximum entity amplification"),
        ("a.tmx", unit("one", "un").replace("fr", "de").encode(), "no unit has both en and fr; .*: de, en"),
        ("a.tmx", b'<?xml version="1.0" encoding="unheard"?><tmx/>', r"a\.tmx, line 1: .*encoding: unheard"),
        ("a.tmx", b"<tmx/>", "no unit has both"),
        ("a.tmx", b"", "not well-formed"),
        ("a.txt", b"one\tun\n", r"a\.txt: give a folder, two files of text"),
        ("absent.tmx", None, r"absent\.tmx: cannot be read"),
        ("absent.tsv", None, r"absent\.tsv: cannot be read"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(read_corpus([tmp_path / name], LANGUAGES))


@pytest.mark.parametrize(
    ("pairs", "sizes", "message"),
    [
        ([("one", "un"), ("two", "deux")], None, "2 pairs are too few to split"),
        ([(f"same {n}", "même") for n in range(50)], (3, 3), r"train 50, valid 0, test 0; equal .*--split DEV,TEST"),
        ([("", "vide")] * 50, None, "0 pairs are too few"),
    ],
)
def test_too_few_pairs_are_refused(
    tmp_path: Path, pairs: list[Pair], sizes: tuple[int, int] | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        split_corpus(write_files(tmp_path, pairs), LANGUAGES, tmp_path / "raw", sizes)
    assert not (tmp_path / "raw").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--split", "10"], "--split 10: give two numbers"),
        (["--split", "0,5"], "--split 0,5: give two numbers"),
        (["--split-seed", "-1"], "--split-seed is -1"),
        (["--valid", "dev"], "--train, --valid and --test name files of a folder"),
        (["--bpe", "9", "--sentencepiece", "9"], "give one of them"),
    ],
)
def test_impossible_options_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        run_main(monkeypatch, *write_tsv(tmp_path, make_pairs(50)), tmp_path / "out", *words)
    assert not (tmp_path / "out").exists()


# Scripts without blanks

JAPANESE = "彼は昨日、新しいiPhoneを買いました。"
THAI = "ฉันชอบกินข้าวผัดและต้มยำกุ้ง แต่เพื่อนของฉันไม่ชอบ"


@pytest.mark.parametrize(
    ("line", "lacking"),
    [
        (JAPANESE, True),
        (THAI, True),
        ("我昨天买了一部新手机。", True),
        ("彼 は 昨日 、 新しい iPhone を 買い まし た 。", False),
        ("ฉัน ชอบ กิน ข้าวผัด และ ต้มยำกุ้ง แต่ เพื่อน ของ ฉัน ไม่ ชอบ", False),
        ("He bought the book 猫 yesterday.", False),
        ("나는 어제 새 휴대폰을 샀다.", False),
        ("", False),
    ],
)
def test_text_without_blanks_is_recognised(line: str, lacking: bool) -> None:
    assert lacks_blanks([line, ""]) == lacking


def test_warnings_say_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = [(f"He took the ``phone {number}`` of it.", f"{JAPANESE}``phone {number}``") for number in range(100)]
    warning = (
        "warning: the text needs sentencepieces, since tokens tear its markup apart (code, placeholders) and its ja "
        "has no blanks between words; leave out --bpe and --tokenized"
    )
    for source, words, warned in (("en", ["--bpe", "0"], True), ("en", ["--bpe", "20"], True), ("fr", [], False)):
        run_main(monkeypatch, *write_tsv(tmp_path, pairs), tmp_path / "out", *words, languages=(source, "ja"))
        printed = capsys.readouterr().out
        assert (warning in printed, printed.count("warning: ")) == (warned, 1)
        assert "test.ja -i" in printed and "-f text --tokenize char" in printed
    assert "warning: hardly a word of the fr text is a common one of fr; are -s and -t right?" in printed


# Languages


@pytest.mark.parametrize(
    ("names", "languages", "message"),
    [
        (["a.en", "a.fr"], ("fr", "en"), r"a\.en: its name says en, but -s says fr; give them in the order of -s, -t"),
        (["a.en", "a.de.gz"], ("en", "fr"), r"a\.de\.gz: its name says de, but -t says fr"),
        (["a.en_GB", "a.txt"], ("en", "fr"), None),
        (["a.pt-br", "a.in"], ("pt_BR", "eng"), None),
        (["a.po", "b.it.po"], ("en", "fr"), None),
    ],
)
def test_names_that_contradict_the_languages_are_refused(
    tmp_path: Path, names: list[str], languages: Pair, message: str | None
) -> None:
    with pytest.raises(InputError, match=message) if message else nullcontext():
        read_files([tmp_path / name for name in names], languages)


def test_two_languages_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="-s en -t en: source and target are the same language; name two"):
        run_main(monkeypatch, *write_files(tmp_path, make_pairs(50)), tmp_path / "out", languages=("en", "en"))


@pytest.mark.parametrize(
    ("line", "language", "lacking"),
    [
        ("The cat of the man sleeps, and it is in the garden.", "fr", True),
        ("The cat of the man sleeps, and it is in the garden.", "en_GB", False),
        ("Le chat de la voisine dort dans le jardin.", "en", True),
        (JAPANESE, "zh", True),
        (JAPANESE, "ja", False),
        ("The cat sleeps.", "tlh", False),
    ],
)
def test_text_of_another_language_is_recognised(line: str, language: str, lacking: bool) -> None:
    assert lacks_common_words([line] * 150, language) == lacking
    assert not lacks_common_words([line], language), "too little text"
