"""Parses to transitions: files in, a file of transitions and a report out, or what is wrong."""

from pathlib import Path

import pytest

from recipes.trees.transitions import main
from rnnsearch_fairseq.errors import InputError
from tests.recipes.reproduce.builders import printed_by, write

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
ENJU = [
    f'<sentence parse_status="{status}"><cons><tok>{word}</tok> <tok>b</tok></cons>.</sentence>'
    for status, word in (("success", "&quot;"), ("fragmental parse", "a"))
]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(source: list[str], parses: list[str], options: str) -> tuple[list[str], str]:
    """The lines that the command writes, and what it prints."""
    files = write(Path("text.en"), source), write(Path("text.parsed"), parses)
    printed = printed_by(main, *files, "--output", "text.tree", "--format", *options.split())
    return Path("text.tree").read_text().split("\n")[:-1], printed


@pytest.mark.parametrize(
    ("source", "parses", "options", "trees", "said"),
    [
        (SOURCE, PARSES, "penn", TREES, "6 sentences, 4 parsed"),
        (SOURCE, PARSES, "penn", TREES, "  1 without a parse: empty"),
        (SOURCE, PARSES, "penn", TREES, "  1 without a parse: unusable"),
        (["he slept in the us"], ["(S He slept (PP in (NP the US)))"], "penn --lowercase", ["S S S S S R R R R"], ""),
        (["a", "b c", "d"], ["(A a)", "(S b)", "(D d)"], "penn --mismatch no-parse", ["S", "-", "S"], "leaves are not"),
        (["&quot; b .", "a b ."], ENJU, "enju", ["S S R", "-"], "1 without a parse: status other than success"),
    ],
)
def test_each_line_of_the_source_has_its_tree(
    source: list[str], parses: list[str], options: str, trees: list[str], said: str
) -> None:
    lines, printed = run(source, parses, options)
    assert lines == trees and said in printed


@pytest.mark.parametrize(
    ("source", "parses", "form", "message"),
    [
        (
            ["a", "he slept"],
            ["(A a)", "(S he wept)"],
            "penn",
            r"text\.parsed, line 2: leaf 2 .* is 'wept', .*2 is 'slept'",
        ),
        (["he slept"], ["(S he slept .)"], "penn", r"leaf 3 of the parse is '\.', but word 3 is missing"),
        (["he slept"], ["(S he)"], "penn", "leaf 2 of the parse is missing, but word 2 is 'slept'"),
        (["go", "go"], ['<sentence parse_status="success"/>'] * 2, "penn", "--format penn"),
        (["go", "go"], ["(S go)"] * 2, "enju", "--format enju"),
        (SOURCE, PARSES[:-1], "enju", "ends at line 5"),
    ],
)
def test_what_does_not_fit_is_named_and_no_file_changes(
    source: list[str], parses: list[str], form: str, message: str
) -> None:
    write(Path("text.tree"), ["as before"])
    with pytest.raises(InputError, match=message):
        run(source, parses, form)
    assert Path("text.tree").read_text() == "as before\n"
    assert {path.name for path in Path().iterdir()} == {"text.en", "text.parsed", "text.tree"}


def test_bad_files_are_refused() -> None:
    write(Path("text.en"), ["a", "b"])
    Path("text.parsed").write_bytes(b"(A a)\n\xff\n")
    for output, message in (("text.tree", r"text\.parsed, line 2"), ("text.en", r"text\.en")):
        with pytest.raises(InputError, match=message):
            printed_by(main, "text.en", "text.parsed", "--format", "penn", "--output", output)
    assert Path("text.en").read_text() == "a\nb\n"
