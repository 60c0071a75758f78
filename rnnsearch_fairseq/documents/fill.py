"""Translate what is not translated in documents."""

import contextlib
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from tqdm import tqdm

from rnnsearch_fairseq.documents.formats import Document, is_document, read_document, read_folder
from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.inference.aligned_pairs import AlignedPair
from rnnsearch_fairseq.inference.translator import Text, Translator
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.language import LanguageCheck, language_code
from rnnsearch_fairseq.text.piece import find_format_faults

SEARCHED_TOGETHER = 400  # texts that are searched together


def translate_documents(translator: Translator, data: Path, out: Path) -> None:
    """Write a document, or those in a folder, with what was not translated filled in, and report on standard error."""
    documents, others = _plan(translator, data, out)
    counts: Counter[str] = Counter(files=len(documents))
    for path in others:
        copy = out / path.relative_to(data)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    pages = any(not is_document(path) for path in documents)
    while documents:
        path = next(iter(documents))
        document = documents.pop(path)  # so that a document's memory is free once it is written
        counts += _fill(document, translator, path)
        output = out / path.relative_to(data)
        with contextlib.suppress(OSError):  # `open_output` tells why a file cannot be written there
            output.parent.mkdir(parents=True, exist_ok=True)
        with open_output(output) as file:
            file.write(document.write(translator.languages[1]))
    report = (
        "files: {files:,}; messages without a translation: {blank:,}, filled in for review: {filled:,}; of these with "
        "something missing or changed, named above: {faulty:,}"
    )
    print(report.format_map(counts), file=sys.stderr)
    if pages:
        print(f"pages have no mark for review: read what changed; other files copied: {len(others):,}", file=sys.stderr)


def _plan(translator: Translator, data: Path, out: Path) -> tuple[dict[Path, Document], list[Path]]:
    """The documents of a path, and what is copied beside them."""
    paths, others = read_folder(data) if data.is_dir() else ([data], [])
    check_not_input([out / path.relative_to(data) for path in [*paths, *others]], [*paths, *others])
    target, site = translator.languages[1], not all(map(is_document, paths))
    documents = {}
    for path in paths:
        documents[path] = document = read_document(path)
        if document.language and language_code(document.language) != language_code(target):
            if site:  # which may have messages in other languages, too
                others.append(path)
                del documents[path]
                continue
            asked = quote(repr(document.language))
            raise InputError(f"{path}: asks for {asked}, and the model writes {target}; give another file")
    return documents, others


def _fill(document: Document, translator: Translator, path: Path) -> Counter[str]:
    """Fill in the units of a document that have no translation, and name those that are not right."""
    blanks = [unit for unit in document.units if any(unit.sources) and not any(unit.targets)]
    texts: dict[str, Text | None] = dict.fromkeys(chain.from_iterable(unit.sources for unit in blanks))
    LanguageCheck(path, translator.languages[0]).read(texts)
    refused: dict[str, str] = {}
    for source in texts:
        try:
            texts[source] = translator.read_text(source, None, "it")
            if texts[source].passage.has_plural:
                raise InputError("it has ICU's plural or select; translate its forms by hand")
        except InputError as error:
            texts[source], refused[source] = None, str(error)
    found = dict(_translate([text for text in texts.values() if text is not None], translator, path.name))
    counts = Counter(blank=len(blanks))
    for unit in blanks:
        unfit = [refused[source] for source in unit.sources if source in refused]
        filled = [found[source].text for source in unit.sources if source in found]
        unfit += ["its translation is empty"] * (not unfit and "" in filled)
        if unit.has_format and not unfit:  # a program that prints such a translation may fail
            unfit += chain.from_iterable(map(find_format_faults, unit.sources, filled))
        if unfit:
            print(f"{path}, {unit.name}: left as it is: {unfit[0]}", file=sys.stderr)
            continue
        faults = unit.fill(filled) + [fault for source in unit.sources for fault in found[source].faults]
        if faults:
            listing = quote(", ".join(faults))
            print(
                f"{path}, {unit.name}: {quote(repr(unit.sources[0]), 60)}: its translation {listing}", file=sys.stderr
            )
        counts += Counter(filled=1, faulty=bool(faults))
    return counts


def _translate(texts: Sequence[Text], translator: Translator, name: str) -> Iterator[tuple[str, AlignedPair]]:
    """Each text with its translation."""
    groups = (texts[start : start + SEARCHED_TOGETHER] for start in range(0, len(texts), SEARCHED_TOGETHER))
    hidden = not sys.stderr.isatty()
    progress = tqdm(texts, name, unit=" texts", disable=hidden, leave=False, dynamic_ncols=True)
    for text, (best, *_) in zip(progress, chain.from_iterable(map(translator.search, groups))):
        yield text.passage.text, best
