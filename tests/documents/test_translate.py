"""The command ``rnnsearch translate``: one line of output for each line of input, and documents."""

import gzip
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import rnnsearch_fairseq
from rnnsearch_fairseq.documents import translate
from rnnsearch_fairseq.documents.formats import is_document
from rnnsearch_fairseq.documents.translate import translate_documents
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.export import export
from rnnsearch_fairseq.text.passage import Passage
from rnnsearch_fairseq.text.piece import Reader
from tests.text.test_language import FRENCH
from tests.trained import PARSES, SHIPPED_MODEL, make_checkpoint, needs_shipped_model

TEXT = "The dog sleeps.\n\nThe black cat eats.\nIt's a cat."
TRANSLATED = "le chien dort.\n\nle chat noir mange.\nc'est un chat.\n"
Command = Callable[..., tuple[str, str]]
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


@pytest.fixture
def command(models: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Command:
    """Run the command in this process on a model; returns standard output and standard error."""

    def run(*words: str | Path, model: str = "bahdanau_gru") -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["translate", "--model", str(models / model), *map(str, words)])
        capfdbinary.readouterr()
        status = translate.main()
        out, err = capfdbinary.readouterr()
        assert bool(status) == (b"left blank: " in err)
        return out.decode(), err.decode()

    return run


def test_each_line_has_a_line(command: Command, tmp_path: Path) -> None:
    (text := tmp_path / "text").write_text(TEXT, encoding="utf-8-sig")
    (packed := tmp_path / "text.gz").write_bytes(gzip.compress(TEXT.encode()))
    assert command(text) == command(packed) == (TRANSLATED, "")
    (out := tmp_path / "out").touch(mode=0o600)
    assert command(text, "--output", out, "--beam", "2", "--search", "groundhog") == ("", "")
    assert out.read_text() == TRANSLATED
    assert out.stat().st_mode & 0o777 == 0o600  # as of the file that it replaces


def test_standard_input_is_lines_and_no_document(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (TEXT, PO):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(text.encode()))))
        if text == TEXT:
            assert command() == (TRANSLATED, "")
    with pytest.raises(InputError, match="standard input: a document"):
        command()


def test_text_in_another_language_is_doubted_once(command: Command, tmp_path: Path) -> None:
    (tmp_path / "text").write_text(f"{FRENCH}\n" * 9)
    (tmp_path / "a.po").write_text("\n".join(f'msgid "{FRENCH} {n}"\nmsgstr ""\n' for n in range(9)))
    doubts = [command(tmp_path / name, "--output", tmp_path / f"out.{name}")[1] for name in ("text", "a.po")]
    assert [doubt.count(": of 9 samples of the en text, 9 look like") for doubt in doubts] == [1, 1]
    assert command(tmp_path / "text", "--prepared")[1] == ""


def test_lines_that_cannot_be_read_are_named_and_left_blank(command: Command, tmp_path: Path) -> None:
    lines = [b"The dog sleeps.", b"\xff dog", b"x" * 200_000, b"The cat sleeps.\r"]
    (tmp_path / "text").write_bytes(b"\n".join(lines))
    out, err = command(tmp_path / "text")
    assert out == "le chien dort.\n\n\nle chat dort.\n"
    assert [line.partition("text, line ")[2][:1] for line in err.splitlines()] == ["2", "3"]


