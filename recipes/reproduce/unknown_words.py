"""Replace unknown words in translated tokens by means of the alignment (future work in the paper's conclusion).

``python -m recipes.reproduce.unknown_words learn SCORES --source TEXT --target TEXT --output DICTIONARY``
``python -m recipes.reproduce.unknown_words replace GENERATED --source TEXT [--dictionary DICTIONARY] [--output FILE]``

learn    writes a dictionary of the training text: for each source word, the target word most often aligned with it.
         SCORES is the output of rnnsearch score for the text in --source and --target. Each target word is linked with
         the source word of the greatest weight; links with end-of-sentence do not count. Of equally frequent words, the
         first one is taken. A line of DICTIONARY has a source word and its translation, and rnnsearch translate
         --replace-unknown DICTIONARY reads it, too
replace  writes the best translation of each line of --source, in order. Each <unk> is replaced: by DICTIONARY's
         translation of the source word with the greatest weight or, without one, by that source word itself. GENERATED
         is the output of fairseq-generate --print-alignment soft, in the words of --source

rnnsearch translate --replace-unknown does the same with text as it comes. These programs work on tokens, by which the
tables compare systems.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from recipes.reproduce.alignment_error import in_parallel
from recipes.reproduce.document import write_text
from recipes.reproduce.generated import read_generated
from rnnsearch_fairseq.errors import InputError, print_without_traceback
from rnnsearch_fairseq.text.lines import read_parallel
from rnnsearch_fairseq.text.scores import AlignedPair

UNKNOWN = "<unk>"


def learn(scores: Path, source: Path, target: Path) -> dict[str, str]:
    """The target word most often linked with each source word.

    Raises:
        InputError: a file is bad, or ``scores`` belongs to another text.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    pairs = list(zip(*read_parallel(source, target)))
    for number, (score, lines) in enumerate(in_parallel(scores, pairs, source), 1):
        sides = zip((score.source, score.target), lines, (source, target))
        words, translation = (text_words(seen[:-1], line, f"{path}, line {number}") for seen, line, path in sides)
        for word, place in zip(translation, score.weights.argmax(dim=1).tolist()):
            if place < len(words):
                counts[words[place]][word] += 1
    return {word: counts[word].most_common(1)[0][0] for word in sorted(counts)}


def replace(pair: AlignedPair, source: list[str], dictionary: dict[str, str], where: str) -> list[str]:
    """The target words of ``pair``; unknown ones are replaced by means of the words of ``source``.

    Raises:
        InputError: there is no alignment, or it has another shape.
    """
    words = pair.target[:-1]
    unknown = [place for place, word in enumerate(words) if word == UNKNOWN] if source else []
    # A translation that was cut off at the longest length has no row of end-of-sentence.
    sizes = [(rows, len(source) + 1) for rows in (len(words), len(words) + 1)]
    if unknown and (pair.weights is None or pair.weights.shape not in sizes):
        raise InputError(f"{where}: no alignment of its words; give fairseq-generate --print-alignment soft")
    for place in unknown:
        aligned = source[pair.weights[place, :-1].argmax().item()]
        words[place] = dictionary.get(aligned, aligned)
    return words


def text_words(seen: Iterable[str], line: str, where: str) -> list[str]:
    """The words of ``line``, which must equal ``seen`` except where ``seen`` has <unk>.

    Raises:
        InputError: they differ.
    """
    words, seen = line.split(), list(seen)
    if len(seen) != len(words) or any(model not in (word, UNKNOWN) for model, word in zip(seen, words)):
        raise InputError(f"{where}: not the words that the model read; give the same text")
    return words


def replace_all(generated: Path, source: Path, dictionary: dict[str, str]) -> list[str]:
    """The translation of each line of ``source``, with unknown words replaced.

    Raises:
        InputError: a file is bad, or ``generated`` belongs to another text.
    """
    pairs, (lines,) = read_generated(generated), read_parallel(source)
    if len(pairs) != len(lines):
        raise InputError(f"{generated} has {len(pairs)} sentences and {source} has {len(lines)}; give the same ones")
    replaced = []
    for pair, line in zip(pairs, lines):
        words = text_words(pair.source[:-1], line, f"{source}, line {pair.number + 1}")
        replaced.append(" ".join(replace(pair, words, dictionary, f"{generated}, sentence {pair.number}")))
    return replaced


def main() -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("learn", help="write a dictionary from the alignments of the training text")
    command.add_argument("scores", type=Path, help="output of rnnsearch score")
    command.add_argument("--source", type=Path, required=True, metavar="TEXT", help="source text that was scored")
    command.add_argument("--target", type=Path, required=True, metavar="TEXT", help="target text that was scored")
    command.add_argument("--output", type=Path, required=True, metavar="DICTIONARY", help="file to write")
    command = commands.add_parser("replace", help="write translations with their unknown words replaced")
    command.add_argument("generated", type=Path, help="output of fairseq-generate --print-alignment soft")
    command.add_argument("--source", type=Path, required=True, metavar="TEXT", help="source text that was translated")
    command.add_argument("--dictionary", type=Path, metavar="DICTIONARY", help="without it, source words are copied")
    command.add_argument("--output", type=Path, metavar="FILE", help="default: standard output")
    args = parser.parse_args()
    if args.command == "learn":
        lines = [f"{word} {translation}" for word, translation in learn(args.scores, args.source, args.target).items()]
        inputs = (args.scores, args.source, args.target)
    else:
        entries = read_parallel(args.dictionary)[0] if args.dictionary else []
        dictionary = dict(entry.split()[:2] for entry in entries)
        lines = replace_all(args.generated, args.source, dictionary)
        inputs = (args.generated, args.source, args.dictionary)
    write_text("".join(f"{line}\n" for line in lines), args.output, inputs)


if __name__ == "__main__":
    print_without_traceback()
    main()
