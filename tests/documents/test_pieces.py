"""Messages are cut into texts that are translated one by one; joined again, they are as they were."""

import pytest

from rnnsearch_fairseq.documents.pieces import MAX_CHARACTERS, cut, join, list_texts
from rnnsearch_fairseq.errors import InputError


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (" One.\n\n  two\n", ["One.", "two"]),
        ("  -h, --help        show this help", ["show this help"]),
        ("* one\nn - do not stage\n 1. three", ["one", "do not stage", "three"]),
        ("One row.|{{ count }} rows.", ["One row.", "{{ count }} rows."]),
        ("Stop it.<br/>Start it.", ["Stop it.", "Start it."]),
        ("Use <b>bold</b> and <i>a <u>b</u> c</i>.", ["Use ⟦1000⟧ and ⟦1001⟧.", "bold", "a ⟦1002⟧ c", "b"]),
        ("<kbd>Ctrl</kbd>+<kbd>C</kbd> stops <code>run</code>.", ["⟦1000⟧+⟦1001⟧ stops ⟦1002⟧."]),
        ("Use <b>%s</b> of ([#1](a.md)).", ["Use ⟦1000⟧ of (⟦1001⟧)."]),
        ("Wrong <b>order <i>of</b> tags</i>.", ["Wrong ⟦1000⟧ tags</i>.", "order <i>of"]),
        ("Use <0>it</0>, <bx id='1'/>or<ex id='1'/> not.", ["Use ⟦1000⟧, ⟦1001⟧ not.", "it", "or"]),
        ("See [the list][a], [that][] and ![a dog](a.png).", ["See ⟦1000⟧, ⟦1001⟧ and ⟦1002⟧.", "the list", "a dog"]),
        ("Be {% if new %}new{% endif %} now", ["Be ⟦1000⟧ now", "new"]),
        ('Read <x id="a" equiv-text="{n, plural, one {a} other {b}}"/>!', None),
        ("[b]Be[/b] [code]a b[/code] &lt;i&gt;it&lt;/i&gt;", ["Be", "it"]),
        ("{0}none|]1,Inf[ {{ n }} of %s", ["none", "{{ n }} of %s"]),
        ("| Name | Value |\n|---|---|\n| a \\| b | 1 |", ["Name", "Value", "a \\| b"]),
        ("Use {ref}`the guide <guide>`.", ["Use ⟦1000⟧.", "the guide"]),
        ("[^1]: The note", ["The note"]),
        ('Set <sm id="1" translate="no"/>NAME<em startRef="1"/>', ["Set ⟦1000⟧"]),
        ("```\ndef f(x):\n```", []),
        ("%s: 1,000 \n--all", []),
    ],
)
def test_messages_are_cut_and_joined(message: str, expected: list[str] | None) -> None:
    pieces = cut(message)
    assert [*list_texts(pieces)] == ([message] if expected is None else expected)
    assert join(pieces) == message
    assert join(pieces, lambda text: text.replace("two", "deux")) == message.replace("two", "deux")


def test_long_lines_and_lines_of_many_spans_are_cut_into_sentences() -> None:
    sentences = ["One, two, i.e. three.", "See `a. B. <c>`_ and ``d. E``.", "It's 3.5."] * 12
    assert [*list_texts(cut(" ".join(sentences)))] == sentences
    many = [f"{{a{number}}} or {{b{number}}}," for number in range(6)]
    assert [*list_texts(cut(" ".join(many)))] == many


def test_what_cannot_be_cut_is_refused() -> None:
    for message in ("a" * (MAX_CHARACTERS + 1), "See {n, plural, one {a} other {b}}.", "<b>⟦1000⟧</b>"):
        with pytest.raises(InputError):
            cut(message)


def test_tags_inside_tags_have_a_limit() -> None:
    message = "<b>a " * 5_000 + "b</b>" * 5_000
    assert join(cut(message)) == message
