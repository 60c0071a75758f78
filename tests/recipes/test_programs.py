"""Programs of the recipes that read files and write files: what they write and print, and what they refuse."""

import importlib
import re
import subprocess
from pathlib import Path

import pytest

from rnnsearch_fairseq.errors import InputError
from tests.commands import printed_by
from tests.plugin.log_lines import inner_line, valid_line
from tests.recipes.reproduce.builders import record, write
from tests.recipes.reproduce.test_alignments import FIRST, SECOND

Files = dict[str, list[str]]  # the lines of files, by their names


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(command: str, files: Files) -> str:
    """What a program prints that is called on these files."""
    for name, lines in files.items():
        write(Path(name), lines)
    program, *words = command.split()
    return printed_by(importlib.import_module(f"recipes.{program}").main, *words)


def choose(lines: list[str], *numbers: int) -> list[str]:
    return [lines[number] for number in numbers]


def split(files: Files) -> Files:
    return {name: "\n".join(lines).splitlines() for name, lines in files.items()}


def read_all() -> Files:
    files = (path for path in Path().rglob("*") if path.is_file())
    return {str(path): path.read_text(encoding="utf-8").splitlines() for path in files}


TEXT = {
    "all.en": ["a b c", "a b c d", "a", "", "a b", "a b c"],
    "all.ja": ["x y z", "x", "w x y z", "x", "x y", "x"],
    "all.tree": ["S S R S R", "S S R S R S R", "S", "-", "-", "S S S R R"],
}
ALL = ("en", "ja", "tree")
LIMIT = "trees.limit all out -s en -t ja --max-words"
PENN = {
    "en": ["he slept .", "", "the man sleeps", "( why )", "no tree here", "go"],
    "parses": [
        "(S (NP (PRP he)) (VP (VBD slept)) (. .))",
        "(())",
        "(S (NP (DT the) (NN man)) (VP sleeps))",
        "(S (-LRB- -LRB-) (WRB why) (-RRB- -RRB-))",
        "(S (DT no) (NN tree",
        "(S (VB go))",
    ],
}
WITHOUT_A_PARSE = "6 sentences, 4 parsed -> tree\n  1 without a parse: empty.*\n  1 without a parse: unusable"
UPPER = {"en": ["he slept in the us"], "parses": ["(S He slept (PP in (NP the US)))"]}
ENJU = {
    "en": ["&quot; b .", "a b ."],
    "parses": [
        f'<sentence parse_status="{status}"><cons><tok>{word}</tok> <tok>b</tok></cons>.</sentence>'
        for status, word in (("success", "&quot;"), ("fragmental parse", "a"))
    ],
}
TRANSITIONS = "trees.transitions en parses --output tree --format"
CONTROLS = "trees.controls trees --output out --kind"
COUNTS = ["# source words, target words, pairs; without end-of-sentence", "0\t1\t1", "1\t3\t1", "3\t2\t2"]
COUNTED = {"en": ["a b c", "a b c", "", "a"], "ja": ["x y", "x y", "x", "z z z"]}
LENGTHS = [1] * 20 + [10, 15, 21, 99] + [35] * 4
ALL_LENGTHS = [f"{number}@@ " + " ".join("s" * length) for number, length in enumerate(LENGTHS)]
PAGE = """<?xml version="1.0"?>
<refentry xmlns="http://docbook.org/ns/docbook"><refnamediv><refpurpose>{}</refpurpose></refnamediv>
 &reftitle.description;
 <para>{}<programlisting>echo 1;</programlisting>{}</para>
 <!-- no text --><simpara>{}</simpara>
</refentry>"""
ENGLISH = (
    "Split a string",
    "<function>explode</function> returns &true; or an <type>array</type>:",
    "It is <emphasis>not</emphasis> a\n <link linkend='x'>list</link>.",
    "See <xref linkend='y'/>.",
)
FRENCH = (
    "Scinde une chaîne",
    "<function>explode</function> retourne &true; ou un <type>array</type> :",
    "Ce n'est <emphasis>pas</emphasis> une <link linkend='x'>liste</link>.",
    "Voir <xref linkend='y'/>.",
)
MANUAL = {
    "doc-en/a/explode.xml": [PAGE.format(*ENGLISH)],
    "doc-fr/a/explode.xml": [PAGE.format(*FRENCH)],
    "doc-en/differs.xml": [PAGE.format(*ENGLISH[:3], "<note><para>One more block.</para></note>")],
    "doc-fr/differs.xml": [PAGE.format("Autre", *FRENCH[1:])],
    "doc-fr/only.xml": [PAGE.format(*FRENCH)],
}
JAPANESE = {  # has no blanks between words
    f"doc-{language}/a.xml": [f"<para>{text}</para>"]
    for language, text in (("en", "Go to the end of the list"), ("ja", "最後へ移動"))
}
PAGES = {
    "en/a.md": ["# A title", "", "Read [it](/en/b.md).", "", "Only in English, and long.", "", "Open `a` 2 times."],
    "fr/a.md": ["# Un titre", "", "Lisez [ceci](/fr/b.md).", "", "Ouvrez `a` 2 fois."],
}
ALIGNED = ["A title\tUn titre", "Open `a` 2 times.\tOuvrez `a` 2 fois.", "Read <a0>it</a0>.\tLisez <a0>ceci</a0>."]
MESSAGES = {"train": ["Delete the selected files", "Open a file"], "valid": ["Close it"], "test": ["Save"]}
MESSAGES["held_out"] = ["Delete the selected file"]
COPIED = {f"{part}.{side}": lines for part, lines in MESSAGES.items() for side in ("en", "fr")}
PIECES = {f"out/{name}": lines for name, lines in COPIED.items() if not name.startswith("held_out")}
PIECES |= {f"out/train.{side}": ["Open a file"] for side in ("en", "fr")}
IN_THE_SAME_PLACE = [
    "Split a string\tScinde une chaîne",
    "``explode()`` returns ``true`` or an ``array``:\t``explode()`` retourne ``true`` ou un ``array`` :",
    "It is *not* a list.\tCe n'est *pas* une liste.",
]
TOKENS = {"fr": ["a b c d"], "one": ["a b c d"], "two": ["b a c d"]}
RECORDS = [record(0, "a b c", "w x y z", FIRST), record(1, "d", "v", SECOND)]
SCORES = {"scores": RECORDS, "en": ["a b c", "d"], "fr": ["w x y z", "v"]}


