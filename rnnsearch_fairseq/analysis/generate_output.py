"""Read what ``fairseq-generate`` prints."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rnnsearch_fairseq.errors import InputError

BPE_MARK = "@@"  # subword-nmt's, at the end of a piece that the next one continues
WORD_MARK = "▁"  # sentencepiece's, at the start of a piece that starts a word
NUMBER = re.compile("[0-9]{1,9}")
END_OF_SENTENCE = "</s>"
CUT = "as fairseq-generate prints it, perhaps cut short; translate anew"


@dataclass
class Translation:
    """One sentence of the output, its best hypothesis only.

    ``alignment`` holds the weights alpha_ij of ``--print-alignment soft``, ``(target words + 1, source words + 1)``:
    its last row and column are end-of-sentence's. None if they were not printed. ``detokenised`` is the hypothesis
    without --bpe and --tokenizer.
    """

    number: int
    source: list[str]
    hypothesis: list[str]
    reference: list[str] | None = None
    score: float = 0.0
    alignment: np.ndarray | None = None
    detokenised: str = ""


def read_translations(path: Path) -> dict[int, Translation]:
    """The translations in an output of ``fairseq-generate`` (its standard output, or a file of ``--results-path``).

    Raises:
        InputError: if the file cannot be read, holds no translation, a sentence without one, or an alignment that is
            not ``soft``.
    """
    translations: dict[int, Translation] = {}
    seen: set[tuple[str, int]] = set()
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); give the output of fairseq-generate") from error
    for line_number, line in enumerate(lines, 1):
        kind, _, rest = line.partition("-")
        if kind not in {"S", "T", "H", "D", "A"}:
            continue
        label, *columns = rest.split("\t")
        if not NUMBER.fullmatch(label) or (kind, int(label)) in seen:  # of an n-best list, the first is the best
            continue
        number = int(label)
        seen.add((kind, number))
        try:
            _add(translations.setdefault(number, Translation(number, [], [])), kind, columns)
        except (ValueError, IndexError):
            wanted = "a soft alignment; give fairseq-generate --print-alignment soft" if kind == "A" else CUT
            raise InputError(f"{path}, line {line_number}: not {wanted}") from None
    if not translations:
        raise InputError(f"{path}: holds no translations; give what fairseq-generate printed, without --quiet")
    without = [number for number in translations if ("H", number) not in seen]
    if without:
        raise InputError(f"{path}: sentence {without[0]} has no translation (no line H-{without[0]}); translate anew")
    return translations


def translations_in_order(path: Path) -> list[Translation]:
    """:func:`read_translations` of a whole test set, by the sentences' numbers.

    Raises:
        InputError: also if a sentence is missing.
    """
    translations = read_translations(path)
    missing = next(number for number in range(len(translations) + 1) if number not in translations)
    if missing < len(translations):
        raise InputError(
            f"{path}: no sentence {missing}, but later ones; translate them all, "
            "without --skip-invalid-size-inputs-valid-test and in one shard"
        )
    return [translations[number] for number in range(len(translations))]


def _add(translation: Translation, kind: str, columns: list[str]) -> None:
    """Raises ValueError or IndexError if the columns are not those of a line of this kind."""
    if kind == "S":
        translation.source = columns[0].split()
    elif kind == "T":
        translation.reference = columns[0].split()
    elif kind == "H":
        translation.score, translation.hypothesis = float(columns[0]), columns[1].split()
    elif kind == "D":
        translation.detokenised = columns[1]
    else:
        translation.alignment = parse_soft_alignment(columns[0])


def parse_soft_alignment(text: str) -> np.ndarray:
    """The matrix that ``--print-alignment soft`` writes: rows separated by spaces, their numbers by commas.

    Raises:
        ValueError: it is none.
    """
    return np.array([[float(weight) for weight in row.split(",")] for row in text.split()])


def words_of(pieces: list[str]) -> tuple[list[str], list[int]]:
    """Join pieces of BPE (``hel@@ lo``) or sentencepiece (``▁hel lo``) to words, and say which word each went into."""
    words: list[str] = []
    owner = []
    if any(piece.startswith(WORD_MARK) for piece in pieces):
        for piece in pieces:
            if piece.startswith(WORD_MARK) or not words:
                words.append("")
            words[-1] += piece.removeprefix(WORD_MARK)
            owner.append(len(words) - 1)
        return words, owner
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
