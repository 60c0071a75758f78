"""Count the spans of markup in messages and how many of them translators keep: the worth of each construct.

A span is kept if it occurs in the human translation as often as in the message. Each row is a construct of TABLE in
rnnsearch_fairseq/text/markup.py, or a token that is no plain text; the last rows are of whole messages.

  python -m recipes.docs_en_fr.spans runs/docs_en_fr/raw/train.en runs/docs_en_fr/raw/train.fr
"""

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from rnnsearch_fairseq.command_line import print_without_traceback
from rnnsearch_fairseq.text.lines import read_pairs
from rnnsearch_fairseq.text.markup import scan


def count_spans(pairs: Iterable[tuple[str, ...]]) -> tuple[Counter[str], Counter[str]]:
    """The spans of each construct, and those that are kept; also messages with spans, letters and masked letters."""
    found, kept = Counter(), Counter()
    for source, target in pairs:
        places = scan(source)
        names = {(start, end): name for name, start, end in places.constructs}
        lost = False
        for start, end in places.kept:
            name = next((names[place] for place in names if place[0] <= start and end <= place[1]), "token")
            is_kept = target.count(source[start:end]) >= source.count(source[start:end])
            found[name] += 1
            kept[name] += is_kept
            lost = lost or not is_kept
        found["messages with spans"] += bool(places.kept)
        kept["messages with spans"] += bool(places.kept) and not lost
        found["letters, and of these masked"] += sum(map(str.isalpha, source))
        kept["letters, and of these masked"] += sum(sum(map(str.isalpha, source[a:b])) for a, b in places.kept)
    return found, kept


if __name__ == "__main__":
    print_without_traceback()
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    found, kept = count_spans(read_pairs(*map(Path, sys.argv[1:])))
    print("| construct | found | kept % |\n|---|---|---|")
    for name, number in found.most_common():
        print(f"| {name} | {number:,} | {100 * kept[name] / number:.1f} |")
