"""Markup: which spans are found, and that they come out as they went in."""

from pathlib import Path

import pytest

import rnnsearch_fairseq
from rnnsearch_fairseq.corpus import prepare
from rnnsearch_fairseq.text.codec import TextCodec
from rnnsearch_fairseq.text.markup import SYMBOLS, find_spans, mask, mask_pair, same_markup, unmask
from rnnsearch_fairseq.text.preparation import read_preparations
from tests.trained import train


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("Call ``f(x)`` and :py:func:`open`, then :func:`open`.", ["``f(x)``", ":py:func:`open`", ":func:`open`"]),
        ("See :ref:`the guide <guide-1>` or `a page <https://a.org/b>`_.", ["<guide-1>", "<https://a.org/b>"]),
        ("From https://a.org/b_c?d=1, <b>bold</b> &amp; |version| [1]_", None),
        ("%s of %(total)d, %.2f and {name} {0!r} {}", ["%s", "%(total)d", "%.2f", "{name}", "{0!r}", "{}"]),
        ("100% sure, 5 < 6, a | b, x{ y }, `a`, 50 %sure *and* so on", []),
        ("``a`` " * 3 + "``b`` ⟦1⟧", ["``a``", "``b``", "⟦1⟧"]),
    ],
)
def test_spans_of_markup(text: str, spans: list[str] | None) -> None:
    expected = ["https://a.org/b_c?d=1", "<b>", "</b>", "&amp;", "|version|", "[1]_"] if spans is None else spans
    assert find_spans(text) == expected
    assert unmask(mask(text, expected), expected) == text


def test_a_pair_shares_its_symbols_and_keeps_what_one_side_lacks() -> None:
    source, target = "Use ``a`` or :term:`tree`, not ``b``.", "Pas ``b`` mais ``a`` ou :term:`arbre <tree>`."
    assert mask_pair(source, target) == (
        "Use ⟦1⟧ or :term:`tree`, not ⟦2⟧.",
        "Pas ⟦2⟧ mais ⟦1⟧ ou :term:`arbre <tree>`.",
    )
    assert unmask("Pas ⟦2⟧ mais ⟦1⟧ ⟦9⟧.", ["``a``", "``b``"]) == "Pas ``b`` mais ``a``."
    assert same_markup("``a`` %s", "%s ``a``") and not same_markup("``a``", "``a`` ``a``")


def test_markup_is_prepared_and_translated_as_symbols(tmp_path: Path) -> None:
    words = ["call", "the", "new", "method", "of", "an", "object"]
    lines = [f"{' '.join(words[n % 5 :])} ``f{n}()`` or %s" for n in range(30)]
    pairs = [(f"{line} en", f"{line} fr") for line in lines]
    parts = dict.fromkeys(("train", "valid", "test"), pairs)
    _, preparation = prepare.prepare(parts, ("en", "fr"), tmp_path, prepare.Settings(sentencepiece=60))
    assert preparation == read_preparations(tmp_path)["en"] and preparation.markup
    assert all({"⟦1⟧", "⟦2⟧"} <= set(line.split()) for line in (tmp_path / "train.fr").read_text().splitlines())

    model = rnnsearch_fairseq.load(train(tmp_path / "run"))
    model.source_codec = model.target_codec = TextCodec(preparation, "en")
    source = model.read_source("call the method ``g(1)``, %s of ``g(1)``")
    assert source.spans == ["``g(1)``", "%s"]
    assert [word for word in source.words if word in SYMBOLS] == ["⟦1⟧", "⟦2⟧", "⟦1⟧"]
    target = model.read_target("the %s of ``g(1)``", source)
    assert [word for word in target if word in SYMBOLS] == ["⟦2⟧", "⟦1⟧"]
    assert model.decode(target, source) == "the %s of ``g(1)``"
