"""Markup: which spans are found, and that they come out as they went in."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import rnnsearch_fairseq
from rnnsearch_fairseq.text.markup import SYMBOLS, known_characters, mask, mask_pair, scan, unmask
from rnnsearch_fairseq.text.piece import Piece, Reader
from tests.trained import SHIPPED_MODEL, needs_shipped_model


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("Call ``f(x)`` and :py:func:`open`, then :func:`open`.", ["``f(x)``", ":py:func:`open`", ":func:`open`"]),
        ("See :ref:`the guide <guide-1>` or `a page <https://a.org/b>`_.", ["<guide-1>", "<https://a.org/b>"]),
        ("Run `pip install demo`, not {fab}`apple`.", "`pip install demo`|{fab}`apple`"),
        ("Read ```a\n``b`` c```.", "```a\n``b`` c```"),
        ("See [the list][opts] and ![the picture]({{< ref a >}}).", "[|][opts]|![|]({{< ref a >}})"),
        ("It is in |version| [1]_", "\\|version\\| [1]_"),
        ("The {{ size }} in {% if new %}new{% endif %}", "{{ size }}|{% if new %}|{% endif %}"),
        ("${path} or #{method}, {name}, {0!r}, {1:>10.2f} and {}", "${path}|#{method}|{name}|{0!r}|{1:>10.2f}|{}"),
        ("Move %2$s below %1$s, %.*s or %lu by %5.1f%%", "%2$s|%1$s|%.*s|%lu|%5.1f%%"),
        ("%(total)d, %@, %<count>d and %L3", "%(total)d|%@|%<count>d|%L3"),
        ("%%ARGS%% and %file%, then %subject to %email1", "%%ARGS%%|%file%|%subject|%email1"),
        ("Add :number words, $var in @channel by !user or __count__", ":number|$var|@channel|!user|__count__"),
        ("--no-cache, then -h or --file=a.txt in /etc/demo/a.ini", "--no-cache|-h|--file=a.txt|/etc/demo/a.ini"),
        ("Call os.path.join() or my_function(a, b) by me@a.org", "os.path.join()|my_function(a, b)|me@a.org"),
        ("Run `git clone <url>` and `a <b>`_ or :ref:`c d <e>`.", "`git clone <url>`|<b>|<e>"),
        ("It is x = 2 * y or 1.5 + 2.", "x = 2 * y|1.5 + 2"),
        ("Use &amp;lt; for it, &#x26; and &amp;#60;", "&amp;lt;|&#x26;|&amp;#60;"),
        ("git add [-v] [<file>]", "git add [-v] [<file>]"),
        ("all of it [-v] is seen", "[-v]"),
        ("See requests-oauthlib_ and so", "requests-oauthlib_"),
        ("GitHub has 1,000,000 of 3.14 and #12 &amp; $\\alpha$", "GitHub|1,000,000|3.14|#12 &amp; $\\alpha$"),
        ("{n, plural, one {a} other {{{n}} {b {c}}}}", "{n, plural, one {a} other {{{n}} {b {c}}}}"),
        ("$ ls -la /tmp/x\nOr 5.", "$ ls -la /tmp/x"),
        ('{\n  "a": {"b": {"c": {"d": [{}]}}}\n}', '{\n  "a": {"b": {"c": {"d": [{}]}}}\n}'),
        ("A [text](a/b.md) in src/a/b.c or `a <bytes-like object>`", "[|](a/b.md)|src/a/b.c|`a <bytes-like object>`"),
        ("It is {$ a.b $} and IPv4 by C++ 10000 times", "{$ a.b $}|IPv4|C++ 10000"),
        (":guilabel:`Save as`, :class:`a`\\s, :rfc:`1`\\ -like URLs", ":class:`a`|:rfc:`1`"),
        (":dfn:`a set`, cut/copy/paste, 4 GB", ""),
        ("{ref}`the guide <guide>`, {doc}`install` of [[Page]]", "{ref}`|<guide>|{doc}`install`|[[Page]]"),
        ("[b]a[/b], [url=https://a.org]x[/url] [size=9]y", "[b]|[/b]|[url=https://a.org]|[/url] [size=9]"),
        ("Is it %<PRIu64> by %1% for %0:s with %1$'.9d?", "%<PRIu64>|%1%|%0:s|%1$'.9d"),
        ("{{ user.name | upper }} or $(date) of $1", "{{ user.name \\| upper }}|$(date)|$1"),
        ("It is <%= a > b %>, <% if 3 < 4 %> or <%s> for $50", "<%= a > b %>|<% if 3 < 4 %>|<%s>"),
        ("At a.b.c:8080, ::name is text, x² &lt;Enter&gt;", "a.b.c:8080|::name|x² &lt;Enter&gt;"),
        ("See \\\\server\\a or ..\\b\\c, then $x^2 + y^2$ at $9", "\\\\server\\a|..\\b\\c|$x^2 + y^2$|$9"),
        ("<file path> in <b>, <br/> and <a href='a b'>", "<b>|<br/>|<a href='a b'>"),
        ("failed to run '%s' or “{0}”", "'%s'|“{0}”"),
        ("100% sure, 5 < 6, a | b, e.g. this and/or that, *and* so on: read-only, Yes!", ""),
        ("It is %%s (text/html) 201 and 20", "%%s|text/html|201"),
        ("``a`` or " * 3 + "``b`` for ⟦1⟧", "``a``|``b``|⟦1⟧"),
        ("It is {a}{b}, {{ size }} {{ unit }} or </kbd>+<kbd>", "{a}{b}|{{ size }} {{ unit }}|</kbd>+<kbd>"),
        ("'%s'/%s, %d, then [![a](b)", "'%s'/%s|%d|[![|](b)"),
        ("It costs 5 €, or £ 4.", "€|£"),
        ("h:mm a", "h:mm a"),
        ("Open `%s' of 'git-add'(1)", "`%s'|'git-add'(1)"),
        ("95 % d'intervalles de 5 s", ""),
        (
            "I</etc/a> of F<b>B</b> in {docdir}/examples for {price}/month",
            "I</etc/a>|F<b>|</b>|{docdir}/examples|{price}",
        ),
        (":py:class:`it <a.It>` of :term:`some its<it>`", ":py:class:`it <a.It>`|<it>"),
    ],
)
def test_spans_of_markup(text: str, spans: list[str] | str) -> None:
    if isinstance(spans, str):
        spans = [span.replace("\0", "|") for span in spans.replace("\\|", "\0").split("|") if span]
    assert scan(text).mask()[1] == spans
    assert unmask(mask(text, spans), spans) == text


def test_unknown_characters_other_scripts_and_signs_are_spans() -> None:
    known = known_characters(["▁café", "π", "字", "は"])
    assert {"é", "z", "π"} <= known and "試" not in known
    text = "Save 💾 the file of 試, the letter π → café…"
    assert scan(text, known).mask()[1] == (spans := ["💾", "試", "π →"])
    assert mask(text, spans, known) == "Save ⟦1⟧ the file of ⟦2⟧, the letter ⟦3⟧ café…"
    assert scan(text).mask()[1] == ["💾", "→"]
    assert scan("字は π は 試 は a", known).mask()[1] == ["試"]


def test_a_pair_shares_its_symbols_and_keeps_what_one_side_lacks() -> None:
    source, target = "Use ``a`` or :term:`tree`, not ``b``.", "Pas ``b`` mais ``a`` ou :term:`arbre <tree>`."
    masked = "Use ⟦1⟧ or :term:`tree`, not ⟦2⟧.", "Pas ⟦2⟧ mais ⟦1⟧ ou :term:`arbre <tree>`."
    assert mask_pair(source, target) == masked
    assert mask_pair("Run '%s' now", "Lancer « %s »") == ("Run '⟦1⟧' now", "Lancer « ⟦1⟧ »")
    assert mask_pair("%d/%s of %s", "%s de %d/%s") == ("⟦1⟧ of ⟦2⟧", "⟦2⟧ de ⟦1⟧")
    assert mask_pair("`a` in ``f(a)``", "``a`` : `a`") == ("⟦1⟧ in ``f(a)``", "``a`` : ⟦1⟧")
    assert unmask("Pas ⟦2⟧ mais ⟦1⟧ ⟦9⟧.", ["``a``", "``b``"]) == "Pas ``b`` mais ``a`` ⟦9⟧."


REPEATED = """` `` ``a `a `a< { {a {a,plural,{ {{ {% % %( %1$ %< %%a :a :a:` $ $a\\ @a !a a_ __ - --a= < <a <!--
#a ## << a/a/ *.a a::a Ctrl+ A-1 0x [a [^a [a_b= \\A @: $a(
a= a.= .a/ [a, a, a@ a. a@a. &#1 / /a ~/ a/ aa.aa( 1. # aA ⟦1 测 💾 \\ [ ![ [a ]( ](a](a" | |a {a. '%s' (( a* }
aB a1 a/a. /a.a <a` `_ {$ \\a a_a. C+ 1000, Aa AAa
$( $t(x $x^ %|a %<a usage:a [[a [b [b= &lt;a text/ \\\\a ..\\a a: a.a: $$a ::a"""


def test_work_is_in_proportion_to_the_text() -> None:
    """Four times the text takes about four times the lines of Python; the work inside patterns is not counted."""
    known = set(map(chr, range(128)))

    def count_lines(repeated: str, size: int) -> int:
        lines = 0

        def trace(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
            nonlocal lines
            lines += event == "line"
            return trace

        sys.settrace(trace)
        try:
            scan(repeated * (size // len(repeated)) + "!\n`>", known)
        finally:
            sys.settrace(before)
        return lines

    before = sys.gettrace()
    more = [" ", "<a don't ", "`a ", "&lt;a ", "a( ", "((a", "a-", "[a](b ", "%s ", "%s ``a`` ", "a(b "]
    for repeated in [*REPEATED.split(), *more]:
        assert count_lines(repeated, 2_000) < 6 * count_lines(repeated, 500) + 500, repeated


def test_names_that_a_model_does_not_know_are_kept() -> None:
    found = scan("Elgg uses (the Elgg-1) Elgg's Python, Elgg. Elgg `is` SBOM", words={"python"})
    assert found.spans == ["Elgg-1", "Elgg", "Elgg", "`is`", "SBOM"]
    assert not any(scan(text, words={}).spans for text in ("FIND SBOM", "Coordinators can", "Elgg, it"))
    assert scan("Leptos is <a0>espree</a0>", words={}).spans == ["Leptos", "<a0>", "espree", "</a0>"]
    assert scan("espree", words={}).spans == ["espree"] and scan("espree is", words={}).spans == []
    few, many = ("The Élgg" + "".join(map(" `{}` is".format, range(codes))) for codes in (8, 9))
    assert scan(few, words={}).spans[0] == "Élgg" and len(scan(many, words={}).spans) == 9
    assert scan("Picard's Elgg. Łukasz, Picard can", words={}).spans == ["Picard", "Elgg", "Łukasz", "Picard"]
    assert Piece("Łukasz", Reader(("en", "fr"), words=({"łukasz"}, None))).spans == ["Łukasz"]
    assert Piece("das Haus", Reader(("de", "fr"), words=({"das"}, None))).spans == []


@needs_shipped_model
def test_a_model_reads_and_writes_markup_as_symbols() -> None:
    model = rnnsearch_fairseq.load(SHIPPED_MODEL)
    source = model.read_source("call the method ``g(1)``, %s of ``g(1)``")
    assert source.piece.spans == ["``g(1)``", "%s"]
    assert [word for word in source.words if word in SYMBOLS] == ["⟦1⟧", "⟦2⟧", "⟦1⟧"]
    target = model.read_target("les %s de ``g(1)``", source)
    assert [word for word in target if word in SYMBOLS] == ["⟦2⟧", "⟦1⟧"]
    assert model.decode(target, source) == "les %s de ``g(1)``"

    source = model.read_source("CALL THE METHOD ``g(1)``")  # in capitals, but for markup
    assert source.words == model.read_source("Call the method ``g(1)``").words
    assert model.decode(model.read_target("LA MÉTHODE ``g(1)``", source), source) == "LA MÉTHODE ``g(1)``"
