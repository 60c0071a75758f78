"""Give documentation, with symbols in place of markup, to other systems, and make text of their translations.

Test sets are the files RAW/NAME.{en,fr}; the translations of each go to OUT/NAME.fr.

words RAW TEXT NAME...             for Moses: write TEXT/{train,valid,test}.{en,fr}, Moses tokens of RAW/train, of
                                   RAW/valid, and of all test sets, one after the other
from-words RAW OUTPUT OUT NAME...  text of Moses's translations of TEXT/test.en
pieces RAW MODEL NAME...           for models of fairseq's own: print the pieces that MODEL reads, a line for each
                                   sentence to translate
from-pieces RAW MODEL OUTPUT OUT NAME...    text of the output of fairseq-generate for these lines; of several
                                   translations (--nbest) the one with the fewest faults, as MODEL takes it

  python -m recipes.docs_en_fr.other_systems words runs/docs_en_fr/raw moses/text test picard wagtail cloudstack
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from recipes.reproduce.systems import read_parallel
from rnnsearch_fairseq import load
from rnnsearch_fairseq.command_line import program
from rnnsearch_fairseq.corpus.rows import texts_of, write_rows
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.translator import Text, Translator
from rnnsearch_fairseq.text.codec import TextCodec
from rnnsearch_fairseq.text.lines import read_lines
from rnnsearch_fairseq.text.markup import mask_pair, scan, unmask
from rnnsearch_fairseq.text.preparation import Preparation

LANGUAGES = ("en", "fr")
APART = {": :": "::", "* *": "**", " ’ ": "’"}  # what Moses's detokenizer leaves apart
CODECS = [TextCodec(Preparation(tokenizer="moses", moses_no_escape=True), language) for language in LANGUAGES]


def write_words(raw: Path, text: Path, names: list[str]) -> None:
    """Write the three parts for Moses. Of the test sets, the source's spans are masked, which a translator may see."""
    text.mkdir(parents=True, exist_ok=True)
    pairs = {name: zip(*read_parallel(*texts_of(raw / name, *LANGUAGES))) for name in ("train", "valid", *names)}
    parts = {part: (mask_pair(*pair) for pair in pairs[part]) for part in ("train", "valid")}
    tests = (pair for name in names for pair in pairs[name])
    parts["test"] = ((scan(source).mask()[0], target) for source, target in tests)
    for part, masked in parts.items():
        named = (tuple(re.sub(r"⟦(\d)⟧", r" SPAN\1 ", side) for side in pair) for pair in masked)
        rows = (tuple(" ".join(codec.encode(side)) for codec, side in zip(CODECS, pair)) for pair in named)
        write_rows(texts_of(text / part, *LANGUAGES), rows)


def text_of_words(words: str, source: str) -> str:
    """The text of Moses's words, with the markup of ``source``."""
    text = CODECS[1].decode(words.split())
    for apart, joined in APART.items():
        text = text.replace(apart, joined)
    return unmask(re.sub(r"SPAN(\d)", r"⟦\1⟧", text), scan(source).mask()[1])


def read_generated(path: Path) -> Iterator[list[list[str]]]:
    """Yield the translations of each line of the output of fairseq-generate, best first."""
    found = defaultdict(list)
    for line in read_lines(path):
        if line.startswith("H-"):
            name, _, words = line.rstrip("\n").split("\t")
            found[int(name.removeprefix("H-"))].append(words.split())
    for number in count():
        if number not in found:
            why = "fairseq's task translation can lose a batch of one sentence; give fairseq-generate --task rnnsearch"
            raise InputError(f"{path}: no translation of sentence {number} (from 0); {why}")
        yield found[number]


def text_of_pieces(model: Translator, text: Text, generated: Iterator[list[list[str]]]) -> str:
    """The translation of a text; the translations of its pieces are next in ``generated``."""
    chosen = []
    for source in text.sources:
        texts = [model.decode(words, source) for words in next(generated)]
        ((best, _),) = source.piece.choose(texts)
        chosen.append(best)
    return text.passage.join(chosen)


@program
def main() -> None:
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    command, raw, *rest = sys.argv[1:]

    def tests(names: list[str]) -> Iterator[tuple[str, list[str]]]:
        return ((name, read_parallel(Path(raw, f"{name}.en"))[0]) for name in names)

    match command, *rest:
        case "words", text, *names:
            write_words(Path(raw), Path(text), names)
        case "from-words", output, out, *names:
            words, texts = read_parallel(Path(output))[0], dict(tests(names))
            if len(words) != (total := sum(map(len, texts.values()))):
                raise InputError(f"{output}: {len(words)} lines, {total} in {', '.join(names)}; name all test sets")
            following = iter(words)
            for name, lines in texts.items():
                write_rows([Path(out, f"{name}.fr")], ((text_of_words(next(following), line),) for line in lines))
        case "pieces", path, *names:
            model = load(path)
            for text in (model.read_text(line) for _, lines in tests(names) for line in lines):
                for source in text.sources:
                    print(*source.words)
        case "from-pieces", path, output, out, *names:
            model, generated = load(path), read_generated(Path(output))
            for name, lines in tests(names):
                texts = map(model.read_text, lines)
                write_rows([Path(out, f"{name}.fr")], ((text_of_pieces(model, text, generated),) for text in texts))
