"""Sentence pairs with their gold annotation, and the files of a corpus."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from recipes.grammar.derivations import Grammar
from recipes.grammar.phrases import Phrase, brackets, contract, elide
from rnnsearch_fairseq.corpus.rows import texts_of, write_rows
from rnnsearch_fairseq.text.preparation import Preparation, write_preparations

SHORTEST = 3  # words of the shortest sentence: subject, verb, full stop
LONGEST = 60
WIDTH = 10  # words of a bin of lengths
SIZES = {"train": 12000, "valid": 500, "test": 1000}


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
    links = {(position[leaf], j) for j, word in enumerate(french) for leaf in word.links}
    sides = [leaf.word for leaf in words], [word.text for word in french]
    return SentencePair(*sides, sorted(links), brackets(phrase.english))


def generate(size: int, seed: int, longest: int = LONGEST) -> Iterator[SentencePair]:
    """Generate sentence pairs of 3 to `longest` English words, no two of them with the same English sentence."""
    rng = random.Random(seed)
    grammar = Grammar(rng)
    seen: set[str] = set()
    while len(seen) < size:
        # 85% of the sentences around 11 words, 15% in a tail up to the longest.
        in_tail = longest > 16 and rng.random() < 0.15
        room = rng.randrange(16, longest + 1) if in_tail else SHORTEST + rng.randrange(9) + rng.randrange(9)
        made = finish(grammar.sentence(min(longest, room)))
        length, key = len(made.source), " ".join(made.source)
        if SHORTEST <= length <= longest and key not in seen:
            seen.add(key)
            yield made


def draw_parts(sizes: Mapping[str, int], seed: int, longest: int = LONGEST) -> dict[str, list[SentencePair]]:
    """Draw the parts of a corpus, which share no English sentence."""
    pairs = list(generate(sum(sizes.values()), seed, longest))
    # The stream runs out of short sentences as it goes on; shuffled, all parts have the same mix of lengths.
    random.Random(seed).shuffle(pairs)
    remaining = iter(pairs)
    return {part: list(islice(remaining, size)) for part, size in sizes.items()}


def draw_even_parts(sizes: Mapping[str, int], seed: int, longest: int = LONGEST) -> dict[str, list[SentencePair]]:
    """Draw parts in which sentences of 1 to 10 words, of 11 to 20, and so on are equally many, give or take one."""
    rng = random.Random(seed)
    grammar = Grammar(rng)
    bins = range(-(-longest // WIDTH))
    shares = {part: [size // len(bins) + (bin < size % len(bins)) for bin in bins] for part, size in sizes.items()}
    missing = [sum(of_bin) for of_bin in zip(*shares.values())]
    drawn: list[dict[str, SentencePair]] = [{} for _ in bins]
    while any(missing):
        bin = rng.choices(bins, missing)[0]
        pair = finish(grammar.sentence(rng.randint(max(SHORTEST, bin * WIDTH + 1), (bin + 1) * WIDTH)))
        bin, key = (len(pair.source) - 1) // WIDTH, " ".join(pair.source)
        if len(pair.source) <= longest and missing[bin] and key not in drawn[bin]:
            drawn[bin][key] = pair
            missing[bin] -= 1
    # Here, too, the short sentences came first.
    streams = [iter(rng.sample(list(of_bin.values()), len(of_bin))) for of_bin in drawn]
    parts = {}
    for part, of_part in shares.items():
        parts[part] = [pair for stream, share in zip(streams, of_part) for pair in islice(stream, share)]
        rng.shuffle(parts[part])
    return parts


def write_corpus(
    folder: str | Path, sizes: Mapping[str, int] = SIZES, seed: int = 1, longest: int = LONGEST, even: bool = False
) -> dict[str, list[SentencePair]]:
    """Draw the parts of a corpus, write them to a folder, which is made, and return them.

    `<part>.en` and `<part>.fr` hold the sentences, `<part>.align` the gold word alignment (Pharaoh format, `i-j` from
    0, English first), `<part>.penn` the English parse, and `preparation.json` how text becomes these words.
    """
    parts = (draw_even_parts if even else draw_parts)(sizes, seed, longest)
    Path(folder).mkdir(parents=True, exist_ok=True)
    moses = Preparation("moses", moses_no_escape=True, moses_no_dash_splits=True)
    write_preparations(Path(folder), {"en": moses, "fr": moses})
    for part, pairs in parts.items():
        rows = (
            (*map(" ".join, (pair.source, pair.target, (f"{i}-{j}" for i, j in pair.alignment))), pair.parse)
            for pair in pairs
        )
        write_rows(texts_of(Path(folder, part), "en", "fr", "align", "penn"), rows)
    return parts
