"""Read the output of ``fairseq-generate``."""

import re
from dataclasses import dataclass
from pathlib import Path

import torch

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.lines import read_lines
from rnnsearch_fairseq.text.scores import AlignedPair

NUMBER = re.compile("[0-9]{1,9}")
END_OF_SENTENCE = "</s>"
CUT = "as fairseq-generate prints it, perhaps cut short; translate again"


@dataclass(eq=False)
class GeneratedPair(AlignedPair):
    """A source sentence and its best translation.

    ``alignment`` comes from ``--print-alignment soft``; its shape is not checked. ``reference`` has no end-of-sentence,
    and is None if none was printed. ``detokenised`` is the translation as text, after --bpe and --tokenizer are undone.
    """

    reference: list[str] | None = None
    detokenised: str = ""


def read_generated(path: Path) -> dict[int, GeneratedPair]:
    """Read the pairs, by sentence number, from standard output of ``fairseq-generate`` or a file of ``--results-path``.

    Raises:
        InputError: the file cannot be read or holds no translation, a sentence has none, or an alignment is not
            ``soft``.
    """
    pairs: dict[int, GeneratedPair] = {}
    seen: set[tuple[str, int]] = set()
    for line_number, line in enumerate(read_lines(path, stray_returns=True), 1):
        kind, _, rest = line.removesuffix("\n").partition("-")
        if kind not in {"S", "T", "H", "D", "A"}:
            continue
        label, *columns = rest.split("\t")
        if not NUMBER.fullmatch(label) or (kind, int(label)) in seen:  # the first of an n-best list is the best
            continue
        number = int(label)
        seen.add((kind, number))
        pair = pairs.setdefault(number, GeneratedPair([END_OF_SENTENCE], [END_OF_SENTENCE], number=number))
        try:
            _add(pair, kind, columns)
        except (ValueError, IndexError):
            wanted = "a soft alignment; give fairseq-generate --print-alignment soft" if kind == "A" else CUT
            raise InputError(f"{path}, line {line_number}: not {wanted}") from None
    if not pairs:
        raise InputError(f"{path}: holds no translations; give what fairseq-generate printed, without --quiet")
    without = [number for number in pairs if ("H", number) not in seen]
    if without:
        raise InputError(f"{path}: sentence {without[0]} has no translation (no line H-{without[0]}); translate again")
    return pairs


def generated_in_order(path: Path) -> list[GeneratedPair]:
    """Read a whole test set, in the order of the sentences' numbers.

    Raises:
        InputError: as :func:`read_generated`, or a sentence is missing.
    """
    pairs = read_generated(path)
    missing = next(number for number in range(len(pairs) + 1) if number not in pairs)
    if missing < len(pairs):
        raise InputError(
            f"{path}: no sentence {missing}, but later ones; translate them all, "
            "without --skip-invalid-size-inputs-valid-test and in one shard"
        )
    return [pairs[number] for number in range(len(pairs))]


def _add(pair: GeneratedPair, kind: str, columns: list[str]) -> None:
    """Add a line of this kind to ``pair``; raises ValueError or IndexError if its columns are wrong."""
    if kind == "S":
        pair.source = [*columns[0].split(), END_OF_SENTENCE]
    elif kind == "T":
        pair.reference = columns[0].split()
    elif kind == "H":
        pair.target = [*columns[1].split(), END_OF_SENTENCE]
    elif kind == "D":
        pair.detokenised = columns[1]
    else:
        rows = [[float(weight) for weight in row.split(",")] for row in columns[0].split()]
        pair.alignment = torch.tensor(rows, dtype=torch.float64)
