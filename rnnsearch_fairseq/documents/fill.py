"""Translate what is not translated in documents."""

import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from tqdm import tqdm

from rnnsearch_fairseq.documents.formats import find_format, read_document
from rnnsearch_fairseq.documents.units import Document
from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.inference.aligned_pairs import AlignedPair
from rnnsearch_fairseq.inference.translator import Text, Translator
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.language import find_other_languages, language_code

SEARCHED_TOGETHER = 400  # texts that are searched together
LEFT = {".git", "node_modules"}  # folders that are not copied


def translate_documents(translator: Translator, data: Path, out: Path) -> None:
    """Write a document, or a folder, with what was not translated filled in, and report on standard error.

    In a folder, documents in another language, templates of PO and all other files are copied.
    """
    inside = sorted(data.rglob("*")) if data.is_dir() else [data]
    paths = [path for path in inside if path == data or (path.is_file() and LEFT.isdisjoint(path.parts))]
    check_not_input([out / path.relative_to(data) for path in paths], paths)
    documents = _read(paths, data, translator.languages[1])
    counts: Counter[str] = Counter(files=len(documents), copied=len(paths) - len(documents))
    for path in paths:
        output = out / path.relative_to(data)
        output.parent.mkdir(parents=True, exist_ok=True)
        if path not in documents:
            shutil.copyfile(path, output)
            continue
        document = documents.pop(path)  # so that its memory is free once it is written
        counts += _fill(document, translator, path)
        with open_output(output) as file:
            file.write(document.write(translator.languages[1]))
    report = (
        "files: {files:,}, copied as they are: {copied:,}; messages without a translation: {blank:,}, filled in for "
        "review: {filled:,}; of these with something missing or changed, named above: {faulty:,}"
    )
    print(report.format_map(counts), file=sys.stderr)


def _read(paths: Sequence[Path], data: Path, target: str) -> dict[Path, Document]:
    """The documents whose translations are in the language ``target``."""
    documents, reason = {}, "holds no PO, XLIFF, TS, Markdown or HTML; give another folder"
    for path in paths:
        if path != data and (find_format(path) is None or ".pot" in path.suffixes):
            continue
        document = read_document(path)
        if document.language and language_code(document.language) != language_code(target):
            reason = f"asks for {quote(repr(document.language))}, and the model writes {target}; give another file"
        else:
            documents[path] = document
    if not documents:
        raise InputError(f"{data}: {reason}")
    return documents


def _fill(document: Document, translator: Translator, path: Path) -> Counter[str]:
    """Fill in the units of a document that have no translation, and name those that are not right."""
    blanks = [unit for unit in document.units if any(unit.sources) and not any(unit.targets)]
    texts: dict[str, Text] = {}
    refused: dict[str, str] = {}
    for source in dict.fromkeys(chain.from_iterable(unit.sources for unit in blanks)):
        try:
            texts[source] = translator.read_text(source, None, "it")
            if texts[source].passage.has_plural:
                raise InputError("it has ICU's plural or select; translate its forms by hand")
        except InputError as error:
            texts.pop(source, None)
            refused[source] = str(error)
    if doubt := find_other_languages(texts, translator.languages[0]):
        print(f"{path}: {doubt}", file=sys.stderr)
    pairs = dict(zip(texts, _translate([*texts.values()], translator, path.name)))
    counts = Counter(blank=len(blanks))
    for unit in blanks:
        reasons = [refused[source] for source in unit.sources if source in refused]
        best = [pairs[source] for source in unit.sources if source in pairs]
        if not all(pair.text for pair in best):
            reasons.append("its translation is empty")
        if reason := next(iter(reasons), "") or unit.fill([pair.text for pair in best]):
            print(f"{path}, {unit.name}: left as it is: {reason}", file=sys.stderr)
            continue
        if faults := [fault for pair in best for fault in pair.faults]:
            what = quote(repr(unit.sources[0]), 60)
            print(f"{path}, {unit.name}: {what}: its translation {quote(', '.join(faults))}", file=sys.stderr)
        counts += Counter(filled=1, faulty=bool(faults))
    return counts


def _translate(texts: Sequence[Text], translator: Translator, name: str) -> Iterator[AlignedPair]:
    """The translation of each text."""
    groups = (texts[start : start + SEARCHED_TOGETHER] for start in range(0, len(texts), SEARCHED_TOGETHER))
    hidden = not sys.stderr.isatty()
    progress = tqdm(texts, name, unit=" texts", disable=hidden, leave=False, dynamic_ncols=True)
    for _, (best, *_) in zip(progress, chain.from_iterable(map(translator.search, groups))):
        yield best
