"""HTML pages and fragments: what is text, and that all the rest stays byte for byte."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnsearch_fairseq.documents.html import read_html
from rnnsearch_fairseq.errors import InputError

PARTS = """
    < > </ a p " ' = & &lt; &amp <!-- --> <! <? script <script> </script> <textarea> </textarea> é 😀 / title=" <p>
    </p> <b> </b> <i\tx=1> </i> <code> </code> <li\ttranslate=no> </ul> <img\talt=" alt=x> <html\tlang=en> word </>
"""


def shout(text: str) -> str:
    """The text in capital letters, but for tags and references."""
    return re.sub(r"<[^<>]*>|&#?\w+;|[^<&]+|.", lambda part: part[0] if part[0][0] in "<&" else part[0].upper(), text)


def translate(html: str) -> str:
    document = read_html(html.encode())
    assert bytes(document.store).decode() == html
    for unit in document.units:
        assert unit.fill([shout(unit.sources[0])]) == ""
    return document.write("fr").decode()


@pytest.mark.parametrize(
    ("html", "sources", "written"),
    [
        ('<a title="a > b">Open</a>', ["a > b", '<a id="0">Open</a>'], '<a title="A &gt; B">OPEN</a>'),
        ("<noscript><p>Open</p></noscript> a", ["a"], "<noscript><p>Open</p></noscript> A"),
        ("a &#9999999999;", ["a &#9999999999;"], "A &#9999999999;"),
        ("<!-- the dog <b> sleeps --> a", ["a"], "<!-- the dog <b> sleeps --> A"),
        ("<meta name=description content=a>", ["a"], '<meta name=description content="A">'),
        ('<script>a("b")</script><style>a { b: c }</style><svg><text>a</text></svg><math><mi>x</mi></math>', [], None),
        ("<pre>open</pre><textarea>it</textarea><noscript>a</noscript><iframe>b</iframe>", [], None),
        ('<!DOCTYPE html><?php open() ?><![CDATA[it]]><meta name="viewport" content="width=a">', [], None),
        ("Use <kbd>C</kbd>+<kbd>D</kbd>, <a href='q'>quit</a>.", ['Use <x id="1"/>+<x id="3"/>, <a id="5">quit</a>.'],
         "USE <kbd>C</kbd>+<kbd>D</kbd>, <a href='q'>QUIT</a>."),
        ("<p>& one<p translate=no>two<b>x</b>", ["& one"], "<p>&amp; ONE<p translate=no>two<b>x</b>"),
        ('<div class="a notranslate"><div>a</div>b</div>c', ["c"], '<div class="a notranslate"><div>a</div>b</div>C'),
        ("---\na: b\n---\nopen <%= c %> it", ['open <x id="1"/> it'], "---\na: b\n---\nOPEN <%= c %> IT"),
        ('<dt class="sig a">b</dt><i class="material-icons">c</i> d', ["d"],
         '<dt class="sig a">b</dt><i class="material-icons">c</i> D'),
        ('a <span translate="no">b <i>c</i></span> d', ['a <x id="1"/> d'],
         'A <span translate="no">b <i>c</i></span> D'),
        ("caf&eacute; &amp; &lt;b&gt; &#x27;", ["café & &lt;b&gt; '"], "CAFÉ &amp; &lt;B&gt; '"),
        ("<p>\r\n  a\r\n  dog  \r\n</p>\r\n", ["a dog"], "<p>\r\n  A DOG  \r\n</p>\r\n"),
        ('<img src="y" alt="the &quot;cat&quot;"> <table><td title=dog>it', ['the "cat"', "dog", "it"],
         '<img src="y" alt="THE &quot;CAT&quot;"> <table><td title="DOG">IT'),
        ("see <img alt=dog src=x> it", ["dog", 'see <img id="1"/> it'], 'SEE <img alt="DOG" src=x> IT'),
        ('<b label="a b"><i label="c">d', ["a b", '<b id="0"><i id="1">d'], '<b label="A B"><i label="c">D'),
        ('<input type=submit value="send"><input value=x placeholder = name>', ["send", "name"],
         '<input type=submit value="SEND"><input value=x placeholder = "NAME">'),
        ("<html lang=en><title>a <b></title><body>b</html>", ["a <b>", "b"],
         '<html lang="fr"><title>A &lt;b&gt;</title><body>B</html>'),
        ("<html lang=en><p>1 &amp; 2 &nbsp;</p></html>", [], None),
        ("<html lang='{{ a }}'><p title=a-b>c", ["c"], "<html lang='{{ a }}'><p title=a-b>C"),
        ("<meta charset=latin1><p>a", ["a"], '<meta charset="utf-8"><p>A'),
        ("<meta http-equiv=Content-Type content='text/html; charset=latin1'><p>a", ["a"],
         '<meta http-equiv=Content-Type content="text/html; charset=utf-8"><p>A'),
        ('<?xml version="1.0" encoding="latin1"?><p>a', ["a"], '<?xml version="1.0" encoding="utf-8"?><p>A'),
        ("<meta charset=UTF-8><svg><path/></svg><br/><p>a", ["a"], "<meta charset=UTF-8><svg><path/></svg><br/><p>A"),
        ("<h2>open</h2><h2>Open&nbsp;it</h2>", ["Open it"], "<h2>open</h2><h2>OPEN IT</h2>"),
        ("a < b & c <a b", ["a < b & c"], "A &lt; B &amp; C <a b"),
        ("{{ 1 > 0 }} a & {% 2 & 3 %}", ["{{ 1 > 0 }} a & {% 2 & 3 %}"], "{{ 1 > 0 }} A &amp; {% 2 & 3 %}"),
        ('<a href="<%= a "b" %>" {% if c > d %}id=e{% endif %}>f', ['<a id="0">f'],
         '<a href="<%= a "b" %>" {% if c > d %}id=e{% endif %}>F'),
        ('<img alt="{% trans "a" %} <%= b %> cd"><html lang="<?= e ?>">f', ['{% trans "a" %} <%= b %> cd', "f"],
         '<img alt="{% TRANS "A" %} <%= b %> CD"><html lang="<?= e ?>">F'),
        ("a {% blocktrans %}b <i>c</i>{% endblocktrans %} d", ['a <x id="1"/> d'],
         "A {% blocktrans %}b <i>c</i>{% endblocktrans %} D"),
        ("<table><tr><th>a.b<td>c d<tr><td>E f", ["c d", "E f"], "<table><tr><th>a.b<td>C D<tr><td>E F"),
        ("<b>open<p>it</b>", ["<b>open", "it</b>"], "<b>OPEN<p>IT</b>"),
    ],
)  # fmt: skip
def test_texts_are_found_and_written_back(html: str, sources: list[str], written: str | None) -> None:
    assert [unit.sources[0] for unit in read_html(html.encode()).units] == sources
    assert translate(html) == (html if written is None else written)


@pytest.mark.parametrize(
    ("kept", "translated"),
    [
        ("<p translate=no>x<b>x</b>", "<p>a"),
        ("<ul><li translate=no>x<ul><li>x</ul>x", "<li>a</ul>"),
        ("<table><tr><td translate=no>x", "<td>a<tr><td>a</table>"),
        ("<div><pre>x</b></p>", "</div>a"),
        ("<div translate=no>x<p>x</b></div>", "a"),
    ],
)
def test_an_element_that_is_not_translated_ends_where_browsers_end_it(kept: str, translated: str) -> None:
    assert translate(kept + translated) == kept + shout(translated)


def test_elements_that_are_opened_again_in_each_block_are_bounded() -> None:
    opened = "".join(f"<b id={number}>" for number in range(1_000))
    with pytest.raises(InputError, match="not closed"):
        read_html(f"<div>{opened}</div>{'<p>1' * 2_000}".encode())
    with pytest.raises(InputError, match="not closed"):
        read_html("".join(f"<body a{number}>" for number in range(3_000)).encode() + b"a")
    assert read_html(b"<p><b>a</b></p>" * 2_000).units
    assert read_html(b"<html lang=en><body class=a>a</body></html>" * 500).units


@pytest.mark.parametrize(
    ("translation", "written"),
    [
        ("<b>un</b> <i>a</i> <script>x</script>", "<b>un</b> &lt;i&gt;a&lt;/i&gt; &lt;script&gt;x&lt;/script&gt;"),
        ("un <b>", None), ("</b>un<b>", None), ("un", None), ("<b>un", None),
    ],
)  # fmt: skip
def test_a_translation_brings_no_tags_and_loses_none(translation: str, written: str | None) -> None:
    document = read_html(b"one <b>dog</b>")
    faults = document.units[0].fill([translation])
    assert document.write("fr").decode() == written or "one <b>dog</b>"
    assert (faults == "its translation lacks or adds tags, or has them in another order") == (written is None)


@given(st.lists(st.sampled_from([*PARTS.split(" "), "\n", "\r", "\r\n", "\0", " "]), max_size=14).map("".join))
def test_any_bytes_stay_where_nothing_is_translated(html: str) -> None:
    document = read_html(html.encode())
    assert bytes(document.store).decode() == html
    for unit in document.units:
        unit.fill([f"{unit.sources[0]} X"])
    document.write("fr").decode()
