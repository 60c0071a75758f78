"""Write the sentence pairs of the French translations of Python's and Django's documentation.

``python -m recipes.docs_en_fr.pairs DIR OUT``

DIR has the folders ``python-fr`` and ``django-fr`` of PO files. OUT gets ``{train,valid,test}.{en,fr}``. The files in
``held_out.txt`` are held out as a whole, and the training text has no sentence of theirs.
"""

import random
import sys
from collections import Counter
from pathlib import Path

from rnnsearch_fairseq.corpus.pairs import read_units
from rnnsearch_fairseq.corpus.split import clean_pair
from rnnsearch_fairseq.errors import InputError, print_without_traceback
from rnnsearch_fairseq.output import open_output

PROJECTS = ("python-fr", "django-fr")
HELD_OUT = Path(__file__).with_name("held_out.txt")  # lines "valid FILE" and "test FILE"
NAME = 2  # words


def write_pairs(data: Path, out: Path) -> None:
    """Write the pairs of the files below ``data``, each once; those for training in random order.

    Raises:
        InputError: a project has no PO files, a file that is held out is missing, or a file is bad.
    """
    files = [path for project in PROJECTS for path in sorted((data / project).rglob("*.po"))]
    parts = {data / name: part for part, name in map(str.split, HELD_OUT.read_text().splitlines())}
    for path in parts.keys() - set(files):
        raise InputError(f"{path}: no such file; give the folder of {' and '.join(PROJECTS)}")
    pairs: dict[str, dict[tuple[str, str], None]] = {"valid": {}, "test": {}, "train": {}}
    left_out: Counter[str] = Counter()
    for path in files:
        cleaned = (clean_pair(pair, left_out, ("markup", "equal")) for pair in read_units(path, left_out))
        translated = [pair for pair in cleaned if pair is not None]
        part = parts.get(path, "train")
        # Equal sides are names, which a model should learn to copy, or sentences that nobody has translated.
        most_equal = NAME if part == "train" else 0
        pairs[part] |= {pair: None for pair in translated if pair[0] != pair[1] or len(pair[0].split()) <= most_equal}
    known: set[str] = set()
    out.mkdir(parents=True, exist_ok=True)
    for part, of_part in pairs.items():
        chosen = [pair for pair in of_part if known.isdisjoint(pair)]
        known.update(*chosen)
        if part == "train":
            random.Random(1).shuffle(chosen)
        for language, side in zip(("en", "fr"), zip(*chosen)):
            with open_output(out / f"{part}.{language}") as output:
                output.writelines(f"{sentence}\n".encode() for sentence in side)
        print(f"{part}: {len(chosen):,} pairs")


if __name__ == "__main__":
    print_without_traceback()
    write_pairs(*map(Path, sys.argv[1:]))
