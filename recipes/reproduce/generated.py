"""Read the output of ``fairseq-generate``."""

import re
from pathlib import Path

import torch

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.lines import read_lines
from rnnsearch_fairseq.text.scores import AlignedPair

NUMBER = re.compile("[0-9]{1,9}")
END_OF_SENTENCE = "</s>"
CUT = "as fairseq-generate prints it, perhaps cut short; translate again"


def read_generated(path: Path) -> list[AlignedPair]:
    """Read a test set's sentences and their best translations, in the order of the sentences' numbers.

    ``alignment`` comes from ``--print-alignment soft``; its shape is not checked.

    Raises:
        InputError: the file cannot be read or holds no translation, a sentence or its translation is missing, or an
            alignment is not ``soft``.
    """
    pairs: dict[int, AlignedPair] = {}
    seen: set[tuple[str, int]] = set()
    for line_number, line in enumerate(read_lines(path, stray_returns=True), 1):
        kind, _, rest = line.removesuffix("\n").partition("-")
        label, *columns = rest.split("\t")
        # The first of an n-best list is the best.
        if kind not in {"S", "H", "A"} or not NUMBER.fullmatch(label) or (kind, int(label)) in seen:
            continue
        number = int(label)
        seen.add((kind, number))
        pair = pairs.setdefault(number, AlignedPair([END_OF_SENTENCE], [END_OF_SENTENCE], number=number))
        try:
            _add(pair, kind, columns)
        except (ValueError, IndexError):
            wanted = "a soft alignment; give fairseq-generate --print-alignment soft" if kind == "A" else CUT
            raise InputError(f"{path}, line {line_number}: not {wanted}") from None
    if not pairs:
        raise InputError(f"{path}: holds no translations; give what fairseq-generate printed, without --quiet")
    for number in range(max(pairs) + 1):
        if ("H", number) not in seen:
            raise InputError(
                f"{path}: sentence {number} has no translation (no line H-{number}); translate all of them, without "
                "--skip-invalid-size-inputs-valid-test and in one shard"
            )
    return [pairs[number] for number in sorted(pairs)]


def _add(pair: AlignedPair, kind: str, columns: list[str]) -> None:
    """Add a line of this kind to ``pair``; raises ValueError or IndexError if its columns are wrong."""
    if kind == "S":
        pair.source = [*columns[0].split(), END_OF_SENTENCE]
    elif kind == "H":
        pair.target = [*columns[1].split(), END_OF_SENTENCE]
    else:
        rows = [[float(weight) for weight in row.split(",")] for row in columns[0].split()]
        pair.weights = torch.tensor(rows, dtype=torch.float64)
