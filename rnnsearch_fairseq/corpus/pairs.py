"""Read sentence pairs as people have them: two files, or files of both sides: tables with tabs, PO, XLIFF, TMX 1.4.

Text, tables and TMX may be packed: ``corpus.tsv.gz``.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from rnnsearch_fairseq.documents.formats import is_document, not_well_formed, read_document
from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.text.lines import check_rereadable, open_bytes, read_lines, read_pairs
from rnnsearch_fairseq.text.scripts import COMMON, code

Pair = tuple[str, str]

UNTRANSLATED = "not translated"
UNFINISHED = "marked as fuzzy or for review"
XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
# Elements inside a segment of TMX that hold markup of a word processor, not text; <hi> holds text.
MARKUP = ("{*}bpt", "{*}ept", "{*}it", "{*}ph", "{*}ut")


def is_folder(data: Sequence[Path]) -> bool:
    """Whether ``data`` is one folder, or a path that is missing, with no file for `read_files` in it."""
    return len(data) == 1 and not data[0].is_file() and not any(map(_holds_pairs, list_files(data)))


def read_corpus(data: Sequence[Path], languages: Pair) -> Iterator[Pair]:
    """Yield the pairs of every file of `read_files`; it raises the same errors."""
    return chain.from_iterable(read_files(data, languages))


def read_files(data: Sequence[Path], languages: Pair, left_out: Counter[str] | None = None) -> list[Iterator[Pair]]:
    """Return the pairs (source, target) of each file, or of two text files together; a missing side is empty.

    Args:
        data: two text files; or files named ``.po``, ``.pot``, ``.xlf``, ``.xliff``, ``.tmx`` or ``.tsv`` and folders
            of such files.
        left_out: counts the units that are left out, by reason.

    Raises:
        InputError: other files are given, the names of two text files end in other languages, or a file cannot be read,
            is not UTF-8 or does not hold pairs.
    """
    files = list_files(data)
    check_rereadable(*files)
    holding = [path for path in files if _holds_pairs(path)]
    if len(files) == 2 and not holding:
        for path, option, language in zip(files, "st", languages):
            named = code(_ending(path)[1:])
            if named != code(language) and {named, code(language)} <= COMMON.keys():
                raise InputError(
                    f"{path}: its name says {named}, but -{option} says {language}; give them in the order of -s, -t"
                )
        return [read_pairs(*files, stray_returns=True)]
    if not files or holding != files:
        names = " ".join(map(str, data))
        raise InputError(
            f"{names}: give a folder, two files of text (source, target), or .po, .xlf, .tmx, .tsv files, and then OUT"
        )
    readers = {".tsv": read_tsv, ".tmx": lambda path: read_tmx(path, languages)}
    left_out = Counter() if left_out is None else left_out
    return [readers.get(_ending(path), lambda path: read_units(path, left_out))(path) for path in files]


def _holds_pairs(path: Path) -> bool:
    return _ending(path) in (".tsv", ".tmx") or is_document(path)


def _ending(path: Path) -> str:
    """The ending of a file's name in lower case, before ``.gz``."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def list_files(data: Sequence[Path]) -> list[Path]:
    """The files of ``data``, and in its folders those that hold pairs."""
    parts = (sorted(filter(_holds_pairs, path.rglob("*"))) if path.is_dir() else [path] for path in data)
    return [*chain.from_iterable(parts)]


def read_units(path: Path, left_out: Counter[str]) -> Iterator[Pair]:
    """Yield the pairs of a document (`read_document`), line by line where both sides have as many lines.

    A message with plural forms gives its singular and its plural.
    """
    for unit in read_document(path)[1]:
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
        fields = line.split("\t") if line.strip() else ["", ""]
        if len(fields) != 2:
            raise InputError(
                f"{path}, line {number}: columns: {len(fields)}, but a pair has two, source and target, with a tab "
                "between; cut -f 1,2 chooses two of several"
            )
        yield fields[0], fields[1]


def read_tmx(path: Path, languages: Pair) -> Iterator[Pair]:
    """Yield the pairs of a TMX file, which is streamed. The language ``en`` is also in segments of ``en-GB``.

    Raises:
        InputError: the file cannot be read, is not well-formed, or has no unit in both languages.
    """
    from lxml import etree

    codes, complete = [_code(language) for language in languages], False
    seen: set[str] = set()
    try:
        with open_bytes(path) as file:
            for _, unit in etree.iterparse(file, tag="{*}tu", resolve_entities=False, no_network=True):
                texts: dict[str, str] = {}
                for variant in unit.iterchildren("{*}tuv"):
                    etree.strip_elements(variant, *MARKUP, with_tail=False)
                    language = _code(variant.get(XML_LANGUAGE, variant.get("lang", "")))
                    texts.setdefault(language, "".join(chain(*(each.itertext() for each in variant.iter("{*}seg")))))
                seen |= texts.keys()
                source, target = (_in_language(texts, code) for code in codes)
                complete |= bool(source and target)
                yield source, target
                unit.clear()
                while unit.getprevious() is not None:
                    del unit.getparent()[0]
    except etree.XMLSyntaxError as error:
        raise not_well_formed(path, error) from error
    if not complete:
        listing = in_short(", ".join(sorted(seen))) or "none"
        raise InputError(
            f"{path}: no unit has both {' and '.join(languages)}; name two of its languages by -s and -t: {listing}"
        )


def _code(language: str) -> str:
    """A language, written as one that is compared with others: pt-br for pt_BR."""
    return language.lower().replace("_", "-")


def _in_language(texts: dict[str, str], language: str) -> str:
    of_regions = (text for code, text in texts.items() if code.startswith(f"{language}-"))
    return texts.get(language) or next(of_regions, "")
