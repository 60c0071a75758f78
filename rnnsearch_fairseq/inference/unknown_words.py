"""Replace unknown words in translations by means of the alignment (future work in the paper's conclusion).

``rnnsearch unknown-words learn SCORES... --source TEXT --target TEXT --output DICT``
``rnnsearch unknown-words replace GENERATED --source TEXT [--dictionary DICT] > TRANSLATIONS``

learn    writes a dictionary of the training text: for each source word, the target word most often aligned with it.
         SCORES is the output of rnnsearch score for the text in --source and --target, one file or several in order.
         Each target word is linked with the source word of the greatest weight; links with end-of-sentence are not
         counted. Of equally frequent words, the first one is kept. A line of DICT is a source word, its translation
         and the number of their links; fairseq's --replace-unk can read it, too
replace  prints GENERATED's best translation of each line of --source, in order. Each <unk> is replaced: by DICT's
         translation of the source word with the greatest weight or, if DICT has none, by that source word itself.
         GENERATED is the output of fairseq-generate --print-alignment soft, without --replace-unk, --tokenizer, --bpe,
         --remove-bpe or --post-process

The model's output holds <unk> for unknown words, and the text in --source has the words themselves. So fairseq-generate
does not need --dataset-impl raw, as its own --replace-unk does, and one run of it serves both kinds of translations.
"""

import argparse
import itertools
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recipes.reproduce.generated import read_generated
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.lines import check_parallel, check_text_file, read_lines, read_pairs
from rnnsearch_fairseq.text.scores import AlignedPair, read_scores

UNKNOWN = "<unk>"

Counts = dict[str, Counter[str]]


def count_links(scores: Sequence[Path], source: Path, target: Path) -> Counts:
    """Count how often each source word is linked with each target word.

    Args:
        scores: files of ``rnnsearch score``; together they have one line for each sentence.
        source: the text that was scored; `check_parallel` has accepted it with ``target``.
        target: its translation.

    Raises:
        InputError: a file of scores is damaged, has no alignments, or belongs to another text.
    """
    counts: Counts = defaultdict(Counter)
    scored = itertools.chain.from_iterable(map(read_scores, scores))
    where = ""
    for number, (score, pair) in enumerate(itertools.zip_longest(scored, read_pairs(source, target)), 1):
        if score is None:
            raise InputError(f"{where}: the scores end before line {number} of {source}; score all of it")
        where = score.where
        if pair is None:
            raise InputError(f"{where}: {source} has no more lines; give the text that was scored")
        # The last word of each side, the last row and the last column belong to end-of-sentence.
        words, translation = (
            _own_words(seen[:-1], text, where, f"{path}, line {number}")
            for seen, text, path in zip((score.source, score.target), pair, (source, target))
        )
        for word, position in zip(translation, score.alignment.argmax(dim=1).tolist()):
            if position < len(words):
                counts[words[position]][word] += 1
    return counts


def write_dictionary(counts: Counts, path: Path) -> None:
    """Write each source word, the target word most often linked with it, and the number of these links."""
    with open_output(path) as out:
        for word in sorted(counts):
            ((best, links),) = counts[word].most_common(1)
            out.write(f"{word} {best} {links}\n".encode())


def read_dictionary(path: Path) -> dict[str, str]:
    """Read the translation of each source word; each line of the file begins with these two words.

    Raises:
        InputError: the file cannot be read, or a line has fewer than two words.
    """
    check_text_file(path)
    dictionary = {}
    for number, line in enumerate(read_lines(path), 1):
        words = line.split()
        if len(words) < 2:
            raise InputError(f"{path}, line {number}: not a word and its translation; delete it or complete it")
        dictionary[words[0]] = words[1]
    return dictionary


@dataclass
class ReplacementCounts:
    """Counts of translations (all and affected) and of unknown words: looked up, copied from the source, or left."""

    translations: int = 0
    affected: int = 0
    looked_up: int = 0
    copied: int = 0
    left: int = 0

    def summary(self) -> str:
        """One readable line."""
        unknown = self.looked_up + self.copied + self.left
        return (
            f"{unknown:,} unknown words in {self.affected:,} of {self.translations:,} translations: {self.looked_up:,} "
            f"replaced from the dictionary, {self.copied:,} by the source word, {self.left:,} left (no source words)"
        )


