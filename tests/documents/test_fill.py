"""The command ``rnnsearch translate`` on PO and XLIFF files."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rnnsearch_fairseq.documents import translate
from rnnsearch_fairseq.documents.fill import cut
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.scores import AlignedPair
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
XLIFF = "<xliff><trans-unit><source>The <x/>dog &amp; the cat.</source>{}</trans-unit></xliff>"


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
    assert (
        "files: 2; messages without a translation: 3, filled in for review: 3; of these with markup missing" in report
    )
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


def test_the_best_translation_with_the_markup_is_taken(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beams = {
        "Open {name}.": ["Ouvrez.", "Ouvrir {name}", "{name}"],
        "Open %s.": ["", "Ouvrez"],
        "Stop.": ["Arrêt", "Fin"],
    }
    path = write(tmp_path / "a.po", HEADER + "".join(f'msgid "{source}"\nmsgstr ""\n\n' for source in beams))
    results = [[AlignedPair([], [], text=text) for text in texts] for texts in beams.values()]
    monkeypatch.setattr(translate, "translate_group", lambda translator, sources, beam, *rest: results * (beam == 2))
    report = command(path, "--output", tmp_path / "b.po")
    translations = (tmp_path / "b.po").read_text().split("msgstr ")[2:]
    assert [text.split('"')[1] for text in translations] == ["Ouvrir {name}", "Ouvrez", "Arrêt"]
    assert "missing or changed: 1 (with the best translation, whatever its markup: 2)" in report


def test_lines_and_long_lines_are_translated_sentence_by_sentence() -> None:
    assert cut(" A.  B.\n\n  c\n") == ["", " ", "A.  B.", "\n\n  ", "c", "\n", ""]
    sentences = ["One, two, i.e. three.", "See `a. B. <c>`_ and ``d. E``.", "It's 3.5."] * 12
    parts = cut("  ".join(sentences))
    assert parts[::2] == sentences and {*parts[1::2]} == {"  "}


def test_what_cannot_be_read_is_left_and_named(command: Command, tmp_path: Path) -> None:
    text = HEADER + f'msgid "{"dog " * 2000}end"\nmsgstr ""\n\nmsgctxt "nothing"\nmsgid ""\nmsgstr ""\n'
    report = command(write(tmp_path / "a.po", text), "--output", tmp_path / "b.po")
    assert (
        "a.po: left as it is: 'dog dog dog" in report and "without a translation: 1, filled in for review: 0" in report
    )
    assert (tmp_path / "b.po").read_text() == text


def test_what_cannot_work_is_refused(command: Command, tmp_path: Path) -> None:
    path, bad = write(tmp_path / "docs" / "a.po", PO), write(tmp_path / "bad" / "a.po", PO)
    write(tmp_path / "bad" / "b.po", "not PO")
    (tmp_path / "empty").mkdir()
    for words, message in (
        ([path], "give --output"),
        ([tmp_path / "empty", "--output", tmp_path / "out"], "holds no .po"),
        ([path, "--output", path], "it would replace an input"),
        ([path.parent, "--output", path.parent], "it would replace an input"),
        ([path, "--output", tmp_path / "out", "--nbest", "2"], "give --output, without --nbest"),
        ([path, "--output", path / "b.po"], "cannot be written"),
        ([bad.parent, "--output", tmp_path / "out"], r"b\.po: not a PO file"),
    ):
        with pytest.raises(InputError, match=message):
            command(*words)
        assert not (tmp_path / "out").exists()


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="gettext is not installed")
def test_gettext_accepts_the_translation(command: Command, tmp_path: Path) -> None:
    texts = [
        "The dog sleeps.",
        "\\nThe %s sleeps.\\n",
        'The \\"dog\\"\\n',
        "A cat.\\n\\n* A dog\\n",
        "A\\tcat\\\\n",
        "%s",
    ]
    messages = [f'msgid "{text} {number} {text}"\nmsgstr ""\n' for number in range(50) for text in texts]
    path = write(tmp_path / "a.po", HEADER + "\n".join(messages))
    assert "translation: 300, filled in for review: 300;" in command(path, "--output", tmp_path / "b.po")
    check = ["msgfmt", "--check-format", "--use-fuzzy", "--output-file", "/dev/null", tmp_path / "b.po"]
    subprocess.run(check, check=True)