FOUR, SAME = "S S S S R R R", "S S R S R"
PAIRS = ["en", "fr"]


@pytest.mark.parametrize(
    ("command", "files", "written", "printed"),
    [
        (f"{LIMIT} 3", TEXT, {"out.en": ["a b c", "a b", "a b c"], "out.ja": ["x y z", "x y", "x"]}, "3 pairs"),
        (f"{LIMIT} 4 --trees tree", TEXT, {f"out.{side}": choose(TEXT[f"all.{side}"], 0, 1, 2, 5) for side in ALL}, ""),
        ("trees.lengths en ja --output out", COUNTED, {"out": COUNTS}, "4 pairs, 3 source lengths"),
        (f"{CONTROLS} right", {"trees": [SAME, "-", "S"]}, {"out": ["S S S R R", "-", "S"]}, ""),
        (f"{CONTROLS} random", {"trees": [FOUR] * 3}, {"out": [FOUR, "S S S R S R R", "S S R S S R R"]}, ""),
        (f"{TRANSITIONS} penn", PENN, {"tree": ["S S S R R", "-", SAME, "S S S R R", "-", "S"]}, WITHOUT_A_PARSE),
        (f"{TRANSITIONS} penn --lowercase", UPPER, {"tree": ["S S S S S R R R R"]}, ""),
        (f"{TRANSITIONS} enju", ENJU, {"tree": ["S S R", "-"]}, "1 without a parse: status other than success"),
        (
            "docs_en_fr.lengths text out -s en -t fr --most 3 --longest 20",
            {f"text.{side}": ALL_LENGTHS for side in PAIRS},
            {f"out.{side}": choose(ALL_LENGTHS, 2, 4, 18, 21, 22, 23, 26) for side in PAIRS},
            "7 of 28 pairs",
        ),
        ("docs_en_fr.php_manual . php.tsv", MANUAL, {"php.tsv": IN_THE_SAME_PLACE}, ""),
        ("docs_en_fr.php_manual . php.tsv ja", JAPANESE, {"php.tsv": ["Go to the end of the list\t最後へ移動"]}, ""),
        ("docs_en_fr.markdown_pages en fr out", PAGES, {"out": ALIGNED}, ""),
        ("docs_en_fr.passages . out", COPIED, PIECES, ": 1 p"),
        ("reproduce.unknown_words scores en fr out", SCORES, {"out": ["a w", "b x", "c z", "d v"]}, ""),
        ("reproduce.token_scores fr one two", TOKENS, {}, "one\tBLEU 100.00\tRIBES 100.00\ntwo\tBLEU .*\tRIBES 83.33"),
    ],
)
def test_files_are_written(command: str, files: Files, written: Files, printed: str) -> None:
    text = run(command, files)
    assert read_all() == split(files | written)
    assert re.search(printed, text), text


