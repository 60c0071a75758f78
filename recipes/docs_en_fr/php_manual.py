"""Write the sentence pairs of PHP's manual, whose French pages have the elements of the English ones, in their order.

``python -m recipes.docs_en_fr.php_manual DIR OUT [LANGUAGE]``

DIR has the clones ``doc-en`` and ``doc-fr``, or ``doc-ja`` with the LANGUAGE ``ja``; OUT gets a table, English TAB
French. Code is written ````as here````, and emphasis ``*so*``. Left out are pages whose elements differ, and pairs that
are equal, differ in code, have an entity or a reference by number, or twice as many words on one side as on the other.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from lxml import etree

from rnnsearch_fairseq.command_line import program
from rnnsearch_fairseq.corpus.rows import write_rows
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.sentences import UNSPACED

# Elements that hold text of their own; that hold code; that are part of a sentence; and that a text cannot show.
BLOCKS, CODE, PROSE, NO_TEXT = (
    names.split()
    for names in (
        "caption entry member para refpurpose seg simpara term title titleabbrev",
        "classname code command computeroutput constant enumidentifier enumname envar exceptionname filename function "
        "initializer interfacename literal methodname modifier ooclass option package parameter property replaceable "
        "systemitem tag type userinput varname",
        "acronym emphasis glossterm keycap link optional productname quote",
        "subscript superscript xref",
    )
)
UNREADABLE = "&"  # stands for an entity, or for an element of NO_TEXT
APART = "\0"  # stands for a list, an example or another block


def read_blocks(page: Path) -> list[tuple[str, list[str]]]:
    """The name of each block of a page of DocBook, and its texts."""
    # The entities are defined elsewhere; they become nodes, and the parser recovers from them.
    parser = etree.XMLParser(recover=True, resolve_entities=False, no_network=True, remove_comments=True)
    root = etree.parse(page, parser).getroot()
    elements = [] if root is None else root.iter(etree.Element)
    return [(_name(element), read_texts(element)) for element in elements if _name(element) in BLOCKS]


def read_texts(block: etree._Element) -> list[str]:
    """The texts of a block before, between and after the blocks that stand in it."""
    texts = (" ".join(text.split()) for text in "".join(_pieces(block)).split(APART))
    return [*filter(None, texts)]


def _pieces(element: etree._Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if isinstance(child, etree._Entity):
            yield f"``{child.name}``" if child.name in ("true", "false", "null") else UNREADABLE
        elif not isinstance(child, etree._ProcessingInstruction):
            if (name := _name(child)) in CODE:
                yield _code(name, child)
            elif name in PROSE:
                yield "*" * (name == "emphasis")
                yield from _pieces(child)
                yield "*" * (name == "emphasis")
            else:
                yield UNREADABLE if name in NO_TEXT else APART
        yield child.tail or ""


def _code(name: str, element: etree._Element) -> str:
    text = " ".join("".join(element.itertext(with_tail=False)).split())
    if any(isinstance(node, etree._Entity) for node in element.iter()):
        return UNREADABLE
    if name in ("function", "methodname") and "(" not in text:
        text += "()"
    return f"``{'$' * (name == 'varname' and not text.startswith('$'))}{text}``"


def _name(element: etree._Element) -> str:
    return etree.QName(element).localname


def are_translations(english: str, french: str) -> bool:
    """Whether two texts in the same place are a pair to learn from."""
    codes, other_codes = (Counter(text.split("``")[1::2]) for text in (english, french))
    ratio = (len(french.split()) + 2) / (len(english.split()) + 2)  # two, for the sake of short texts
    fits = UNSPACED.search(french) or 0.5 <= ratio <= 2  # Japanese has no blanks between words
    return bool(fits) and UNREADABLE not in english + french and english != french and codes == other_codes


@program
def main() -> None:
    folder, out = map(Path, sys.argv[1:3])
    language = f"doc-{sys.argv[3] if len(sys.argv) > 3 else 'fr'}"
    pairs: dict[tuple[str, str], None] = {}
    for page in sorted((folder / language).rglob("*.xml")):
        original = folder / "doc-en" / page.relative_to(folder / language)
        blocks, translated = (read_blocks(path) if path.exists() else [] for path in (original, page))
        if [(name, len(texts)) for name, texts in blocks] == [(name, len(texts)) for name, texts in translated]:
            both = (pair for (_, texts), (_, others) in zip(blocks, translated) for pair in zip(texts, others))
            pairs |= dict.fromkeys(pair for pair in both if are_translations(*pair))
    if not pairs:
        raise InputError(f"{folder}: no page of {language} has the elements of doc-en's; clone both")
    write_rows([out], (("\t".join(pair),) for pair in pairs))
