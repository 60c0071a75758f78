"""The command ``rnnsearch translate`` on PO and XLIFF files."""

import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rnnsearch_fairseq.documents import translate
from rnnsearch_fairseq.documents.formats import is_document
from rnnsearch_fairseq.documents.translate import translate_documents
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.passage import Passage
from rnnsearch_fairseq.text.piece import Piece, Reader
from tests.trained import train

Command = Callable[..., str]
HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
PO = (
    HEADER
    + r"""msgid "The dog sleeps.\n"
msgstr ""

#: a.py:1
#, python-format
msgid "The cat sleeps."
msgid_plural "The black cat eats.\n\n  It's a cat."
msgstr[0] ""
msgstr[1] ""

msgid "The dog sleeps."
msgstr "Il dort."

msgid "%s: ``--help``"
msgstr ""
"""
)
XLIFF = """<?xml version="1.0" encoding="UTF-8"?>
<xliff><file><body><trans-unit><source>The dog &amp; the cat.</source>{}</trans-unit></body></file></xliff>
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("model"))


@pytest.fixture
def command(model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command in this process; returns standard error."""

    def run(*words: str | Path) -> str:
        monkeypatch.setattr(sys, "argv", ["translate", "--model", str(model), "--beam", "2", *map(str, words)])
        translate.main()
        out, err = capsys.readouterr()
        assert out == ""
        return err

    return run


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_untranslated_messages_are_filled_in(command: Command, tmp_path: Path) -> None:
    write(tmp_path / "docs" / "a.po", PO)
    write(tmp_path / "docs" / "b" / "c.xlf", XLIFF.format("<target>fait</target>"))
    write(tmp_path / "docs" / "notes.txt", "The dog sleeps.")
    (tmp_path / "docs" / "folder.po").mkdir()
    os.mkfifo(tmp_path / "docs" / "pipe.po")
    (tmp_path / "docs" / "loop.po").symlink_to("loop.po")
    report = command(tmp_path / "docs", "--output", tmp_path / "fr")
    assert "files: 2, copied as they are: 1; messages without a translation: 3, filled in for review: 3; of" in report
    written = (tmp_path / "fr" / "a.po").read_text()
    for text in (
        '#, fuzzy\nmsgid "The dog sleeps.\\n"\nmsgstr "le chien dort.\\n"',
        'msgstr[0] "le chat dort."\nmsgstr[1] ""\n"le chat noir mange.\\n"\n"\\n"\n"  c\'est un chat."',
        'msgstr "Il dort."\n\n#, fuzzy\nmsgid "%s: ``--help``"\nmsgstr "%s: ``--help``"',
    ):
        assert text in written
    assert (tmp_path / "fr" / "b" / "c.xlf").read_text() == XLIFF.format("<target>fait</target>")
    assert (tmp_path / "fr" / "notes.txt").read_text() == "The dog sleeps."
    assert len([*(tmp_path / "fr").iterdir()]) == 3


def fill_by(translate: Callable[[str], list[str]], path: Path, output: Path) -> None:
    """Fill in a document by a function that translates pieces, in place of a model."""
    reader = Reader(("en", "fr"), set(map(chr, range(1000))))

    def best(piece: Piece) -> tuple[str, list[str]]:
        texts = [piece.restore(text) for text in translate(piece.masked)]
        (best,) = piece.choose(texts)
        return best

    def search(texts: Sequence[Any]) -> Iterator[list[SimpleNamespace]]:
        for passage in [text.passage for text in texts]:
            found = [best(Piece(piece, reader)) for piece in passage.pieces]
            text = passage.join([text for text, _ in found])
            yield [SimpleNamespace(text=text, faults=[passage.describe(fault) for _, more in found for fault in more])]

    def read_text(text: str, *rest: Any) -> SimpleNamespace:
        return SimpleNamespace(passage=Passage(text))

    translator = SimpleNamespace(languages=reader.languages, reader=reader, read_text=read_text, search=search)
    translate_documents(translator, path, output)


def test_one_translation_of_the_beam_is_taken_and_its_faults_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beams = {
        "Open ⟦1⟧.": ["", "*Ouvrez*.", "Ouvrez."],
        "⟦1⟧ the dog": ["chien", "⟦1⟧ chien"],
        "Stop": ["Arrêter"],
        "Wait": ["", ""],
    }
    messages = "Open %s.", "&Stop", "Wait", "<b>Stop</b> the dog"
    path = write(tmp_path / "a.po", HEADER + "".join(f'msgid "{message}"\nmsgstr ""\n\n' for message in messages))
    fill_by(beams.__getitem__, path, tmp_path / "b.po")
    translations = [text.split('"')[1] for text in (tmp_path / "b.po").read_text().split("msgstr ")[2:]]
    assert translations == ["Ouvrez.", "&Arrêter", "", "<b>Arrêter</b> chien"]
    first, second, report = capsys.readouterr().err.replace(f"{path}, line ", "").splitlines()
    assert first == "4: 'Open %s.': its translation lacks %s"
    assert second == "10: left as it is: its translation is empty"
    assert "translation: 4, filled in for review: 3;" in report and report.endswith("named above: 1")