LOG = [inner_line(50, 90), valid_line(1, 5)]
CURVE = "reproduce.curve train.log --output"
OTHER = {"en": ["he slept"], "parses": ["(S he wept)"], "tree": ["as before"]}


@pytest.mark.parametrize(
    ("command", "files", "message"),
    [
        (LIMIT.replace("out", "all") + " 3", TEXT, r"all\.en"),
        (f"{LIMIT} 3 --trees tree", TEXT | {"all.tree": ["-"] * 6}, "--max-words 3"),
        ("trees.lengths en ja --output out", {"en": ["a", "b"], "ja": ["x"]}, "ja: ends at line 1"),
        (f"{TRANSITIONS} penn", OTHER, "parses, line 1: leaf 2 .* is 'wept', .*2 is 'slept'"),
        (f"{TRANSITIONS} penn", OTHER | {"parses": ['<sentence parse_status="success"/>']}, "--format penn"),
        (f"{TRANSITIONS} enju", OTHER | {"parses": ["(S he slept)"]}, "--format enju"),
        (f"{TRANSITIONS} enju --output en", OTHER, "en: it would replace an input"),
        ("docs_en_fr.php_manual . out", {"doc-en/a.xml": ["<a/>"], "doc-fr/b.xml": ["<a/>"]}, "clone both"),
        ("reproduce.unknown_words scores en fr out", SCORES | {"fr": ["w x y", "v"]}, "scores, line 1: not the words"),
        (f"{CURVE} c.png --measure bleu", {"train.log": LOG}, r"train\.log: .*--eval-bleu"),
        (f"{CURVE} c.png", {"train.log": LOG[:1]}, r"train\.log: holds no perplexity"),
        (f"{CURVE} train.log", {"train.log": LOG}, r"train\.log: it would replace"),
        ("reproduce.compare fr en", SCORES, "'en': not NAME=FILE"),
        ("reproduce.eriguchi_tables . --reference fr --output out", SCORES, "holds no run"),
        ("reproduce.report runs -s en -t fr --output out", {}, "runs: holds no run"),
        ("wmt14_en_fr.selection all in in -s en -t ja --words 5", {"in.en": ["a"]}, r"in\.en: it would"),
    ],
)
def test_what_does_not_fit_is_refused_and_no_file_changes(command: str, files: Files, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(command, files)
    assert read_all() == split(files)


def commit(clone: str, page: str) -> str:
    """Commit the only page of a clone."""
    write(Path(clone, "a.md"), [page])
    git = "git init -q && git add . && git -c user.name=a -c user.email=a commit -qm a && git rev-parse HEAD"
    return subprocess.run(["sh", "-c", git], check=True, stdout=subprocess.PIPE, text=True, cwd=clone).stdout.strip()


def test_of_a_page_the_newest_version_by_a_person_is_written_beside_its_original() -> None:
    old, new = commit("en", "Old"), commit("en", "New")
    page = "---\nms.sourcegitcommit: {}\nms.translationtype: {}\n---\n{}# {}"
    for original, kind, text in (old, "HT", "Vieux"), (new, "HT", "Nouveau"), (new, "MT", "Neuf"), (40 * "0", "H", "X"):
        commit("fr", page.format(original, kind, '<a name="new"></a>', text))
    run("docs_en_fr.microsoft_pages en fr out", {})
    assert Path("out/en/a.md").read_text() == "New\n"
    assert Path("out/fr/a.md").read_text() == page.format(new, "HT", "", "Nouveau\n")
