"""Translate what is not translated in PO and XLIFF files."""

import contextlib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path

from tqdm import tqdm

from rnnsearch_fairseq.documents.formats import MAX_UNIT_WORDS, fill, is_document, read_document
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.translator import Source, Translator
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.lines import shown
from rnnsearch_fairseq.text.markup import SPAN, same_markup
from rnnsearch_fairseq.text.scores import AlignedPair
from rnnsearch_fairseq.text.scripts import count_words

Search = Callable[[Sequence[Source]], Iterable[Sequence[AlignedPair]]]

GROUP = 400  # sentences that are searched together
LINE_END = re.compile(r"(^\s+|\s*\n\s*|\s+$)")
SENTENCE_END = re.compile(r"(?<=[.!?])(\s+)(?=[^\W\d_a-zß-ÿ]|[`:*(])")
QUOTED = re.compile(r"(`{1,2}).+?\1")  # code, and the titles of links
LETTER = re.compile(r"[^\W\d_]")


def translate_documents(translator: Translator, search: Search, data: Path, out: Path) -> None:
    """Write a document, or those in a folder, with what was not translated filled in, and report on standard error.

    Of a sentence's translations by ``search``, the first that keeps its markup is taken; if none does, the first.

    Raises:
        InputError: there is no document, or one cannot be read, before any is translated; or one cannot be written.
    """
    paths = sorted(filter(is_document, data.rglob("*"))) if data.is_dir() else [data]
    outputs = {path: out / path.relative_to(data) for path in paths}
    if not paths:
        raise InputError(f"{data}: holds no .po, .pot, .xlf or .xliff file; give another folder")
    for path, output in outputs.items():
        check_not_input(output, [path])
        read_document(path)
    counts: Counter[str] = Counter(files=len(outputs))
    for path, output in outputs.items():
        content, units = read_document(path)
        blanks = {n: unit.sources for n, unit in enumerate(units) if any(unit.sources) and not any(unit.targets)}
        found = _translate(dict.fromkeys(chain(*blanks.values())), translator, search, path)
        filled = {}
        for number, sources in blanks.items():
            if all(text in found for text in sources):
                best, filled[number] = zip(*(found[text] for text in sources))
                counts["best"] += not all(map(same_markup, sources, best))
                counts["taken"] += not all(map(same_markup, sources, filled[number]))
        counts.update(blank=len(blanks), filled=len(filled))
        with contextlib.suppress(OSError):  # `open_output` tells why a file cannot be written there
            output.parent.mkdir(parents=True, exist_ok=True)
        with open_output(output) as file:
            file.write(fill(content, units, filled))
    report = (
        "files: {files:,}; messages without a translation: {blank:,}, filled in for review: {filled:,}; of these with "
        "markup missing or changed: {taken:,} (with the best translation, whatever its markup: {best:,})"
    )
    print(report.format_map(counts), file=sys.stderr)


def _translate(texts: Iterable[str], translator: Translator, search: Search, path: Path) -> dict[str, tuple[str, str]]:
    """The best translation of each text and the one to take, for the texts that can be read."""
    parts = {text: cut(text) for text in texts}
    found, sources = {}, {}
    for part in dict.fromkeys(chain(*parts.values())):
        try:
            if LETTER.search(SPAN.sub("", part)):
                sources[part] = translator.read_source(part, None, shown(part))
            else:
                found[part] = part, part
        except InputError as error:
            print(f"{path}: left as it is: {error}", file=sys.stderr)
    groups = (list(sources.values())[start : start + GROUP] for start in range(0, len(sources), GROUP))
    hidden = not sys.stderr.isatty()
    progress = tqdm(sources, path.name, unit=" sentences", disable=hidden, leave=False, dynamic_ncols=True)
    for part, translations in zip(progress, chain.from_iterable(map(search, groups))):
        if best := [each.text for each in translations if each.text]:
            found[part] = best[0], next((text for text in best if same_markup(part, text)), best[0])
    joined = ((text, [found[part] for part in cuts]) for text, cuts in parts.items() if found.keys() >= {*cuts})
    return {text: ("".join(best for best, _ in pairs), "".join(taken for _, taken in pairs)) for text, pairs in joined}


def cut(text: str) -> list[str]:
    """Cut a text into lines, long lines into sentences, and what stands between them: the parts joined are the text."""
    parts = []
    for line in LINE_END.split(text):
        if count_words(line) > MAX_UNIT_WORDS:
            protected = QUOTED.sub(lambda quoted: quoted[0].replace(" ", "\0"), line)
            parts += (sentence.replace("\0", " ") for sentence in SENTENCE_END.split(protected))
        else:
            parts.append(line)
    return parts
