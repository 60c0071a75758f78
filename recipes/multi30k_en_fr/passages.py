"""Join sentences of prepared parallel text at random to passages, so that a corpus of short sentences gets long ones.

``python -m recipes.multi30k_en_fr.passages TEXT OUT -s en -t fr --passages N [OPTIONS]``

TEXT and OUT are names without language: text/test stands for text/test.en and text/test.fr. A passage has one to
--sentences different sentences of TEXT, one after the other on both sides, and at most --max-words source words. Give
each part of a corpus, train, valid and test, separately: then no part holds sentences of another.

All source lengths are equally frequent: 1 to 10 words, 11 to 20 words, and so on up to --max-words get equal numbers of
passages, which are the bins of ``recipes.reproduce.by_length``. To that end the number of sentences is drawn (each
number has the same probability), then the sentences, and the passage is kept if its bin still lacks one and no passage
before it has the same sentences in the same order. Pieces of BPE count as the word that they make.

OUT.segments says where the sentences lie: line N has, for each sentence of passage N, SOURCE_TOKENS-TARGET_TOKENS, as
in "12-13 9-10". They are counted as written, in pieces if TEXT is in pieces: the first item is where attention to the
first sentence should end. The record of TEXT's preparation is copied beside OUT.
"""

import argparse
import random
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rnnsearch_fairseq.errors import Count, InputError, print_without_traceback
from rnnsearch_fairseq.output import check_not_input, open_output
from rnnsearch_fairseq.text.lines import BPE_MARK, check_parallel, read_pairs
from rnnsearch_fairseq.text.preparation import read_preparations, write_preparations
from rnnsearch_fairseq.text.texts import Texts, add_languages, texts_of

WIDTH = 10  # words of a bin
MOST_MISSES = 200_000  # draws in a row without a new passage, after which there are too few


def count_words(tokens: Sequence[str]) -> int:
    """The number of words; a piece of BPE that the next one continues does not count."""
    return sum(not token.endswith(BPE_MARK) for token in tokens)


def draw_passages(
    lengths: Sequence[int], number: int, most_sentences: int, most_words: int, seed: int
) -> list[tuple[int, ...]]:
    """Draw passages. The bins of :data:`WIDTH` words, up to ``most_words``, get equal numbers of them, give or take 1.

    Args:
        lengths: of each sentence, its number of words.
        number: how many passages to draw.
        most_sentences: the most sentences of a passage.
        most_words: the most words of a passage.

    Returns:
        The passages, each the numbers of its sentences; no two are equal. In random order.

    Raises:
        InputError: the sentences do not make so many passages.
    """
    generator = random.Random(seed)
    bins = range(0, most_words, WIDTH)
    missing = [number // len(bins) + (bin < number % len(bins)) for bin in range(len(bins))]
    drawn: dict[tuple[int, ...], None] = {}  # keeps the order, unlike a set
    misses = 0
    while len(drawn) < number:
        size = generator.randint(1, min(most_sentences, len(lengths)))
        passage = tuple(generator.sample(range(len(lengths)), size))
        words = sum(lengths[sentence] for sentence in passage)
        if words <= most_words and missing[(words - 1) // WIDTH] and passage not in drawn:
            missing[(words - 1) // WIDTH] -= 1
            drawn[passage] = None
            misses = 0
        else:
            misses += 1
        if misses == MOST_MISSES:
            lacks = ", ".join(f"{lack:,} of {first + 1} words and more" for first, lack in zip(bins, missing) if lack)
            raise InputError(
                f"{len(lengths):,} sentences do not make {number:,} passages: there lack {lacks}; "
                "give fewer --passages, more --sentences, or fewer --max-words"
            )
    passages = list(drawn)
    generator.shuffle(passages)
    return passages


def write_passages(
    text: Texts, out: Texts, segments: Path, number: int, most_sentences: int, most_words: int, seed: int
) -> tuple[int, int]:
    """Write passages of the pairs of ``text`` that have words on both sides, and the lengths of their sentences.

    Returns:
        How many such pairs there are, and how many of them are in a passage.

    Raises:
        InputError: a file is bad, or would be replaced, or see :func:`draw_passages`.
    """
    check_parallel(text)
    for path in (*out, segments):
        check_not_input(path, text)
    split = ((source.split(), target.split()) for source, target in read_pairs(*text))
    pairs = [pair for pair in split if all(pair)]
    if not pairs:
        raise InputError(f"{text[0]}, {text[1]}: no pair has words on both sides; give other text")
    lengths = [count_words(source) for source, _ in pairs]
    passages = draw_passages(lengths, number, most_sentences, most_words, seed)
    out[0].parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        *sides, sizes = (stack.enter_context(open_output(path)) for path in (*out, segments))
        for passage in passages:
            for side, file in enumerate(sides):
                file.write(f"{' '.join(' '.join(pairs[sentence][side]) for sentence in passage)}\n".encode())
            items = (f"{len(source)}-{len(target)}" for source, target in (pairs[sentence] for sentence in passage))
            sizes.write(f"{' '.join(items)}\n".encode())
    preparations = read_preparations(text[0].parent)
    if preparations is not None:
        write_preparations(out[0].parent, preparations)
    return len(pairs), len({sentence for passage in passages for sentence in passage})


def main() -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", help="tokenised text to read, without the language")
    parser.add_argument("out", help="text to write; its folder is made if it is not there")
    add_languages(parser)
    parser.add_argument("--passages", action=Count, required=True, help="how many passages to write")
    parser.add_argument("--sentences", action=Count, default=5, help="most sentences of a passage (default: 5)")
    parser.add_argument("--max-words", action=Count, default=70, help="most source words (default: 70)")
    parser.add_argument("--seed", type=int, default=1, help="equal seeds give equal passages (default: 1)")
    args = parser.parse_args()
    numbers = args.passages, args.sentences, args.max_words, args.seed
    languages = args.source_lang, args.target_lang
    text, out = texts_of(args.text, *languages), texts_of(args.out, *languages)
    pairs, used = write_passages(text, out, Path(f"{args.out}.segments"), *numbers)
    print(
        f"{args.passages:,} passages with {used:,} of {pairs:,} sentences (seed {args.seed}) "
        f"-> {args.out}.{{{args.source_lang},{args.target_lang},segments}}"
    )


if __name__ == "__main__":
    print_without_traceback()
    main()
