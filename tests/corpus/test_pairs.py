"""Pairs in the files that people have."""

import gzip
import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, islice
from pathlib import Path

import pytest

from rnnsearch_fairseq.corpus import pairs as module
from rnnsearch_fairseq.corpus.pairs import Pair, find_files, read_files, read_tmx
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.lines import MAX_LINE_BYTES
from tests.corpus import builders
from tests.corpus.builders import LANGUAGES, make_pairs, unit, write_files, write_tsv, write_units


def read(files: list[Path]) -> Iterator[Pair]:
    return chain.from_iterable(read_files(files, LANGUAGES, Counter()))


@pytest.mark.parametrize(
    "write", [write_files, write_tsv, builders.write_tmx, builders.write_po, builders.write_folder]
)
def test_formats_and_packed_files_give_the_same_pairs(
    tmp_path: Path, write: Callable[[Path, list[Pair]], list[Path]]
) -> None:
    pairs = [*make_pairs(210), ('the <b>cat</b> & the "dog"', "le <b>chat</b> & le chien")]
    files = find_files(write(tmp_path, pairs))
    assert [tuple(map(str.rstrip, pair)) for pair in read(files)] == pairs
    if write in (builders.write_po, builders.write_folder):
        return
    for path in files:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    packed = [path.with_name(f"{path.name}.gz") for path in files]
    assert [tuple(map(str.rstrip, pair)) for pair in read(packed)] == pairs
    packed[0].write_bytes(packed[0].read_bytes()[:-9])
    with pytest.raises(InputError, match=packed[0].name):
        list(read(packed))


def test_documents_that_name_another_language_are_left_out_and_counted(tmp_path: Path) -> None:
    message = (
        'msgid ""\nmsgstr "Language: {}\\nContent-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "dog"\nmsgstr "{}"\n'
    )
    for language, dog in (("fr_CA", "chien"), ("de", "Hund")):
        (tmp_path / f"{language}.po").write_text(message.format(language, dog))
    left_out: Counter[str] = Counter()
    files = find_files([tmp_path])
    assert list(chain.from_iterable(read_files(files, LANGUAGES, left_out))) == [("dog", "chien")]
    assert left_out == {"in files that name another language": 1}


def test_translation_memories_of_many_programs(tmp_path: Path) -> None:
    units = (
        '<tu><prop type="x">ignored</prop><note>ignored</note>'
        '<tuv xml:lang="EN-us"><seg>A <bpt i="1">&lt;b&gt;</bpt>na\u00efve <hi>cat</hi><ept i="1">&lt;/b&gt;</ept><ph/>'
        "\n <!-- no text -->sleeps.</seg></tuv>"
        '<tuv xml:lang="de"><seg>Katze</seg></tuv><tuv lang="FR_ca"><seg>Un chat<ut>x</ut> dort.</seg></tuv></tu>'
        '<tu><tuv xml:lang="en"><seg>alone</seg></tuv><tuv xml:lang="frr"><seg>Frisian</seg></tuv></tu>'
        '<tu><tuv xml:lang="fr-CA"><seg>ici</seg></tuv><tuv xml:lang="en"><seg>here</seg></tuv>'
        '<tuv xml:lang="fr"><seg>l\u00e0</seg></tuv></tu>'
    )
    (path,) = write_units(tmp_path, units, '<!DOCTYPE tmx SYSTEM "tmx14.dtd">', "utf-16")
    pairs = [tuple(" ".join(side.split()) for side in pair) for pair in read_tmx(path, LANGUAGES)]
    assert pairs == [("A naïve cat sleeps.", "Un chat dort."), ("alone", ""), ("here", "là")]
    assert [pair[1] for pair in read_tmx(path, ("en", "FR_CA"))][2] == "ici"


def test_translation_memories_are_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each unit, the tree has few of the elements before it; the parser reads some kilobytes ahead."""
    sizes = []
    monkeypatch.setattr(module, "_read_text", lambda unit, _: sizes.append(len([*unit.getroottree().iter()])) or "")
    around = "<note/>" * 500 + "<!--x-->" * 500 + "<?x y?>" * 500
    (path,) = write_units(tmp_path, "".join(around + unit("one", "un") for _ in range(100)) + "</unexpected>")
    assert len([*islice(read_tmx(path, LANGUAGES), 100)]) == 100 and max(sizes) < 5000


ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 20 if n else "ha" * 1000}">' for n in range(12))
BOMB = f"<!DOCTYPE tmx [{ENTITIES}]><tmx>{unit('&e11;', 'un').replace('&amp;', '&')}</tmx>"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", b"one\tun\none two\n", "line 2: columns: 1;"),
        ("a.tsv", b"one\tun\t0.5\n", "line 1: columns: 3;"),
        ("a.tsv.gz", gzip.compress(b"one\tun\n" + b"a" * (MAX_LINE_BYTES + 1)), "line 2"),
        ("a.tmx", f"<tmx>{unit('one', 'un')}</tu></tmx>".encode(), "line 2"),
        ("a.tmx", BOMB.encode(), "line 1"),
        ("a.txt", b"one\tun\n", ""),
        ("absent.tmx", None, ""),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=f"{name}.*{message}"):
        list(read([tmp_path / name]))


def test_what_is_no_file_is_passed_over_and_two_files_have_the_order_of_the_languages(tmp_path: Path) -> None:
    table, paths = write_tsv(tmp_path, make_pairs(3)), write_files(tmp_path, make_pairs(3))
    (tmp_path / "folder.po").mkdir()
    os.mkfifo(tmp_path / "pipe.po")
    (tmp_path / "loop.po").symlink_to("loop.po")
    assert find_files([tmp_path]) == table
    with pytest.raises(InputError, match="-s fr"):
        read_files(paths, ("fr", "en"), Counter())
