"""Enju's XML and hostile parses, and the trees of the original's implementation."""

import json
from pathlib import Path

import pytest

from recipes.trees.transitions import READERS, read_enju
from rnnsearch_fairseq.text.trees import NoParse, Parse, first_difference
from tests.text.test_trees import nested

SHARED = Path(__file__).resolve().parents[4] / "shared"
ENJU, MODEL = SHARED / "data/enju", SHARED / "reference/tree2seq-model"


def enju(inside: str, status: str = "success") -> str:
    return f'<sentence id="s1" parse_status="{status}" fom="1.5">{inside}</sentence>'


def tok(word: str) -> str:
    return f'<cons id="c1" cat="N"><tok id="t1" cat="N" lexentry="[&lt;N&gt;]">{word}</tok></cons>'


@pytest.mark.parametrize(
    ("inside", "leaves", "transitions"),
    [
        (f"<cons>{tok('He')} {tok('slept')}</cons>.", "He slept", "S S R"),
        (f"<cons>{tok('Well')}? <cons>{tok('you')} {tok('come')}</cons></cons>?", "Well you come", "S S S R R"),
        (f"<cons>{tok('a')}{tok('b')}{tok('c')}</cons>", "a b c", "S S S R R"),
        (f"<cons>{tok('a')}<cons></cons>{tok(' ')}{tok('b')}</cons>", "a b", "S S R"),
        (tok("&lt;&amp;&quot;&apos;&gt;&#x61;&#98;é"), "<&\"'>abé", "S"),
        (tok("AT&amp;lt;T"), "AT&lt;T", "S"),
    ],
)
def test_enju(inside: str, leaves: str, transitions: str) -> None:
    parse = read_enju(f"{enju(inside)}\r\n")
    assert isinstance(parse, Parse)
    assert parse.words == leaves.split()
    assert parse.transitions == transitions


BOMB = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "ha" * 1000}">' for n in range(10))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (" \n", NoParse.EMPTY),
        (enju("<cons></cons>"), NoParse.EMPTY),
        (enju(tok("a"), "fragmental parse"), NoParse.STATUS),
        (f"<sentence>{tok('a')}</sentence>", NoParse.STATUS),
        ("(S (A a))", NoParse.UNUSABLE),
        (enju(tok("a") + tok("b")), NoParse.UNUSABLE),
        (enju(tok("a")) * 2, NoParse.UNUSABLE),
        (enju(tok("a"))[:-1], NoParse.UNUSABLE),
        (enju(tok("a")) + "a", NoParse.UNUSABLE),
        (enju(tok("a & b")), NoParse.UNUSABLE),
        (f"<!DOCTYPE sentence [{BOMB}]>{enju(tok('&e9;'))}", NoParse.UNUSABLE),
        (f'<!DOCTYPE sentence [<!ENTITY e SYSTEM "file:///etc/passwd">]>{enju(tok("&e;"))}', NoParse.UNUSABLE),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else value.name,
)
def test_enju_without_a_tree(text: str, reason: NoParse) -> None:
    assert read_enju(text) is reason


@pytest.mark.skipif(not (ENJU.is_dir() and MODEL.is_dir()), reason=f"not ours to ship, and not there: {ENJU}, {MODEL}")
@pytest.mark.parametrize(("split", "phrases"), [("train", 3542), ("dev", 105)])
def test_enju_trees_are_those_of_the_original(split: str, phrases: int) -> None:
    stored = json.loads((MODEL / ("train_ids.json" if split == "train" else "softmax.json")).read_text())
    references = stored if split == "train" else stored["dev"]
    sources, parses = ((ENJU / f"{split}.{side}").read_text().split("\n")[:-1] for side in ("en", "enju"))
    found = 0
    for source, text, reference in zip(sources, parses, references, strict=True):
        parse = read_enju(text)
        assert isinstance(parse, Parse)
        assert nested(parse.tree) == reference["tree"]
        assert first_difference(parse.words, source.split(), lowercase=True) is None
        assert len(reference["src"]) == len(source.split()) + 1, "the original's words are the source's"
        if "phrase_spans" in reference:
            assert parse.tree.spans() == [tuple(span) for span in reference["phrase_spans"]]
        found += len(parse.tree.splits)
    assert found == phrases


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("penn", "(" * 10**6),
        ("penn", "(X" + " a" * 100_000 + ")"),
        ("penn", "(X " + "-LRB-&quot;" * 90_000 + ")"),
        ("enju", '<sentence parse_status="success">' + "<cons>" * 160_000),
        ("enju", '<sentence parse_status="success"' + "".join(f" a{n}=''" for n in range(100_000)) + "/>"),
        ("enju", enju("<cons>" + "<tok>a</tok>" * 20_000 + "</cons>")),
    ],
    ids=lambda value: value[:12].strip("<>"),
)
def test_hundreds_of_thousands_of_characters_are_read(form: str, text: str) -> None:
    parse = READERS[form](text)
    if isinstance(parse, Parse):
        assert len(parse.transitions) == 4 * parse.tree.leaves - 3
        assert first_difference(parse.words, parse.words[::-1], lowercase=True) is None
