"""Parses to transitions: files in, a file of transitions and a report out, or what is wrong."""

import re
import sys
from pathlib import Path

import pytest

from recipes.trees import transitions
from rnnsearch_fairseq.errors import InputError

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
        transitions.main()
        text = self.output.read_bytes().decode()
        assert text.endswith("\n")
        return text.split("\n")[:-1], self._capsys.readouterr().out

    def error(self, *options: str, form: str = "penn") -> str:
        """The message by which the command refuses its input, without a change to any file."""
        self.output.write_text("as before")
        before = sorted(self.output.parent.iterdir())
        with pytest.raises(InputError) as caught:
            self.run(*options, form=form)
        assert self.output.read_text() == "as before"
        assert sorted(self.output.parent.iterdir()) == before
        return str(caught.value)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Files:
    files = Files(tmp_path, monkeypatch, capsys)
    files.write(SOURCE, PARSES)
    return files


def test_each_line_of_the_source_has_its_tree(files: Files) -> None:
    lines, printed = files.run()
    assert lines == TREES
    assert "6 sentences, 4 parsed" in printed
    assert "  1 without a parse: empty" in printed and "  1 without a parse: unusable" in printed


def test_trees_over_several_lines(files: Files) -> None:
    pretty = [line for text in PARSES for line in [*text.replace(" (", "\n  (").split("\n"), ""]]
    files.write(SOURCE, pretty)
    assert files.run()[0] == TREES
    files.write(SOURCE, [*pretty, "(S (NN more))"])
    assert f"{len(pretty) + 1} lines" in files.error()
    files.write(["a", "b"], ["", "(A", "a)", "", "(B", "c)"])
    assert "text.parsed, line 5" in files.error()


@pytest.mark.parametrize(
    ("source", "parse", "message"),
    [
        ("he slept", "(S he wept)", "leaf 2 of the parse is 'wept', but word 2 is 'slept' in .*, line 2"),
        ("he slept", "(S he slept .)", "leaf 3 of the parse is '.', but word 3 is missing"),
        ("he slept", "(S he)", "leaf 2 of the parse is missing, but word 2 is 'slept'"),
    ],
)
def test_leaves_that_are_not_the_words_are_named(files: Files, source: str, parse: str, message: str) -> None:
    files.write(["a .", source, "b"], ["(A a)", parse, "(B b)"])
    assert re.search(rf"text\.parsed, line 2: {message}", files.error())
    lines, printed = files.run("--mismatch", "no-parse")
    assert lines == ["S", "-", "S"]
    assert "1 without a parse: leaves are not the source's words" in printed


def test_lowercase(files: Files) -> None:
    files.write(["he slept in the us"], ["(S He slept (PP in (NP the US)))"])
    assert files.run("--lowercase")[0] == ["S S S S S R R R R"]


def test_enju(files: Files) -> None:
    form = '<sentence parse_status="{}"><cons><tok>{}</tok> <tok>b</tok></cons>.</sentence>'
    files.write(["&quot; b .", "a b ."], [form.format("success", "&quot;"), form.format("fragmental parse", "a")])
    lines, printed = files.run(form="enju")
    assert lines == ["S S R", "-"]
    assert "1 without a parse: status other than success" in printed


@pytest.mark.parametrize(("form", "parse"), [("penn", '<sentence parse_status="success"/>'), ("enju", "(S go)")])
def test_the_wrong_format_is_refused(files: Files, form: str, parse: str) -> None:
    files.write(["go", "go"], [parse, parse])
    assert f"--format {form}" in files.error(form=form)


def test_bad_files_are_refused(files: Files) -> None:
    files.write(SOURCE, PARSES[:-1])
    assert "5 lines," in files.error(form="enju")
    files.parses.write_bytes(b"(A a)\n\xff\n")
    assert "text.parsed, line 2" in files.error()
    files.output = files.source
    with pytest.raises(InputError, match=r"text\.en"):
        files.run()
    assert files.source.read_text(encoding="utf-8").startswith("he slept")
