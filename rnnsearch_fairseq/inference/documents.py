"""Translate what is not translated in PO and XLIFF files."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from tqdm import tqdm

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.translator import Source, Translation, Translator
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.formats import fill, is_document, read_document
from rnnsearch_fairseq.text.lines import shown
from rnnsearch_fairseq.text.markup import SPAN, same_markup
from rnnsearch_fairseq.text.scripts import count_words
from rnnsearch_fairseq.text.split import MOST_WORDS

Search = Callable[[Sequence[Source]], Iterable[Sequence[Translation]]]

GROUP = 400  # sentences that are searched together
LINE_END = re.compile(r"(^\s+|\s*\n\s*|\s+$)")
SENTENCE_END = re.compile(r"(?<=[.!?])(\s+)(?=[^\W\d_a-zß-ÿ]|[`:*(])")
QUOTED = re.compile(r"(`+).+?\1")  # code, and the titles of links
LETTER = re.compile(r"[^\W\d_]")


def pair_files(data: Path, output: Path | None) -> dict[Path, Path]:
    """The output of a document, or of each document in a folder: the same path in the folder ``output``.

    Raises:
        InputError: there is no ``output``, no document, or an output would replace its input.
    """
    files = sorted(filter(is_document, data.rglob("*"))) if data.is_dir() else [data]
    if output is None or not files:
        raise InputError(f"{data}: give --output, and a .po, .pot, .xlf or .xliff file or a folder of such files")
    for path in files:
        check_not_input(output / path.relative_to(data), [path])
    return {path: output / path.relative_to(data) for path in files}


def translate_documents(files: Mapping[Path, Path], translator: Translator, search: Search) -> None:
    """Write documents with what was not translated filled in, marked for review, and report on standard error.

    Of the translations that ``search`` gives for a sentence, best first, the first with the markup of the sentence is
    taken, or else the first.

    Args:
        files: the output of each document.

    Raises:
        InputError: `read_document` refuses one of the documents, before any is translated; or one cannot be written.
    """
    for path in files:
        read_document(path)
    counts: Counter[str] = Counter()
    for path, output in files.items():
        content, units = read_document(path)
        blanks = {number: unit.sources for number, unit in enumerate(units) if not any(unit.targets)}
        found = _translate(dict.fromkeys(chain(*blanks.values())), translator, search, path)
        filled = {}
        for number, sources in blanks.items():
            if all(text in found for text in sources):
                best, filled[number] = zip(*(found[text] for text in sources))
                counts["best"] += not all(map(same_markup, sources, best))
                counts["taken"] += not all(map(same_markup, sources, filled[number]))
        counts += Counter(blank=len(blanks), filled=len(filled))
        output.parent.mkdir(parents=True, exist_ok=True)
        with open_output(output) as file:
            file.write(fill(content, units, filled))
    print(
        f"files: {len(files):,}; messages without a translation: {counts['blank']:,}, filled in for review: "
        f"{counts['filled']:,}; of these with markup missing or changed: {counts['taken']:,} (with the best "
        f"translation, whatever its markup: {counts['best']:,})",
        file=sys.stderr,
    )


def _translate(texts: Iterable[str], translator: Translator, search: Search, path: Path) -> dict[str, tuple[str, str]]:
    """The best translation of each text and the one to take, for the texts that can be read."""
    parts = {text: cut(text) for text in texts}
    found, sources = {}, {}
    for part in dict.fromkeys(chain(*parts.values())):
        if not LETTER.search(SPAN.sub("", part)):
            found[part] = part, part
            continue
        try:
            sources[part] = translator.read_source(part, None, shown(part))
        except InputError as error:
            print(f"{path}: left as it is: {error}", file=sys.stderr)
    groups = (list(sources.values())[start : start + GROUP] for start in range(0, len(sources), GROUP))
    hidden = not sys.stderr.isatty()
    results = zip(sources, chain.from_iterable(map(search, groups)))
    for part, translations in tqdm(results, path.name, len(sources), unit=" sentences", disable=hidden, leave=False):
        if best := [each.text for each in translations if each.text]:
            found[part] = best[0], next((text for text in best if same_markup(part, text)), best[0])
    joined = ((text, [found[part] for part in cuts]) for text, cuts in parts.items() if found.keys() >= {*cuts})
    return {text: ("".join(best for best, _ in pairs), "".join(taken for _, taken in pairs)) for text, pairs in joined}


def cut(text: str) -> list[str]:
    """Cut a text into lines, and lines that are longer than those of training into sentences, with what is between."""
    parts = []
    for line in LINE_END.split(text):
        if count_words(line) > MOST_WORDS:
            protected = QUOTED.sub(lambda quoted: quoted[0].replace(" ", "\0"), line)
            parts += (sentence.replace("\0", " ") for sentence in SENTENCE_END.split(protected))
        else:
            parts.append(line)
    return parts
