"""The command ``rnnsearch translate`` on PO and XLIFF files."""

import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from rnnsearch_fairseq.documents import translate
from rnnsearch_fairseq.documents.fill import translate_documents
from rnnsearch_fairseq.errors import InputError
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
<xliff><file><body><trans-unit><source>The <x/>dog &amp; the cat.</source>{}</trans-unit></body></file></xliff>
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
    report = command(tmp_path / "docs", "--output", tmp_path / "fr")
    assert "files: 2; messages without a translation: 3, filled in for review: 3; of these with something" in report
    expected = PO.replace(
        'msgid "The dog sleeps.\\n"\nmsgstr ""', '#, fuzzy\nmsgid "The dog sleeps.\\n"\nmsgstr "le chien dort.\\n"'
    )
    expected = expected.replace("#, python", "#, fuzzy, python").replace('[0] ""', '[0] "le chat dort."')
    expected = expected.replace('[1] ""', '[1] ""\n"le chat noir mange.\\n"\n"\\n"\n"  c\'est un chat."')
    expected = expected.replace(
        'msgid "%s: ``--help``"\nmsgstr ""', '#, fuzzy\nmsgid "%s: ``--help``"\nmsgstr "%s: ``--help``"'
    )
    assert (tmp_path / "fr" / "a.po").read_text() == expected
    assert (tmp_path / "fr" / "b" / "c.xlf").read_text() == XLIFF.format("<target>fait</target>")
    assert sum(path.is_file() for path in (tmp_path / "fr").rglob("*")) == 2


def fill_by(translations: Callable[[str], list[str]], path: Path, output: Path) -> None:
    """Fill in a document by a function, in place of a model."""
    translator = SimpleNamespace(languages=("en", "fr"), known_characters=None, read_source=lambda text, *rest: text)
    translate_documents(
        translator,
        lambda sources: [[SimpleNamespace(text=text) for text in translations(source)] for source in sources],
        path,
        output,
    )


def test_one_translation_of_the_beam_is_taken_and_its_faults_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beams = {
        "Open {name}": ["Ouvrez", "Ouvrir {name}", "{name}"],
        "Open %s.": ["", "*Ouvrez*.", "Ouvrez."],
        "⟦1000⟧ the dog": ["⟦1000⟧ chien"],
        "Stop": ["Arrêter"],
        "Wait": ["", ""],
    }
    messages = "Open {name}", "Open %s.", "&Stop", "Wait", "<b>Stop</b> the &dog"
    path = write(tmp_path / "a.po", HEADER + "".join(f'msgid "{message}"\nmsgstr ""\n\n' for message in messages))
    fill_by(beams.__getitem__, path, tmp_path / "b.po")
    translations = [text.split('"')[1] for text in (tmp_path / "b.po").read_text().split("msgstr ")[2:]]
    assert translations == ["Ouvrir {name}", "Ouvrez.", "&Arrêter", "", "<b>Arrêter</b> &chien"]
    first, second, report = capsys.readouterr().err.replace(f"{path}, line ", "").splitlines()
    assert first == "7: 'Open %s.': its translation lacks %s"
    assert second == "13: left as it is: is empty"
    assert report.endswith(
        "translation: 5, filled in for review: 4; of these with something missing or changed, named above: 1"
    )


def test_what_cannot_be_read_is_left_and_named(command: Command, tmp_path: Path) -> None:
    text = HEADER + f'msgid "{"dog " * 2000}end"\nmsgstr ""\n\nmsgctxt "nothing"\nmsgid ""\nmsgstr ""\n'
    report = command(write(tmp_path / "a.po", text), "--output", tmp_path / "b.po")
    assert (
        "a.po, line 4: left as it is: 'dog dog dog" in report
        and "without a translation: 1, filled in for review: 0" in report
    )
    assert (tmp_path / "b.po").read_text() == text


