"""Write text as the pieces that a model reads, for a model of fairseq's own, and text of what that one generates.

``encode MODEL TEXT...`` prints a line for each sentence of the texts that needs a translator. ``decode MODEL GENERATED
OUT TEXT...`` writes the translations of each text to the folder OUT. GENERATED is what fairseq-generate printed for
these lines; of several translations (--nbest) the best that keeps the most markup is taken, as MODEL would:

  python -m recipes.docs_en_fr.pieces encode recipes/docs_en_fr/model raw/picard.en raw/wagtail.en > pieces.en
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rnnsearch_fairseq import load
from rnnsearch_fairseq.errors import print_without_traceback
from rnnsearch_fairseq.inference.translator import Source, Translator
from rnnsearch_fairseq.text.lines import read_lines
from rnnsearch_fairseq.text.markup import SYMBOLS


def read_sources(model: Translator, text: Path) -> Iterator[Source]:
    """The sources of the lines of a text."""
    return (model.read_source(line.rstrip("\n")) for line in read_lines(text))


def read_generated(path: Path) -> Mapping[int, Sequence[list[str]]]:
    """The translations of each line, best first, of the output of fairseq-generate."""
    found = defaultdict(list)
    for line in read_lines(path):
        if line.startswith("H-"):
            name, _, words = line.rstrip("\n").split("\t")
            found[int(name.removeprefix("H-"))].append(words.split())
    return found


def keeping_markup(translations: Sequence[list[str]], source: Source) -> list[str]:
    """The first translation of those that lack the fewest symbols."""
    symbols = {*SYMBOLS[: len(source.spans)]}
    return min(translations, key=lambda words: len(symbols.difference(words)))


def decode(model: Translator, generated: Path, out: Path, texts: Sequence[Path]) -> None:
    """Write the translations of the texts."""
    translations, number = read_generated(generated), -1
    out.mkdir(parents=True, exist_ok=True)
    for text in texts:
        with (out / text.with_suffix(".fr").name).open("w", encoding="utf-8") as file:
            for source in read_sources(model, text):
                parts = [unit.copy for unit in source.units]
                for place, unit in enumerate(source.units):
                    if unit.copy is None:
                        number += 1
                        parts[place] = model.decode(keeping_markup(translations[number], unit), unit)
                print(*filter(None, parts), file=file)


def main() -> None:
    """The command line of this module."""
    match sys.argv[1:]:
        case ["encode", model, *texts] if texts:
            translator = load(model)
            sources = (source for text in texts for source in read_sources(translator, Path(text)))
            print(*(" ".join(unit.words) for source in sources for unit in source.units if unit.copy is None), sep="\n")
        case ["decode", model, generated, out, *texts] if texts:
            decode(load(model), Path(generated), Path(out), [*map(Path, texts)])
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    print_without_traceback()
    main()
