"""Texts are cut into pieces that are translated one by one; joined again, they are as they were."""

import pytest

from rnnsearch_fairseq.text.passage import PIECE_CHARACTERS, Passage

SENTENCES = ["One, two, i.e. three.", "See `a. B. <c>`_ and ``d. E``.", "It's 3.5."] * 9  # over 40 words
CLAUSES = [f"{{a{number}}} or {{b{number}}}," for number in range(6)]  # over 9 spans


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        (" One.\n\n  two\n", ["One.", "two"]),
        ("  -h, --help        show this help", ["show this help"]),
        ("* one\nn - do not stage\n 1. three\n  a) four", ["one", "do not stage", "three", "four"]),
        ("Stop it.<br/>Start it.", ["Stop it.", "Start it."]),
        ("Use <b>Bold</b> and <i>A <u>B</u> c</i>.", ["Use ⟦1000⟧ and ⟦1001⟧.", "Bold", "A ⟦1002⟧ c", "B"]),
        ("You can <strong>not</strong> delete it.", ["You can <strong>not</strong> delete it."]),
        ("<kbd>Ctrl</kbd>+<kbd>C</kbd> stops <code>run</code>.", ["⟦1000⟧+⟦1001⟧ stops ⟦1002⟧."]),
        ("<command>list files</command> and <option>color</option>", ["⟦1000⟧ and ⟦1001⟧"]),
        ('Read <span class="notranslate">the Name</span> now', ["Read ⟦1000⟧ now"]),
        ("Wrong <b>Order <i>of</b> tags</i>.", ["Wrong ⟦1000⟧ tags</i>.", "Order <i>of"]),
        ("Use <0>It</0>, <bx id='1'/>Or<ex id='1'/> not.", ["Use ⟦1000⟧, ⟦1001⟧ not.", "It", "Or"]),
        ("See [The list][a], [that][] and ![a dog](a.png).", ["See ⟦1000⟧, ⟦1001⟧ and ⟦1002⟧.", "The list", "a dog"]),
        ("See <a0>the list</a0> and [`a` files](b).", ["See <a0>the list</a0> and [`a` files](b)."]),
        ("<a0>the list</a0>", ["the list"]),
        ("[b]Be[/b] [code]a b[/code] &lt;i&gt;It&lt;/i&gt;", ["Be", "It"]),
        ("| Name | Value |\n|---|---|\n| a \\| b | 1 |", ["Name", "Value", "a \\| b"]),
        (":index:`File Formats <pair: file>`", [":index:`File Formats <pair: file>`"]),
        ('Set <sm id="1" translate="no"/>NAME<em startRef="1"/>', ["Set ⟦1000⟧"]),
        ("First.\\n\\nSecond.\\r\\nThird:\\tIt is in C:\\new", ["First.", "Second.", "Third:", "It is in C:\\new"]),
        ("Text Files (*.txt);;All Files (*)", ["Text Files (*.txt)", "All Files (*)"]),
        ('Use <i class="material-icons">home</i>.', ["Use ⟦1000⟧."]),
        ("Keep ⟦1000⟧ in <b>Mind</b>", ["Keep ⟦1000⟧ in ⟦1001⟧", "Mind"]),
        ("It {% if a %}is{% elif b %}was{% else %}is not{% endif %}.", ["It ⟦1000⟧.", "is", "was", "is not"]),
        ('Use `a("\\t")`, `b;;` and `<br> c`. ', ['Use `a("\\t")`, `b;;` and `<br> c`.']),
        ("100ms", []),
        ("2nd", ["2nd"]),
        (":rocket: Get it", ["Get it"]),
        (".. note:: A b", ["A b"]),
        ("\\param[in] name A b", ["A b"]),
        ("Use (-d|-D) to | Go", ["Use (-d|-D) to", "Go"]),
        ("cat - concatenate files", ["concatenate files"]),
        ("**Find it**", ["Find it"]),
        ("**kwargs**", ["**kwargs**"]),
        (" ".join(SENTENCES), SENTENCES),
        (" ".join(CLAUSES), CLAUSES),
    ],
)
def test_texts_are_cut_and_joined(text: str, pieces: list[str]) -> None:
    passage = Passage(text)
    assert passage.pieces == pieces
    assert passage.join(pieces) == text
    assert passage.join([piece.replace("two", "deux") for piece in pieces]) == text.replace("two", "deux")


NESTED = "<b>A " * 2_000 + "b</b>" * 2_000
LONG = ["word " * 250, "On. " * 300, "a, " * 250, "x" * 5_000, "a<b>" * 1_900, "語" * 2_000]


@pytest.mark.parametrize("text", [*LONG, NESTED])
def test_no_text_is_too_long_or_too_deep(text: str) -> None:
    passage = Passage(text)
    assert max(len(piece.replace("<b>", "|").replace("</b>", "|")) for piece in passage.pieces) <= PIECE_CHARACTERS
    assert passage.join(passage.pieces) == text


def test_messages_with_plural_forms_are_told() -> None:
    assert Passage("See {n, plural, one {a} other {b}}.").has_plural
    assert not Passage('Read <x id="a" equiv-text="{n, plural, one {a} other {b}}"/>!').has_plural
