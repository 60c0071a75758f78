"""HTML pages and fragments: what is text, and that all the rest stays byte for byte."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnsearch_fairseq.documents.formats import read_document
from rnnsearch_fairseq.documents.html import read_html

PARTS = """
    < > </ a p " ' = & &lt; &amp <!-- --> <! <? script <script> </script> <textarea> </textarea> é 😀 / title=" <p>
    </p> <b> </b> <i\tx=1> </i> <code> </code> <li\ttranslate=no> </ul> <img\talt=" alt=x> <html\tlang=en> word </>
"""


def shout(text: str) -> str:
    """The text in capital letters, but for tags and references."""
    return re.sub(r"<[^<>]*>|&\w+;|[^<&]+|.", lambda part: part[0] if part[0][0] in "<&" else part[0].upper(), text)


def translate(html: str) -> str:
    document = read_html(html)
    assert bytes(document.store).decode() == html
    for unit in document.units:
        assert unit.fill([shout(unit.sources[0])]) == []
    return document.write("fr").decode()


@pytest.mark.parametrize(
    ("html", "sources", "written"),
    [
        ('<a title="a > b">Open</a>', ["a > b", '<a id="0">Open</a>'], '<a title="A &gt; B">OPEN</a>'),
        ("<!-- the dog <b> sleeps --> a", ["a"], "<!-- the dog <b> sleeps --> A"),
        ('<script>alert("the dog")</script>', [], None),
        ("<style>body { color: red }</style>", [], None),
        ("<pre>open</pre><textarea>it</textarea><noscript>a</noscript><iframe>b</iframe>", [], None),
        ("<!DOCTYPE html><?php open() ?><![CDATA[it]]>", [], None),
        (
            "You can <strong>not</strong> delete it.",
            ["You can <strong>not</strong> delete it."],
            "YOU CAN <strong>NOT</strong> DELETE IT.",
        ),
        (
            "Press <kbd>Ctrl</kbd>+<kbd>C</kbd> to <a href='q'>quit</a>.",
            ['Press <x id="1"/>+<x id="3"/> to <a id="5">quit</a>.'],
            "PRESS <kbd>Ctrl</kbd>+<kbd>C</kbd> TO <a href='q'>QUIT</a>.",
        ),
        ("<p>& one<p translate=no>two<b>x</b><p>three", ["& one"], "<p>&amp; ONE<p translate=no>two<b>x</b><p>three"),
        ('<div class="a notranslate"><div>a</div>b</div>c', ["c"], '<div class="a notranslate"><div>a</div>b</div>C'),
        ("<li translate=no>a<ul><li>b</li></ul></li><li>c", ["c"], "<li translate=no>a<ul><li>b</li></ul></li><li>C"),
        (
            'a <span translate="no">b <i>c</i></span> d',
            ['a <x id="1"/> d'],
            'A <span translate="no">b <i>c</i></span> D',
        ),
        ("caf&eacute; &amp; &lt;b&gt; &#x27;", ["café &amp; &lt;b&gt; '"], "CAFÉ &amp; &lt;B&gt; '"),
        ("<p>\r\n  a\r\n  dog  \r\n</p>\r\n", ["a dog"], "<p>\r\n  A DOG  \r\n</p>\r\n"),
        (
            '<img src="y" alt="the &quot;cat&quot;"> <td title=dog>it',
            ['the "cat"', "dog", "it"],
            '<img src="y" alt="THE &quot;CAT&quot;"> <td title="DOG">IT',
        ),
        ("see <img alt=dog src=x> it", ["dog", 'see <img id="1"/> it'], 'SEE <img alt="DOG" src=x> IT'),
        (
            '<input type=submit value="send"><input value=x placeholder = name>',
            ["send", "name"],
            '<input type=submit value="SEND"><input value=x placeholder = "NAME">',
        ),
        (
            "<html lang=en><title>a <b></title><meta name=description content='it'><body>b</html>",
            ["a <b>", "it", "b"],
            '<html lang="fr"><title>A &lt;b&gt;</title><meta name=description content="IT"><body>B</html>',
        ),
        ("<html lang=en><p>1 &amp; 2 &nbsp;</p></html>", [], None),
        ("a < b & c <a b", ["a < b & c"], "A &lt; B &amp; C <a b"),
        ("<b>open<p>it</b>", ["<b>open", "it</b>"], "<b>OPEN<p>IT</b>"),
        ("<svg><text>a</text></svg><math><mi>x</mi></math>", [], None),
    ],
)
def test_texts_are_found_and_written_back(html: str, sources: list[str], written: str | None) -> None:
    assert [unit.sources[0] for unit in read_html(html).units] == sources
    assert translate(html) == (html if written is None else written)


def test_a_translation_brings_no_tags_and_loses_none() -> None:
    for translation in ("un <b>", "<b>un</b> <i>a</i>", "</b>un<b>", "un", "<b>un"):
        document = read_html("one <b>dog</b>")
        faults = document.units[0].fill([translation])
        written = document.write("fr").decode()
        if written == "one <b>dog</b>":
            assert faults == ["is left out, since its tags are not those of the source or out of order"]
        else:
            assert written == "<b>un</b> &lt;i&gt;a&lt;/i&gt;"
    document = read_html("one dog")
    document.units[0].fill(["<script>x</script> &amp; a & b"])
    assert document.write("fr") == b"&lt;script&gt;x&lt;/script&gt; &amp;amp; a &amp; b"


@given(st.lists(st.sampled_from([*PARTS.split(" "), "\n", "\r", "\r\n", "\0", " "]), max_size=14).map("".join))
def test_any_bytes_stay_where_nothing_is_translated(html: str) -> None:
    document = read_html(html)
    assert bytes(document.store).decode() == html
    for unit in document.units:
        unit.fill([f"{unit.sources[0]} X"])
    document.write("fr").decode()


OPENERS = [
    "<!--",
    "<!",
    "<?",
    "<a ",
    "</",
    '<a "',
    "&#",
    "<script>",
    "<a b=",
    "</a",
    "<a>",
    "&lt;a",
    "<p>",
    "a<",
    "<li>a",
]
OPENERS += ["<p translate=no>", "<li translate=no>a<ul>", "<b>", "<div>", '<img alt="a b">', "</>", "<a x>b</a> "]


@pytest.mark.parametrize("opener", OPENERS)
def test_what_repeats_takes_no_quadratic_time(opener: str) -> None:
    """A page of 200,000 characters, for which html.parser takes minutes, is read within the test's time limit."""
    for unit in read_html("<i translate=no>" * (opener == "</a") + opener * (200_000 // len(opener))).units:
        unit.fill([unit.sources[0]])


def test_a_page_of_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_bytes("<p>été".encode("latin-1"))
    with pytest.raises(Exception, match=r"a\.html: not UTF-8 .*; convert it with iconv"):
        read_document(tmp_path / "a.html")