def test_what_cannot_work_is_refused(command: Command, tmp_path: Path) -> None:
    path, bad = write(tmp_path / "docs" / "a.po", PO), write(tmp_path / "bad" / "a.po", PO)
    write(tmp_path / "bad" / "b.po", "not PO")
    write(tmp_path / "empty" / "a.pot", PO)
    write(tmp_path / "docs" / "sub" / "sub" / "a.po", PO)
    write(tmp_path / "docs" / "sub" / "a.po", PO)
    other = write(tmp_path / "de.po", 'msgid ""\nmsgstr "Language: de\\n"\n\nmsgid "a"\nmsgstr ""\n')
    os.mkfifo(tmp_path / "fifo.po")
    (tmp_path / "folder.po").mkdir()
    out = tmp_path / "out"
    for words, message in (
        ([path], "give --output"),
        ([tmp_path / "empty", "--output", out], "holds no .po"),
        ([path, "--output", path], "it would replace an input"),
        ([path.parent, "--output", path.parent], "it would"),
        ([path.parent, "--output", path.parent / "fr"], "it would"),
        ([path.parent / "sub", "--output", path.parent], "it would replace an input"),
        ([path, "--output", out, "--nbest", "2"], "give --output, without --nbest"),
        ([path, "--output", path / "b.po"], "it would replace an input"),
        ([bad.parent, "--output", out], r"b\.po: not a PO file"),
        ([other, "--output", out], r"de\.po: asks for 'de', and the model writes fr"),
        ([tmp_path / "fifo.po", "--output", out], "fifo.po: not a regular file"),
        ([tmp_path / "folder.po", "--output", out], "folder.po: holds no"),
        ([write(tmp_path / "a.tmx", '<tmx version="1.4"><body/></tmx>'), "--output", out], r"a\.tmx: not XLIFF"),
        ([write(tmp_path / "a.xml", '<?xml version="1.0"?><a/>'), "--output", out], r"a\.xml: not XLIFF"),
    ):
        with pytest.raises(InputError, match=message):
            command(*words)
        assert not out.exists()


def test_documents_are_recognised_by_their_content(command: Command, tmp_path: Path) -> None:
    for name, text in (
        ("a.po.gz", PO),
        ("b.po.txt", PO),
        ("c.sdlxliff", XLIFF.format("")),
        ("d.xml", XLIFF.format("")),
    ):
        path, output = tmp_path / name, tmp_path / "out" / name
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
        assert "messages without a translation: " in command(path, "--output", output)
        written = gzip.decompress(output.read_bytes()) if name.endswith("gz") else output.read_bytes()
        assert b"fuzzy" in written or b"needs-review-translation" in written
    write(tmp_path / "docs" / "a.ts", "export const a = 1;\n")
    write(tmp_path / "docs" / "a.po", PO)
    os.mkfifo(tmp_path / "docs" / "b.po")
    assert "files: 1;" in command(tmp_path / "docs", "--output", tmp_path / "fr")


def test_a_page_of_markdown_stays_a_page(command: Command, tmp_path: Path) -> None:
    page = """---
title: The dog sleeps.
---

# {0}

- {0} `a b`

```python
The dog sleeps.
```

| a_b |  10 |
| --- | --: |
| 1.5 |  20 |
"""
    report = command(write(tmp_path / "a.md", page.replace("{0}", "The dog sleeps.")), "--output", tmp_path / "b.md")
    written = (tmp_path / "b.md").read_text()
    assert "translation: 6, filled in for review: 6" in report
    assert written.startswith(page[: page.index("{0}")] + "le chien dort.")
    assert written.endswith(page[page.index("```") :])


KINDS = r"""#, c-format
msgid "The table %1$s has %2$d rows; %3$-10s  is %4$.*5$s of 100%%."
msgstr ""

#, c-format
msgid "%lu bytes, %zu items and %5.1f%% by '%s'\n"
msgstr ""

#, c-format
msgid "One file of %2$s"
msgid_plural "%1$lu files of %2$s"
msgstr[0] ""
msgstr[1] ""

#, python-brace-format
msgid "{0!r} is {1:>10.2f} of {items[0]}"
msgstr ""

#, python-format
msgid "%(total)d of %(name)s"
msgstr ""

#, c-format
#| msgid "older: %s"
msgid ""
"  -h, --help    <b>show %s</b> &amp; [quit](a.md)\n"
"  it\n"
msgstr ""
"""


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="gettext is not installed")
def test_gettext_accepts_filled_messages_without_their_flags(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A translation with other words first, or else in the same order, keeps every span in the file."""

    def swapped(text: str) -> list[str]:
        first, *others = text.split()
        return [" ".join([*others, first]), text]

    header = HEADER.replace('"\n\n', '"\n"Plural-Forms: nplurals=2; plural=(n > 1);\\n"\n\n')
    fill_by(swapped, write(tmp_path / "a.po", header + KINDS), tmp_path / "b.po")
    assert (
        "filled in for review: 6; of these with something missing or changed, named above: 1" in capsys.readouterr().err
    )
    subprocess.run(["msgattrib", "--clear-fuzzy", tmp_path / "b.po", "-o", tmp_path / "c.po"], check=True)
    subprocess.run(["msgfmt", "--check-format", "-o", os.devnull, tmp_path / "c.po"], check=True)
