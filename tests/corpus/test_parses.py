"""`rnnsearch trees`: files in, a file of transitions and a report out, or what is wrong."""

import sys
from pathlib import Path

import pytest

from rnnsearch_fairseq.corpus import parses
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.lines import check_parallel

ENJU = Path(__file__).resolve().parents[3] / "shared/data/enju"

SOURCE = ["he slept .", "", "the man sleeps", "( why )", "no tree here", "go"]
PARSES = [
    "(S (NP (PRP he)) (VP (VBD slept)) (. .))",
    "(())",
    "(S (NP (DT the) (NN man)) (VP sleeps))",
    "(S (-LRB- -LRB-) (WRB why) (-RRB- -RRB-))",
    "(S (DT no) (NN tree",
    "(S (VB go))",
]
TREES = ["S S S R R", "-", "S S R S R", "S S S R R", "-", "S"]
REPORT = """\
6 sentences, 4 parsed: 10 words, 0 of them outside the trees; 6 phrase nodes
2 without a parse:
  1 empty (the first is sentence 2)
  1 unusable (the first is sentence 5)
-> {output}
"""


class Files:
    """A source, its parses and the trees that the command makes of them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.source, self.parses, self.output = (folder / name for name in ("text.en", "text.parsed", "text.tree"))
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def write(self, source: list[str], parses: list[str]) -> None:
        for path, lines in ((self.source, source), (self.parses, parses)):
            path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")

    def run(self, *options: str, form: str = "penn") -> tuple[list[str], str]:
        """The lines that the command writes, and what it prints."""
        command = ["trees", str(self.source), str(self.parses), "--format", form, "--output", str(self.output)]
        self._monkeypatch.setattr(sys, "argv", [*command, *options])
        parses.main()
        text = self.output.read_bytes().decode()
        assert text.endswith("\n")
        return text.split("\n")[:-1], self._capsys.readouterr().out

    def error(self, *options: str, form: str = "penn") -> str:
        """What the command says when it refuses its input; it must leave no file, and none that was there changed."""
        self.output.write_text("as before")
        before = sorted(self.output.parent.iterdir())
        with pytest.raises(InputError) as caught:
            self.run(*options, form=form)
        assert self.output.read_text() == "as before"
        assert sorted(self.output.parent.iterdir()) == before
        message = str(caught.value)
        assert "\n" not in message and not message.endswith(".") and "; " in message
        return message.replace(f"{self.output.parent}/", "")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Files:
    files = Files(tmp_path, monkeypatch, capsys)
    files.write(SOURCE, PARSES)
    return files


def test_each_line_of_the_source_has_its_tree(files: Files) -> None:
    lines, printed = files.run()
    assert lines == TREES
    assert printed == REPORT.format(output=files.output)
    assert check_parallel([files.source, files.output]) == 6


def test_trees_over_several_lines(files: Files) -> None:
    pretty = [line for text in PARSES for line in [*text.replace(" (", "\n  (").split("\n"), ""]]
    assert len(pretty) > len(SOURCE)
    files.write(SOURCE, pretty)
    assert files.run()[0] == TREES
    files.write(SOURCE, [*pretty, "(S (NN more))"])
    message = files.error()
    assert message == (
        f"text.parsed has {len(pretty) + 1} lines and 7 trees, but text.en has 6 lines; "
        "give one parse for each line of it"
    )


@pytest.mark.parametrize(
    ("source", "parse", "message"),
    [
        ("he slept", "(S he wept)", "leaf 2 is 'wept', but word 2 of text.en, line 2 is 'slept'; give the text"),
        ("he slept", "(S he slept .)", "leaf 3 is '.', but text.en, line 2 ends; give the text"),
        ("he slept", "(S he)", "the tree ends, but word 2 of text.en, line 2 is 'slept'; give the text"),
        ("he slept", "(S He slept)", "leaf 1 is 'He', but word 1 of text.en, line 2 is 'he'; give --lowercase"),
        ("a", f"(S {'b' * 99999})", f"leaf 1 is '{'b' * 57}...', but word 1 of text.en, line 2 is 'a'; give the text"),
    ],
)
def test_leaves_that_are_not_the_words_are_named(files: Files, source: str, parse: str, message: str) -> None:
    files.write(["a .", source, "b"], ["(A a)", parse, "(B b)"])
    assert files.error().startswith(f"text.parsed, line 2: {message}")
    lines, printed = files.run("--mismatch", "no-parse")
    assert lines == ["S", "-", "S"]
    assert "3 sentences, 2 parsed: 3 words, 1 of them outside the trees; 0 phrase nodes\n1 without" in printed
    assert "  1 leaves are not the source's words (the first is sentence 2)\n" in printed


def test_the_line_of_a_tree_over_several_lines_is_named(files: Files) -> None:
    files.write(["a", "b"], ["", "(A", "a)", "", "(B", "c)"])
    assert files.error().startswith("text.parsed, line 5: leaf 1 is 'c', but word 1 of text.en, line 2 is 'b'; ")


def test_lowercase(files: Files) -> None:
    files.write(["he slept in the us"], ["(S He slept (PP in (NP the US)))"])
    assert files.run("--lowercase")[0] == ["S S S S S R R R R"]
    files.write(["He slept"], ["(S He slept)"])
    assert files.error("--lowercase").endswith("'He'; leave out --lowercase, since this text has capitals")


def test_enju(files: Files) -> None:
    form = '<sentence parse_status="{}"><cons><tok>{}</tok> <tok>b</tok></cons>.</sentence>'
    files.write(["&quot; b .", "a b ."], [form.format("success", "&quot;"), form.format("fragmental parse", "a")])
    lines, printed = files.run(form="enju")
    assert lines == ["S S R", "-"]
    assert (
        "2 sentences, 1 parsed: 3 words, 1 of them outside the trees; 1 phrase nodes\n1 without a parse:\n" in printed
    )
    assert "  1 status other than success (the first is sentence 2)\n" in printed


@pytest.mark.parametrize(("form", "parse"), [("penn", '<sentence parse_status="success"/>'), ("enju", "(S go)")])
def test_the_wrong_format_is_refused(files: Files, form: str, parse: str) -> None:
    files.write(["go", "go"], [parse, parse])
    message = f"text.parsed: nothing in it can be read as --format {form}; give the format that it is in"
    assert files.error(form=form) == message


def test_bad_files_are_refused(files: Files) -> None:
    files.write(SOURCE, PARSES[:-1])
    # The tree that is cut short goes on to the last line.
    assert files.error().startswith("text.parsed has 5 lines and 5 trees, but text.en has 6 lines; ")
    assert files.error(form="enju").startswith("text.parsed has 5 lines, but text.en has 6 lines; ")
    files.parses.write_bytes(b"(A a)\n\xff\n")
    assert files.error().startswith("text.parsed, line 2: byte 0xff at column 1 is not UTF-8; ")
    files.output = files.source
    with pytest.raises(InputError, match="would replace an input; give another name"):
        files.run()
    assert files.source.read_text(encoding="utf-8").startswith("he slept")


@pytest.mark.skipif(not ENJU.is_dir(), reason=f"not ours to ship, and not there: {ENJU}")
def test_the_enju_sentences_of_the_original(files: Files) -> None:
    files.source, files.parses = ENJU / "train.en", ENJU / "train.enju"
    lines, printed = files.run("--lowercase", form="enju")
    assert len(lines) == 500
    assert "".join(lines).count("R") == 3542
    assert "500 sentences, 500 parsed: 4,539 words, 497 of them outside the trees; 3,542 phrase nodes\n0 " in printed
    assert "give --lowercase" in files.error(form="enju")
