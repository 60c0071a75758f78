"""Translate what is not translated in documents."""

import contextlib
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from tqdm import tqdm

from rnnsearch_fairseq.documents.choice import Choice, choose, find_format_faults, with_accelerator, without_accelerator
from rnnsearch_fairseq.documents.formats import Document, is_document, read_document, read_folder
from rnnsearch_fairseq.documents.pieces import Message, Piece, cut, join, list_texts
from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.inference.translator import Source, Translator
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.language import LanguageCheck, language_code

Search = Callable[[Sequence[Source]], Iterable[Sequence[Any]]]  # translations, whose `text` is read

GROUP = 400  # sentences that are searched together


def translate_documents(translator: Translator, search: Search, data: Path, out: Path) -> None:
    """Write a document, or those in a folder, with what was not translated filled in, and report on standard error.

    Of a sentence's translations by ``search``, the first that keeps markup, numbers and the last sign is taken, or else
    the one that lacks the least; what it lacks is named.
    """
    documents, others = _plan(translator, data, out)
    counts: Counter[str] = Counter(files=len(documents))
    for path in others:
        _copy(path, out / path.relative_to(data))
    pages = any(not is_document(path) for path in documents)
    while documents:
        path = next(iter(documents))
        document = documents.pop(path)  # the memory of those that are written is free
        counts += _fill(document, translator, search, path)
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
    target = translator.languages[1]
    documents = {}
    for path in paths:
        documents[path] = document = read_document(path)
        if document.language and language_code(document.language) != language_code(target):
            asked = quote(repr(document.language))
            raise InputError(f"{path}: asks for {asked}, and the model writes {target}; give another file")
    return documents, others


def _copy(path: Path, output: Path) -> None:
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, output)
    except OSError as error:
        raise InputError(f"{output}: cannot be written ({error.strerror}); make room, or give another name") from error


def _fill(document: Document, translator: Translator, search: Search, path: Path) -> Counter[str]:
    """Fill in the units of a document that have no translation, and name those that are not right."""
    blanks = [unit for unit in document.units if any(unit.sources) and not any(unit.targets)]
    messages: dict[str, Message] = {}
    choices: dict[str, Choice] = {}
    for source in chain.from_iterable(unit.sources for unit in blanks):
        try:
            messages[source] = cut(source)
        except InputError as error:
            messages[source], choices[source] = {"": [Piece(source, True)]}, Choice("", [str(error)])
    parts = dict.fromkeys(chain.from_iterable(map(list_texts, messages.values())))
    LanguageCheck(path, translator.languages[0], translator.known_characters).read(parts)
    choices |= _translate([part for part in parts if part not in choices], translator, search, path.name)
    counts = Counter(blank=len(blanks))
    for unit in blanks:
        found = [(messages[source], choices[text]) for source in unit.sources for text in list_texts(messages[source])]
        filled = [join(messages[source], lambda text: choices[text].text) for source in unit.sources]
        unfit = [choice.faults[0] for _, choice in found if not choice.text]
        if unit.has_format:  # a program that prints such a translation may fail
            unfit += chain.from_iterable(map(find_format_faults, unit.sources, filled))
        if unfit:
            print(f"{path}, {unit.name}: left as it is: {unfit[0]}", file=sys.stderr)
            continue
        faults = unit.fill(filled)
        faults += [join({**message, "": [Piece(fault)]}) for message, choice in found for fault in choice.faults]
        if faults:
            listing = quote(", ".join(faults))
            print(
                f"{path}, {unit.name}: {quote(repr(unit.sources[0]), 60)}: its translation {listing}", file=sys.stderr
            )
        counts += Counter(filled=1, faulty=bool(faults))
    return counts


def _translate(parts: Sequence[str], translator: Translator, search: Search, name: str) -> dict[str, Choice]:
    """The translation to take of each text; it is empty if the text cannot be read, and the fault says why."""
    choices, sources, labels = {}, {}, {}
    for part in parts:
        labels[part] = without_accelerator(part)
        try:
            sources[part] = translator.read_source(labels[part][0], None, quote(repr(part), 60))
        except InputError as error:
            choices[part] = Choice("", [str(error)])
    groups = (list(sources.values())[start : start + GROUP] for start in range(0, len(sources), GROUP))
    hidden = not sys.stderr.isatty()
    progress = tqdm(sources, name, unit=" sentences", disable=hidden, leave=False, dynamic_ncols=True)
    for part, translations in zip(progress, chain.from_iterable(map(search, groups))):
        text, mark = labels[part]
        texts = [translation.text for translation in translations]
        if "…" in text and "..." not in text:  # models read and write three dots for this sign
            texts = [translation.replace("...", "…") for translation in texts]
        choice = choose(text, texts, translator.known_characters, translator.languages)
        choices[part] = choice._replace(text=with_accelerator(choice.text, mark))
    return choices