@needs_shipped_model
def test_translations_that_keep_markup_come_first_and_what_is_lost_is_named(command: Command, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("• Open the file\nSxS COM registration of {0} failed.\n")
    out, err = command(tmp_path / "text", "--model", SHIPPED_MODEL, "--beam", "1", "--max-len-b", "3")
    assert out.startswith("• ") and "{0}" not in out
    assert err == f"{tmp_path}/text, line 2: its translation lacks SxS, lacks {{0}}, ends with another sign\n"
    out, err = command(tmp_path / "text", "--model", SHIPPED_MODEL, "--beam", "12", "--nbest", "12")
    kept = ["{0}" in line for line in out.splitlines() if line.startswith("2\t")]
    assert kept[0] and not kept[-1] and kept == sorted(kept, reverse=True) and not err


def test_nbest_have_numbers_and_scores(command: Command, models: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text(TEXT)
    rows = [line.split("\t") for line in command(tmp_path / "text", "--nbest", "2")[0].splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "2", "3", "3", "4", "4"]
    assert rows[2] == ["2", "0.0000", ""]
    expected = rnnsearch_fairseq.load(models / "bahdanau_gru").translations("The dog sleeps.", nbest=2)
    assert [row[1:] for row in rows[:2]] == [[f"{one.score:.4f}", one.text] for one in expected]


@pytest.mark.parametrize(
    ("text", "options", "out"),
    [
        ("it &apos;s a cat .\n\n", ["--prepared"], "c&apos; est un chat .\n\n"),
        ("The dog\rsleeps.\n3\x0b4\u20285\n", [], "le chien dort.\n3 4 5\n"),  # ends of lines for other programs
    ],
)
def test_a_line_is_words_in_and_out(command: Command, tmp_path: Path, text: str, options: list[str], out: str) -> None:
    (tmp_path / "text").write_text(text)
    assert command(tmp_path / "text", *options)[0] == out


def test_unknown_words_are_replaced_by_source_words_or_their_translations(
    models: Path, command: Command, tmp_path: Path
) -> None:
    state = make_checkpoint()
    state["model"]["decoder.network.readout.to_vocabulary.bias"][3] = 1e3  # <unk> is the likeliest word
    torch.save(state, tmp_path / "unknown.pt")
    (tmp_path / "text").write_text("The Zebra sleeps.\n")
    (tmp_path / "dictionary").write_text("zebra zèbre 3\nsleeps dort 2\n")
    options = ("--max-len-b", "6", "--model", tmp_path / "unknown.pt", tmp_path / "text")
    assert set(command(*options)[0].split()) == {"<unk>"}
    copied = command(*options, "--replace-unknown")[0]
    assert "<unk>" not in copied
    assert set(copied.replace(".", "").split()) <= {"the", "zebra", "sleeps"}
    translated = command(*options, "--replace-unknown", tmp_path / "dictionary")[0]
    assert translated == copied.replace("zebra", "zèbre").replace("sleeps", "dort")


def test_trees_are_read_line_by_line(command: Command, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("the dog sleeps .\nthe cat sleeps .\n1,000.42\n")
    (tmp_path / "trees").write_text(f"{PARSES[0]}\n{PARSES[0]}\n-\n")
    out, err = command(tmp_path / "text", "--trees", tmp_path / "trees", model="tree2seq_small")
    assert out == "le chien dort.\n\n1,000.42\n"
    assert "text, line 2: leaf 2 of the parse is 'dog', but word 2 is 'cat'" in err
    for trees, message in (("-\n-\n", "ends before line 3"), ("-\n" * 4, "has more lines than the text")):
        (tmp_path / "trees").write_text(trees)
        with pytest.raises(InputError, match=message):
            command(tmp_path / "text", "--trees", tmp_path / "trees", model="tree2seq_small")


def test_a_line_is_translated_before_the_next_one_comes(models: Path, tmp_path: Path) -> None:
    words, pipes = ["rnnsearch", "translate", "--model", models / "bahdanau_gru"], ("stdin", "stdout", "stderr")
    with subprocess.Popen(words, cwd=tmp_path, text=True, **dict.fromkeys(pipes, subprocess.PIPE)) as process:
        assert process.stdin and process.stdout
        for line, expected in (("The dog sleeps.", "le chien dort.\n"), ("", "\n")):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            assert process.stdout.readline() == expected
        assert process.communicate() == ("", "")  # no progress bar in a pipe


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_folder_gives_a_whole_folder(command: Command, tmp_path: Path) -> None:
    files = {
        "de.po": HEADER.replace("Content-Type", "Language: de\\nContent-Type") + PO[len(HEADER) :],
        "de/LC_MESSAGES/a.po": PO,
        "b/c.xlf": XLIFF.format("<target>fait</target>"),
        "docs/a.md": "The dog sleeps.\n",
        "b.html": "<p>The black cat eats.",
        "docs/c.png": "\0",
        "c.ts": "var a",
        "d.gz": "as it is",
        "old.pot": PO,
    }
    for name, text in {**files, ".git/config": "a", "node_modules/a/README.md": "b", "a.po": PO}.items():
        write(tmp_path / "in" / name, text)
    (tmp_path / "in/docs/c.png").chmod(0o755)
    (tmp_path / "in" / "folder.po").mkdir()
    os.mkfifo(tmp_path / "in" / "pipe.po")
    for name, target in {"loop.po": "loop.po", "docs/a.fr.md": "a.md", "latest": "docs"}.items():
        (tmp_path / "in" / name).symlink_to(target)
    _, report = command(tmp_path / "in", "--output", tmp_path / "out", "--beam", "2")
    assert report == (
        f"{tmp_path / 'in/de/LC_MESSAGES/a.po'}: copied as it is: asks for 'de', and the model writes fr\n"
        f"{tmp_path / 'in/de.po'}: copied as it is: asks for 'de', and the model writes fr\n"
        "documents: 4; texts that keep their translation: 2; texts to translate: 5; translated: 5; equal "
        "to their source: 1; marked for review: 3; copied as they are: "
        "3 .po, 1 .ts, 1 .gz, 1 .md, 1 .png, 1 latest, 1 .pot\n"
    )
    assert (tmp_path / "out/latest").readlink() == Path("docs")
    assert (tmp_path / "out/docs/a.fr.md").readlink() == Path("a.md")
    paths = [path for path in (tmp_path / "out").rglob("*.*") if path.is_file() and not path.is_symlink()]
    written = {str(path.relative_to(tmp_path / "out")): path.read_text() for path in paths}
    assert (tmp_path / "out/docs/c.png").stat().st_mode & 0o777 == 0o755
    filled = written.pop("a.po")
    assert written == {**files, "docs/a.md": "le chien dort.\n", "b.html": "<p>le chat noir mange."}
    for text in (
        '#, fuzzy\nmsgid "The dog sleeps.\\n"\nmsgstr "le chien dort.\\n"',
        'msgstr[0] "le chat dort."\nmsgstr[1] ""\n"le chat noir mange.\\n"\n"\\n"\n"  c\'est un chat."',
        'msgstr "Il dort."\n\n#, fuzzy\nmsgid "%s: ``--help``"\nmsgstr "%s: ``--help``"',
    ):
        assert text in filled


def test_faults_and_empty_translations_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = {"Dog is %s.": ("Ouvrez.", ["lacks %s"]), "Dog has it, and Dog does": ("Arrêter", []), "Wait": ("", [])}
    answers = {source: [SimpleNamespace(text=text, faults=faults)] for source, (text, faults) in texts.items()}
    path = write(tmp_path / "a.po", HEADER + "".join(f'msgid "{source}"\nmsgstr ""\n\n' for source in answers))
    translator = SimpleNamespace(
        languages=("en", "fr"),
        reader=Reader(),
        read_text=lambda text, *_: SimpleNamespace(passage=Passage(text)),
        search=lambda texts: [answers[text.passage.text] for text in texts],
    )
    translate_documents(translator, path, tmp_path / "b.po")
    translations = [text.split('"')[1] for text in (tmp_path / "b.po").read_text().split("msgstr ")[2:]]
    assert translations == ["Ouvrez.", "Arrêter", ""]
    names, first, second, report = capsys.readouterr().err.replace(f"{path}, line ", "").splitlines()
    assert names.endswith(": Dog") and translator.reader.terms.kept.search("Dog")
    assert first == "4: 'Dog is %s.': its translation lacks %s"
    assert second == "10: 'Wait': left as it is: its translation is empty"
    assert "translate: 3; translated: 2; marked for review: 2; with" in report and report.endswith("named above: 1")


def test_what_is_not_translated_is_left_and_named(command: Command, tmp_path: Path) -> None:
    forms = 'msgid "{N, plural, =1 {a} other {b}}"\nmsgstr ""\n\n'
    plural = 'msgid "The dog sleeps."\nmsgid_plural "Cats eat."\nmsgstr[0] "le chien"\nmsgstr[1] ""\n\n'
    text = f'{HEADER}{forms}msgid "{"dog " * 30_000}"\nmsgstr ""\n\n{plural}msgctxt "nothing"\nmsgid ""\nmsgstr ""\n'
    _, report = command(write(tmp_path / "a.po", text), "--output", tmp_path / "b.po")
    assert "a.po, line 4: '{N, plural, =1 {a} other {b}}': left as it is: it has ICU's plural" in report
    assert re.search("a.po, line 7: .{1,60}: left as it is: it has 120,000 characters", report)
    assert "a.po, line 10: left as it is: not all its forms have a translation\n" in report
    assert report.endswith("texts that keep their translation: 1; texts to translate: 2; translated: 0\n")
    assert (tmp_path / "b.po").read_text() == text


REPLACED = "it would replace an input"
REFUSED = [
    ("nothing.po", r"nothing\.po: no such file"),
    ("text --beam 0", "--beam is 0"),
    ("text --model .", "give bahdanau_gru|give folder|give rnnencdec"),
    ("text --replace-unknown d", "line 1: not a word and its translation"),
    ("text --replace-unknown --model rnnencdec", "the model has no alignment"),
    ("a.rst", r"a\.rst: not plain text; give the \.po file"),
    ("text --output text", REPLACED),
    ("text --output x --alignments ./x", REPLACED),
    ("text --model folder --output folder/config.json", "it lies inside an input"),
    ("text --replace-unknown d --output d", REPLACED),
    ("text --model bahdanau_gru --output bahdanau_gru/checkpoints/checkpoint_best.pt", REPLACED),
    ("docs/a.po", "as --output"),
    ("docs/a.po --output out --nbest 2", "a document; leave out --nbest"),
    ("docs/a.po --output reviewed/sub/a.po", "reviewed/sub/a.po: is there already"),
    ("docs/a.po --output out.md", r"out\.md: a name of Markdown, but the input is not"),
    ("text --output out.po", r"out\.po: a name of PO, but the input is not"),
    ("docs --output reviewed", "reviewed/sub/a.po: is there already"),
    ("picture", "picture: not text"),
    ("latin.po --output out.po", r"latin\.po, line 6: not text in UTF-8"),
    ("docs --output docs/fr", "it lies inside an input"),
    ("empty --output out", "empty: holds no PO, XLIFF"),
    ("bad --output out", r"b\.po: not PO"),
    ("de.po --output out.po", r"de\.po: asks for 'de', and the model writes fr"),
    ("fr.html --output out.html", r"fr\.html: is in 'fr-CA', and the model reads en"),
    ("de.xlf --output out.xlf", r"de\.xlf: is in 'de', and the model reads en"),
    ("two.xlf --output out.xlf", r"two\.xlf: asks for 'fr, de', and the model writes fr"),
    ("fifo.po --output out", "fifo.po: not a regular file"),
    ("a.tmx --output out.tmx", r"a\.tmx: neither XLIFF"),
]


TARGETS = "".join(f'<file source-language="en" target-language="{name}"/>' for name in ("fr", "de", "fr-CA"))
FILES = dict.fromkeys(("docs/a.po", "docs/sub/a.po", "reviewed/sub/a.po", "bad/a.po", "empty/a.pot"), PO) | {
    "text": TEXT,
    "d": "zebra\n",
    "a.rst": TEXT,
    "picture": "PNG\0\nIDAT\n",
    "bad/b.po": "not PO",
    "de.po": 'msgid ""\nmsgstr "Language: de\\n"\n\nmsgid "a"\nmsgstr ""\n',
    "fr.html": "<html lang=fr-CA><p>un chien",
    "two.xlf": f'<xliff version="1.2">{TARGETS}</xliff>',
    "de.xlf": XLIFF.format("").replace("<file>", '<file source-language="de">'),
    "a.tmx": '<tmx version="1.4"><body/></tmx>',
}


def test_what_cannot_work_is_refused(
    command: Command, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        write(tmp_path / name, text)
    (tmp_path / "latin.po").write_bytes(f'{HEADER}#: a\nmsgid "a"\nmsgstr "é"\n'.encode("latin-1"))
    os.mkfifo(tmp_path / "fifo.po")
    export(str(models / "bahdanau_gru"), tmp_path / "folder")
    for name in ("bahdanau_gru", "rnnencdec"):
        (tmp_path / name).symlink_to(models / name)
    for words, message in REFUSED:
        with pytest.raises(InputError, match=message):
            command(*words.split())
        assert not [*tmp_path.glob("out*")]


NAMES = dict.fromkeys(("a.po.gz", "b.po.txt"), PO) | dict.fromkeys(("c.sdlxliff", "d.xml", "e.ts"), XLIFF.format(""))


@pytest.mark.parametrize(("name", "text"), NAMES.items())
def test_documents_are_recognised_by_their_content(command: Command, tmp_path: Path, name: str, text: str) -> None:
    path, output = tmp_path / "docs" / name, tmp_path / "out" / name
    write(path.with_name("a.ts"), "export const a = 1;\n")
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    assert command(path, "--output", output)[1].startswith("documents: 1; texts ")
    written = gzip.decompress(output.read_bytes()) if name.endswith("gz") else output.read_bytes()
    assert b"fuzzy" in written or b"needs-review-translation" in written
    assert not is_document(path.with_name("a.ts"))