def replace_all(generated: Path, source: Path, dictionary: dict[str, str], counts: ReplacementCounts) -> list[str]:
    """Return the translation of each line of ``source``, with unknown words replaced.

    Args:
        source: the text that was translated; `check_text_file` has accepted it.

    Raises:
        InputError: ``generated`` is damaged, has no alignments, or does not match ``source`` line by line.
    """
    pairs = read_generated(generated)
    replaced = []
    for number, line in enumerate(read_lines(source)):
        if number not in pairs:
            raise InputError(
                f"{generated}: sentence {number}, line {number + 1} of {source}, is missing; translate all of them"
            )
        pair = pairs.pop(number)
        where = f"{generated}, sentence {number}"
        words = _own_words(pair.source[:-1], line, where, f"{source}, line {number + 1}")
        replaced.append(" ".join(replace(pair, words, dictionary, counts, where)))
    if pairs:
        raise InputError(
            f"{generated}: sentence {min(pairs)} is more than {source} has; give the text that was translated"
        )
    return replaced


def replace(
    pair: AlignedPair, source: list[str], dictionary: dict[str, str], counts: ReplacementCounts, where: str
) -> list[str]:
    """Return the target words of ``pair``, with unknown ones replaced by means of the words of ``source``.

    Raises:
        InputError: there is no soft alignment, or it has another shape.
    """
    weights = pair.alignment
    if weights is None:
        raise InputError(f"{where}: there is no alignment; give fairseq-generate --print-alignment soft")
    words = pair.target[:-1]
    unknown = [position for position, word in enumerate(words) if word == UNKNOWN]
    # The additional row belongs to end-of-sentence, which a translation cut off at the longest length lacks.
    sizes = [(rows, len(source) + 1) for rows in (len(words), len(words) + 1)]
    if unknown and weights.shape not in sizes:
        raise InputError(
            f"{where}: its alignment is {tuple(weights.shape)}, its words say {sizes[1]}; use a model with "
            "attention, and no --tokenizer, --bpe, --remove-bpe or --post-process"
        )
    counts.translations += 1
    counts.affected += bool(unknown)
    for position in unknown:
        if not source:
            counts.left += 1
            continue
        aligned = source[weights[position, :-1].argmax().item()]
        words[position] = dictionary.get(aligned, aligned)
        counts.looked_up += aligned in dictionary
        counts.copied += aligned not in dictionary
    return words


def _own_words(seen: list[str], line: str, where: str, there: str) -> list[str]:
    """Return the words of ``line``, which must equal ``seen`` except where ``seen`` has <unk>.

    Raises:
        InputError: they differ.
    """
    words = line.split()
    for position, (model, word) in enumerate(zip(seen, words), 1):
        if model not in (word, UNKNOWN):
            raise InputError(
                f"{where}: word {position} is {model!r}, but {word!r} in {there}; give the text that the model read"
            )
    if len(seen) != len(words):
        raise InputError(f"{where}: {len(seen)} words, but {there} has {len(words)}; give the text that the model read")
    return words


def parse_arguments() -> argparse.Namespace:
    """Read the command line.

    Raises:
        InputError: the output would replace an input.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    learn = commands.add_parser("learn", help="write a dictionary from the alignments of the training text")
    learn.add_argument("scores", type=Path, nargs="+", help="output of rnnsearch score, in the text's order")
    learn.add_argument("--source", type=Path, required=True, metavar="TEXT", help="source text that was scored")
    learn.add_argument("--target", type=Path, required=True, metavar="TEXT", help="target text that was scored")
    learn.add_argument("--output", type=Path, required=True, metavar="DICT", help="dictionary to write")
    replace = commands.add_parser("replace", help="print translations with their unknown words replaced")
    replace.add_argument("generated", type=Path, help="output of fairseq-generate --print-alignment soft")
    replace.add_argument("--source", type=Path, required=True, metavar="TEXT", help="source text that was translated")
    replace.add_argument("--dictionary", type=Path, metavar="DICT", help="without it, source words are copied")
    args = parser.parse_args()
    if args.command == "learn":
        check_not_input(args.output, (*args.scores, args.source, args.target))
    return args


def main() -> None:
    """The command line of this module."""
    args = parse_arguments()
    if args.command == "learn":
        check_parallel([args.source, args.target])
        counts = count_links(args.scores, args.source, args.target)
        write_dictionary(counts, args.output)
        links = sum(words.total() for words in counts.values())
        print(f"{links:,} links of {len(counts):,} source words -> {args.output}")
        return
    check_text_file(args.source)
    counts = ReplacementCounts()
    dictionary = {} if args.dictionary is None else read_dictionary(args.dictionary)
    lines = replace_all(args.generated, args.source, dictionary, counts)
    sys.stdout.buffer.writelines(f"{line}\n".encode() for line in lines)
    sys.stdout.flush()
    print(counts.summary(), file=sys.stderr)