def test_what_cannot_be_read_is_left_and_named(command: Command, tmp_path: Path) -> None:
    text = HEADER + f'msgid "{"dog " * 30_000}end"\nmsgstr ""\n\nmsgctxt "nothing"\nmsgid ""\nmsgstr ""\n'
    report = command(write(tmp_path / "a.po", text), "--output", tmp_path / "b.po")
    assert "a.po, line 4: left as it is: it has 120,003 characters" in report
    assert "without a translation: 1, filled in for review: 0" in report
    assert (tmp_path / "b.po").read_text() == text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("docs/a.po", "give --output"),
        ("docs/a.po --output out --nbest 2", "give --output, without --nbest"),
        ("empty --output out", "empty: holds no PO, XLIFF"),
        ("docs/a.po --output docs/a.po", "it would replace an input"),
        ("docs --output docs/fr", "it would"),
        ("docs/sub --output docs", "it would replace an input"),
        ("docs/a.po --output docs/a.po/b.po", "it would replace an input"),
        ("bad --output out", r"b\.po: not PO"),
        ("de.po --output out", r"de\.po: asks for 'de', and the model writes fr"),
        ("fifo.po --output out", "fifo.po: not a regular file"),
        ("a.tmx --output out", r"a\.tmx: not XLIFF"),
    ],
)
def test_what_cannot_work_is_refused(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("docs/a.po", "docs/sub/a.po", "docs/sub/sub/a.po", "bad/a.po", "empty/a.pot"):
        write(tmp_path / name, PO)
    write(tmp_path / "bad" / "b.po", "not PO")
    write(tmp_path / "de.po", 'msgid ""\nmsgstr "Language: de\\n"\n\nmsgid "a"\nmsgstr ""\n')
    write(tmp_path / "a.tmx", '<tmx version="1.4"><body/></tmx>')
    os.mkfifo(tmp_path / "fifo.po")
    with pytest.raises(InputError, match=message):
        command(*words.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "text"), [("a.po.gz", PO), ("b.po.txt", PO), ("c.sdlxliff", XLIFF.format("")), ("d.xml", XLIFF.format(""))]
)
def test_documents_are_recognised_by_their_content(command: Command, tmp_path: Path, name: str, text: str) -> None:
    path, output = tmp_path / "docs" / name, tmp_path / "out" / name
    write(path.with_name("a.ts"), "export const a = 1;\n")
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    assert "files: 1, copied as they are: 0; messages without a translation: " in command(path, "--output", output)
    written = gzip.decompress(output.read_bytes()) if name.endswith("gz") else output.read_bytes()
    assert b"fuzzy" in written or b"needs-review-translation" in written
    assert not is_document(path.with_name("a.ts"))


def test_a_folder_gives_a_whole_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    german = 'msgid ""\nmsgstr "Language: de\\n"\n\nmsgid "a"\nmsgstr ""\n'
    files = {"de.po": german, "mkdocs.yml": "a: b", "docs/c.png": "\0", "c.ts": "var a", "old.pot": PO}
    translated = {"docs/a.md": "The cat\n", "b.html": "<p>The dog"}
    left = {".git/config": "a", "node_modules/a/README.md": "b"}
    for name, text in {**files, **translated, **left, "fr.po": PO}.items():
        write(tmp_path / "in" / name, text)
    fill_by(lambda text: [text.upper()], tmp_path / "in", tmp_path / "out")
    written = {str(path.relative_to(tmp_path / "out")): path.read_text() for path in (tmp_path / "out").rglob("*.*")}
    assert written.pop("fr.po").count("fuzzy") == 3
    assert written == {**files, "docs/a.md": "THE CAT\n", "b.html": "<p>THE DOG"}
    assert "files: 3, copied as they are: 5; messages without a translation: 5, filled" in capsys.readouterr().err


def test_plural_forms_of_icu_are_left_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unit = "<trans-unit><source>{N, plural, =1 {a} other {b}}</source></trans-unit>"
    path = write(tmp_path / "a.xlf", f"<xliff><file><body>{unit}</body></file></xliff>\n")
    fill_by(lambda text: [text.upper()], path, tmp_path / "b.xlf")
    assert "<target" not in (tmp_path / "b.xlf").read_text()
    assert "a.xlf, line 1: left as it is: it has ICU's plural" in capsys.readouterr().err


FORMATS = {
    "The table %1$s has %2$d rows; %3$-10s  is %4$.*5$s of 100%%.": "c-format",
    r"%lu bytes, %zu items and %5.1f%% by '%s'\n": "c-format",
    "{0!r} is {1:>10.2f} of {items[0]}": "python-brace-format",
    "%(total)d of %(name)s": "python-format",
    "100% done": "c-format",
    "About 5% of %d files": "c-format",
    "The value of %d": "c-format",
    r"  -h, --help    <b>show %s</b> &amp; [quit](a.md)\n  it\n": "c-format",
}


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="gettext is not installed")
def test_gettext_accepts_filled_messages_without_their_flags(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A translation with other words first, or else in the same order, keeps every span in the file."""

    def swapped(text: str) -> list[str]:
        if "value" in text or "5%" in text:
            return [text.replace("⟦1⟧", "%s").replace("% of", "% environ")]
        first, *others = text.split()
        return [" ".join([*others, first]), text]

    messages = [f'#, {kind}\nmsgid "{text}"\nmsgstr ""\n\n' for text, kind in FORMATS.items()]
    fill_by(swapped, write(tmp_path / "a.po", "".join([HEADER, *messages])), tmp_path / "b.po")
    report = capsys.readouterr().err
    assert "review: 5; of these with something missing or changed, named above: 0" in report
    assert report.count("left as it is: lacks %") == 3
    subprocess.run(["msgattrib", "--clear-fuzzy", tmp_path / "b.po", "-o", tmp_path / "c.po"], check=True)
    subprocess.run(["msgfmt", "--check-format", "-o", os.devnull, tmp_path / "c.po"], check=True)
