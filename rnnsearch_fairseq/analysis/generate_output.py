"""Read what ``fairseq-generate`` prints."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rnnsearch_fairseq.errors import InputError

BPE_MARK = "@@"
END_OF_SENTENCE = "</s>"


@dataclass
class Translation:
    """One sentence of the output, its best hypothesis only.

    ``alignment`` holds the weights alpha_ij of ``--print-alignment soft``, ``(target words + 1, source words + 1)``:
    its last row and column are end-of-sentence's. None if they were not printed.
    """

    number: int
    source: list[str]
    hypothesis: list[str]
    reference: list[str] | None = None
    score: float = 0.0
    alignment: np.ndarray | None = None


def read_translations(path: Path) -> dict[int, Translation]:
    """The translations in an output of ``fairseq-generate`` (its standard output, or a file of ``--results-path``).

    Raises:
        InputError: if the file cannot be read, holds no translation, or an alignment that is not ``soft``.
    """
    translations: dict[int, Translation] = {}
    seen: set[tuple[str, int]] = set()
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); give the output of fairseq-generate") from error
    for line_number, line in enumerate(lines, 1):
        kind, _, rest = line.partition("-")
        if kind not in {"S", "T", "H", "A"}:
            continue
        label, *columns = rest.split("\t")
        if not label.isdigit() or (kind, int(label)) in seen:  # of an n-best list, the first is the best
            continue
        number = int(label)
        seen.add((kind, number))
        translation = translations.setdefault(number, Translation(number, [], []))
        if kind == "S":
            translation.source = columns[0].split()
        elif kind == "T":
            translation.reference = columns[0].split()
        elif kind == "H":
            translation.score, translation.hypothesis = float(columns[0]), columns[1].split()
        else:
            translation.alignment = parse_soft_alignment(columns[0], path, line_number)
    if not translations:
        raise InputError(f"{path}: holds no translations; give what fairseq-generate printed, without --quiet")
    return translations


def parse_soft_alignment(text: str, path: Path, line_number: int) -> np.ndarray:
    """The matrix that ``--print-alignment soft`` writes: rows separated by spaces, their numbers by commas."""
    try:
        return np.array([[float(weight) for weight in row.split(",")] for row in text.split()])
    except ValueError:
        raise InputError(
            f"{path}, line {line_number}: not a soft alignment; give fairseq-generate --print-alignment soft"
        ) from None


def words_of(pieces: list[str]) -> tuple[list[str], list[int]]:
    """Join BPE pieces (``hel@@ lo``) to words, and say for each piece which word it went into."""
    words: list[str] = []
    owner = []
    continues = False
    for piece in pieces:
        if continues:
            words[-1] += piece.removesuffix(BPE_MARK)
        else:
            words.append(piece.removesuffix(BPE_MARK))
        owner.append(len(words) - 1)
        continues = piece.endswith(BPE_MARK)
    return words, owner


def with_end(pieces: list[str]) -> tuple[list[str], list[int]]:
    """:func:`words_of`, and end-of-sentence, which is a word of its own even where ``pieces`` stop inside a word."""
    words, owner = words_of(pieces)
    return [*words, END_OF_SENTENCE], [*owner, len(words)]


def word_alignment(translation: Translation) -> tuple[list[str], list[str], np.ndarray]:
    """Source words, target words, and the weights between them, ``(target words, source words)``.

    End-of-sentence is the last of both. The weights of a source word's pieces are added (they share one unit of
    attention); those of a target word's are averaged (each has a unit of its own). So every row still sums to one.

    Raises:
        InputError: if the translation has no alignment, or one of another size.
    """
    if translation.alignment is None:
        raise InputError(
            f"sentence {translation.number} has no alignment; give fairseq-generate --print-alignment soft"
        )
    (source, source_owner), (target, target_owner) = map(with_end, (translation.source, translation.hypothesis))
    expected = (len(target_owner), len(source_owner))
    if translation.alignment.shape != expected:
        raise InputError(
            f"sentence {translation.number}: its alignment is {translation.alignment.shape}, its words say {expected}; "
            "give fairseq-generate --print-alignment soft without --tokenizer, --bpe, --remove-bpe or --post-process"
        )
    by_word = np.zeros((len(target), len(source)))
    np.add.at(by_word, (np.array(target_owner)[:, None], np.array(source_owner)[None]), translation.alignment)
    return source, target, by_word / np.bincount(target_owner)[:, None]
