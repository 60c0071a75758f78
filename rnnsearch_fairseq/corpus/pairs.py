"""Read sentence pairs as people have them: two text files, or files of both sides: tables, PO, XLIFF, TMX.

Text, tables and TMX may be packed: ``corpus.tsv.gz``.
"""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from lxml import etree

from rnnsearch_fairseq.documents.formats import file_suffix, is_document, read_document
from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.text.lines import open_bytes, read_lines, read_pairs

Pair = tuple[str, str]

UNTRANSLATED = "not translated"
UNFINISHED = "marked as fuzzy or for review"
OTHER_LANGUAGE = "in files that name another language"
MAX_CHARACTERS = 2000  # of a side of a pair
XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
# Elements inside a segment of TMX that hold markup of a word processor, not text; <hi> holds text.
TMX_MARKUP = ("{*}bpt", "{*}ept", "{*}it", "{*}ph", "{*}ut")


def find_files(data: Sequence[Path]) -> list[Path]:
    """The files of ``data``, and in its folders those whose names are of documents, tables and memories."""
    files: list[Path] = []
    for path in data:
        if not os.path.isdir(path):
            files.append(path)
        elif inside := sorted(file for file in path.rglob("*") if os.path.isfile(file) and _holds_pairs(file)):
            files += inside
        else:
            raise InputError(f"{path}: holds no .po, .xlf, .tmx or .tsv file, nor train.LANGUAGE; give others")
    return files


def _holds_pairs(path: Path) -> bool:
    return file_suffix(path) in (".tsv", ".tmx") or is_document(path)


def read_files(files: Sequence[Path], languages: Pair, left_out: Counter[str]) -> list[Iterator[Pair]]:
    """The pairs of each file, or of two text files together; a missing side is empty. ``left_out`` counts by reason."""
    holding = [path for path in files if _holds_pairs(path)]
    if len(files) == 2 and not holding:
        if [file_suffix(path)[1:] for path in files] == [language.lower() for language in reversed(languages)]:
            raise InputError(f"{files[0]} {files[1]}: give them in the order of -s {languages[0]}, -t {languages[1]}")
        return [read_pairs(*files, stray_returns=True)]
    if missing := next((path for path in files if not os.path.exists(path)), None):
        raise InputError(f"{missing}: no such file or folder; give the text, and then OUT")
    if holding != files:
        names = " ".join(map(str, files))
        raise InputError(f"{names}: give two files of text, or .po, .xlf, .tmx and .tsv files, and then OUT")
    readers = {".tsv": read_tsv, ".tmx": lambda path: read_tmx(path, languages)}
    return [readers.get(file_suffix(path), lambda path: read_units(path, languages, left_out))(path) for path in files]


def read_units(path: Path, languages: Pair, left_out: Counter[str]) -> Iterator[Pair]:
    """Yield the pairs of a document (`read_document`). A pair whose sides have the same number of lines gives a pair
    for each line.

    A message with plural forms gives its singular and its plural. A document that names other languages gives none.
    """
    document = read_document(path)
    if document.find_other_language(*languages):
        left_out[OTHER_LANGUAGE] += len(document.units)
        return
    for unit in document.units:
        if not all(unit.targets) or not unit.finished:
            left_out[UNFINISHED if all(unit.targets) else UNTRANSLATED] += 1
            continue
        sources = unit.sources if len(unit.targets) > 1 else unit.sources[-1:]
        for pair in zip(sources, (unit.targets[0], unit.targets[-1])):
            source, target = (side.strip().split("\n") for side in pair)
            yield from zip(source, target) if len(source) == len(target) else [pair]


def read_tsv(path: Path) -> Iterator[Pair]:
    """Yield the pairs of a file of lines "source TAB target"; quotation marks have no meaning."""
    for number, line in enumerate(read_lines(path, stray_returns=True), 1):
        columns = line.split("\t") if line.strip() else ["", ""]
        if len(columns) != 2:
            cure = "give two, source and target, with a tab between (cut -f 1,2 chooses two)"
            raise InputError(f"{path}, line {number}: columns: {len(columns)}; {cure}")
        yield columns[0], columns[1]


def read_tmx(path: Path, languages: Pair) -> Iterator[Pair]:
    """Yield the pairs of a TMX file, which is streamed. The language ``en`` is also in segments of ``en-GB``."""
    plain = {"remove_comments": True, "remove_pis": True, "resolve_entities": False, "no_network": True}
    try:
        with open_bytes(path) as file:
            for _, unit in etree.iterparse(file, tag="{*}tu", **plain):
                yield _read_text(unit, languages[0]), _read_text(unit, languages[1])
                unit.clear()  # free it, and all before it
                while unit.getprevious() is not None:
                    del unit.getparent()[0]
    except etree.XMLSyntaxError as error:
        raise InputError(f"{path}, line {error.lineno}: damaged XML ({quote(error)}); export it again") from error


def _read_text(unit: etree._Element, language: str) -> str:
    """The text of a unit of TMX in a language or, if there is none, in one of its regions; without inline markup."""
    wanted, regional = language.lower().replace("_", "-"), ""
    for variant in unit.iterchildren("{*}tuv"):
        code = variant.get(XML_LANGUAGE, variant.get("lang", "")).lower().replace("_", "-")
        if code == wanted or (code.startswith(f"{wanted}-") and not regional):
            etree.strip_elements(variant, *TMX_MARKUP, with_tail=False)
            text = "".join(text for segment in variant.iter("{*}seg") for text in segment.itertext())
            if code == wanted and text:
                return text
            regional = regional or text
    return regional
