"""The pairs of PHP's manual: texts in the same places of pages with the same elements."""

from pathlib import Path

import pytest

from recipes.docs_en_fr.php_manual import are_translations, main
from rnnsearch_fairseq.errors import InputError
from tests.recipes.reproduce.builders import printed_by

PAGE = """<?xml version="1.0"?>
<refentry xmlns="http://docbook.org/ns/docbook"><refnamediv><refpurpose>{}</refpurpose></refnamediv>
 &reftitle.description;
 <para>{}<programlisting>echo 1;</programlisting>{}</para>
 <!-- no text --><simpara>{}</simpara>
</refentry>
"""
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


def write_page(path: Path, texts: tuple[str, ...]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PAGE.format(*texts), encoding="utf-8")


def test_texts_in_the_same_place_are_pairs(tmp_path: Path) -> None:
    write_page(tmp_path / "doc-en/a/explode.xml", ENGLISH)
    write_page(tmp_path / "doc-fr/a/explode.xml", FRENCH)
    write_page(tmp_path / "doc-en/differs.xml", (*ENGLISH[:3], "<note><para>One more block.</para></note>"))
    write_page(tmp_path / "doc-fr/differs.xml", ("Autre", *FRENCH[1:]))
    write_page(tmp_path / "doc-fr/only.xml", FRENCH)
    printed_by(main, tmp_path, tmp_path / "php.tsv")
    assert (tmp_path / "php.tsv").read_text(encoding="utf-8").splitlines() == [
        "Split a string\tScinde une chaîne",
        "``explode()`` returns ``true`` or an ``array``:\t``explode()`` retourne ``true`` ou un ``array`` :",
        "It is *not* a list.\tCe n'est *pas* une liste.",
    ]


@pytest.mark.parametrize(
    ("english", "french"),
    [("json", "json"), ("``a`` or ``b``", "``a`` ou ``c``"), ("A & B", "A et B"), ("Yes", "Oui, " * 5)],
)
def test_doubtful_pairs_are_left_out(english: str, french: str) -> None:
    assert not are_translations(english, french)


def test_a_folder_without_pairs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="clone both"):
        printed_by(main, tmp_path, tmp_path / "php.tsv")
