"""Learn the translations of rare words from alignments (future work in the paper's conclusion).

``python -m recipes.reproduce.unknown_words SCORES SOURCE TARGET DICTIONARY``

SCORES is the output of ``rnnsearch score --prepared SOURCE TARGET``. For each source word, DICTIONARY gets a line with
the word and the target word most often aligned with it, the first of equals; ``rnnsearch translate --replace-unknown
DICTIONARY`` reads it. A target word is aligned with the source word of the greatest weight.
"""

import sys
from collections import Counter, defaultdict
from pathlib import Path

from recipes.reproduce.systems import join_pieces, link_scores, read_parallel
from rnnsearch_fairseq.command_line import program
from rnnsearch_fairseq.corpus.rows import write_rows


def learn(scores: Path, source: Path, target: Path) -> dict[str, str]:
    """The target word most often aligned with each source word."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for links, *pair in zip(link_scores(scores, source, target), *read_parallel(source, target)):
        words, translation = (join_pieces(line).split() for line in pair)
        for place, position in sorted(links, key=lambda link: link[1]):
            counts[words[place]][translation[position]] += 1
    return {word: counts[word].most_common(1)[0][0] for word in sorted(counts)}


@program
def main() -> None:
    *inputs, output = map(Path, sys.argv[1:])
    write_rows([output], ((f"{word} {translation}",) for word, translation in learn(*inputs).items()))
