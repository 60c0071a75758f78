"""Learn the translations of rare words from alignments (future work in the paper's conclusion).

``python -m recipes.reproduce.unknown_words SCORES SOURCE TARGET DICTIONARY``

SCORES is the output of ``rnnsearch score --prepared SOURCE TARGET``. For each source word, DICTIONARY gets a line with
the word and the target word most often aligned with it, the first of equals; ``rnnsearch translate --replace-unknown
DICTIONARY`` reads it. A target word is aligned with the source word of the greatest weight.
"""

import sys
from collections import Counter, defaultdict
from pathlib import Path

from recipes.reproduce.systems import read_parallel, strongest_links
from rnnsearch_fairseq.command_line import program
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.aligned_pairs import read_scores
from rnnsearch_fairseq.output import open_output


def learn(scores: Path, source: Path, target: Path) -> dict[str, str]:
    """The target word most often aligned with each source word."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    pairs = [(line.split(), translation.split()) for line, translation in zip(*read_parallel(source, target))]
    alignments = [pair.by_word()[2] for pair in read_scores(scores)]
    if [weights.shape for weights in alignments] != [(len(t) + 1, len(s) + 1) for s, t in pairs]:
        raise InputError(f"{scores}: has not the words of {source} and {target}; give the text that was scored")
    for (words, translation), weights in zip(pairs, alignments):
        for place, position in sorted(strongest_links(weights), key=lambda link: link[1]):
            counts[words[place]][translation[position]] += 1
    return {word: counts[word].most_common(1)[0][0] for word in sorted(counts)}


@program
def main() -> None:
    *inputs, output = map(Path, sys.argv[1:])
    lines = [f"{word} {translation}\n" for word, translation in learn(*inputs).items()]
    with open_output(output) as out:
        out.write("".join(lines).encode())
