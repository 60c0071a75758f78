"""Translate what is not translated in documents."""

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from tqdm import tqdm

from rnnsearch_fairseq.documents.formats import Document, is_document, read_document
from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.inference.aligned_pairs import AlignedPair
from rnnsearch_fairseq.inference.translator import Text, Translator
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.language import LanguageCheck, language_code
from rnnsearch_fairseq.text.piece import find_format_faults

GROUP = 400  # texts that are searched together


def translate_documents(translator: Translator, data: Path, out: Path) -> None:
    """Write a document, or those in a folder, with what was not translated filled in, and report on standard error."""
    outputs = _plan(translator, data, out)
    counts: Counter[str] = Counter(files=len(outputs))
    for path, output in outputs.items():
        document = read_document(path)
        counts += _fill(document, translator, path)
        with contextlib.suppress(OSError):  # `open_output` tells why a file cannot be written there
            output.parent.mkdir(parents=True, exist_ok=True)
        with open_output(output) as file:
            file.write(bytes(document.store))
    report = (
        "files: {files:,}; messages without a translation: {blank:,}, filled in for review: {filled:,}; of these with "
        "something missing or changed, named above: {faulty:,}"
    )
    print(report.format_map(counts), file=sys.stderr)


def _plan(translator: Translator, data: Path, out: Path) -> dict[Path, Path]:
    """The output of each document, all of which can be read."""
    paths = [data]
    if data.is_dir():
        paths = [path for path in sorted(data.rglob("*")) if path.is_file() and is_document(path)]
        paths = [path for path in paths if ".pot" not in path.suffixes]  # templates are filled for no language
        if not paths:
            raise InputError(f"{data}: holds no .po, .xlf, .xliff or .ts file; give another folder")
    outputs = {path: out / path.relative_to(data) for path in paths}
    check_not_input(outputs.values(), paths)
    target = translator.languages[1]
    for path in paths:
        language = read_document(path).language
        if language and language_code(language) != language_code(target):
            raise InputError(
                f"{path}: asks for {quote(repr(language))}, and the model writes {target}; give another file"
            )
    return outputs


def _fill(document: Document, translator: Translator, path: Path) -> Counter[str]:
    """Fill in the units of a document that have no translation, and name those that are not right."""
    blanks = [unit for unit in document.units if any(unit.sources) and not any(unit.targets)]
    texts: dict[str, Text | None] = dict.fromkeys(chain.from_iterable(unit.sources for unit in blanks))
    LanguageCheck(path, translator.languages[0], translator.reader.known).read(texts)
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
    groups = (texts[start : start + GROUP] for start in range(0, len(texts), GROUP))
    hidden = not sys.stderr.isatty()
    progress = tqdm(texts, name, unit=" texts", disable=hidden, leave=False, dynamic_ncols=True)
    for text, (best, *_) in zip(progress, chain.from_iterable(map(translator.search, groups))):
        yield text.passage.text, best
