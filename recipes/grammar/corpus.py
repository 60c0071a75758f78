"""Sentence pairs with their gold annotation, and the files of a corpus."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from recipes.grammar.derivations import Grammar
from recipes.grammar.phrases import Phrase, brackets, contract, elide
from rnnsearch_fairseq.command_line import count, make_parser
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.preparation import PLAIN_MOSES, write_preparations

SHORTEST = 3  # words of the shortest sentence: subject, verb, full stop
LONGEST = 60
DEFAULT_SIZES = {"train": 12000, "valid": 500, "test": 1000}


@dataclass(frozen=True)
class SentencePair:
    """English and French words, sorted links (i, j) from source word i to target word j, and the English parse."""

    source: list[str]
    target: list[str]
    alignment: list[tuple[int, int]]
    parse: str


def finish(phrase: Phrase) -> SentencePair:
    """Spell a derivation out: contraction, elision, and word positions for the links."""
    words = phrase.words
    position = {leaf: index for index, leaf in enumerate(words)}
    french = elide(contract(phrase.french))
    links = [(position[leaf], j) for j, word in enumerate(french) for leaf in word.links]
    unique = sorted(dict.fromkeys(links))
    return SentencePair([leaf.word for leaf in words], [word.text for word in french], unique, brackets(phrase.english))


def _draw_length(rng: random.Random, longest: int) -> int:
    # 85% of the sentences around 11 words, 15% in a tail up to the longest.
    if longest > 16 and rng.random() < 0.15:
        return rng.randrange(16, longest + 1)
    return min(longest, SHORTEST + rng.randrange(9) + rng.randrange(9))


def generate(size: int, seed: int, longest: int = LONGEST) -> Iterator[SentencePair]:
    """Generate sentence pairs of 3 to `longest` English words, no two of them with the same English sentence.

    Raises:
        InputError: `longest` is below 8, or the grammar has no more sentences that short.
    """
    if longest < 8:
        raise InputError(f"the longest sentence must have at least 8 words, not {longest}")
    rng = random.Random(seed)
    grammar = Grammar(rng)
    seen: set[str] = set()
    misses = 0
    while len(seen) < size:
        room = _draw_length(rng, longest)
        made = finish(grammar.sentence(room))
        length, key = len(made.source), " ".join(made.source)
        if SHORTEST <= length <= longest and key not in seen:
            misses = 0
            seen.add(key)
            yield made
        elif (misses := misses + 1) > 10000:
            raise InputError(f"the grammar has too few sentences of at most {longest} words for {size} pairs")


def write_corpus(
    folder: str | Path, sizes: Mapping[str, int] = DEFAULT_SIZES, seed: int = 1, longest: int = LONGEST
) -> dict[str, list[SentencePair]]:
    """Write a corpus whose parts share no English sentence, and return its parts; see `generate` and `write_parts`."""
    pairs = list(generate(sum(sizes.values()), seed, longest))
    # The stream runs out of short sentences as it goes on; shuffled, all parts have the same mix of lengths.
    random.Random(seed).shuffle(pairs)
    remaining = iter(pairs)
    parts = {part: list(islice(remaining, size)) for part, size in sizes.items()}
    write_parts(Path(folder), parts)
    return parts


def write_parts(folder: Path, parts: Mapping[str, Sequence[SentencePair]]) -> None:
    """Write the pairs of each part of a corpus to a folder, which is made, one line a pair.

    `<part>.en` and `<part>.fr` hold the sentences, `<part>.align` the gold word alignment (Pharaoh format, `i-j` from
    0, English first), `<part>.penn` the English parse, and `preparation.json` how text becomes these words.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_preparations(folder, {"en": PLAIN_MOSES, "fr": PLAIN_MOSES})
    for part, pairs in parts.items():
        columns = {
            "en": (" ".join(pair.source) for pair in pairs),
            "fr": (" ".join(pair.target) for pair in pairs),
            "align": (" ".join(f"{i}-{j}" for i, j in pair.alignment) for pair in pairs),
            "penn": (pair.parse for pair in pairs),
        }
        for ending, lines in columns.items():
            with open(folder / f"{part}.{ending}", "w", encoding="utf-8", newline="\n") as file:
                file.writelines(f"{line}\n" for line in lines)


def main() -> None:
    parser = make_parser(
        "Write a small English-French corpus with word alignments and parses.\n\n  python -m recipes.grammar corpus"
    )
    parser.add_argument("folder", type=Path, metavar="OUT_DIR", help="folder for train.en, train.fr, train.align, ...")
    for part, size in DEFAULT_SIZES.items():
        parser.add_argument(f"--{part}", type=count, default=size, help=f"{part} sentence pairs ({size})")
    parser.add_argument("--seed", type=int, default=1, help="seed of the corpus (1)")
    parser.add_argument("--longest", type=int, default=LONGEST, help=f"words of the longest sentence ({LONGEST})")
    args = parser.parse_args()
    sizes = {part: getattr(args, part) for part in DEFAULT_SIZES}
    for part, pairs in write_corpus(args.folder, sizes, args.seed, args.longest).items():
        english = sum(len(pair.source) for pair in pairs)
        print(
            f"{args.folder / part}.{{en,fr,align,penn}}: {len(pairs)} sentences, "
            f"{english / len(pairs):.1f} English words per sentence"
        )
