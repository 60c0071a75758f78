"""One corpus to training, development and test sets."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rnnsearch_fairseq.corpus.pairs import Pair, find_files
from rnnsearch_fairseq.corpus.split import clean_pair, group_pairs, hash_sentence, split_files
from rnnsearch_fairseq.errors import InputError
from tests.corpus.builders import (
    LANGUAGES,
    make_pairs,
    number_pairs,
    write_files,
    write_folder,
    write_po,
    write_tmx,
    write_tsv,
)

Capture = pytest.CaptureFixture[str]


def split(data: list[Path], *words: Any, **settings: Any) -> dict[str, list[Pair]]:
    return {part: [*pairs] for part, pairs in split_files(data, LANGUAGES, *words, **settings).items()}


def sizes_of(parts: dict[str, list[Pair]]) -> list[int]:
    return [len(pairs) for pairs in parts.values()]


# Parts


def test_a_group_has_the_number_of_its_first_pair() -> None:
    assert group_pairs(np.array([[7, 5], [3, 4], [8, 6], [3, 5], [1, 2]])).tolist() == [0, 0, 2, 0, 4]


def test_no_sentence_is_in_two_parts(tmp_path: Path) -> None:
    pairs = make_pairs(600)
    cleaned = [*dict.fromkeys(pairs)]
    assert len({source for source, _ in cleaned}) < len(cleaned) - 50 > len({target for _, target in cleaned})
    pairs += [(f"  {source.upper()}", target.replace(" ", "  ")) for source, target in pairs[::7]]
    parts = split(write_files(tmp_path, pairs), (40, 50))
    assert sizes_of(parts) == [len(cleaned) - 90, 40, 50]
    for side in (0, 1):
        sentences = [{pair[side].lower() for pair in part} for part in parts.values()]
        assert sum(map(len, sentences)) == len(set().union(*sentences))
    assert {pair for part in parts.values() for pair in part} == {*cleaned}
    for part in parts.values():
        remaining = iter(cleaned)
        assert all(pair in remaining for pair in part), "the order is kept"


def test_the_seed_determines_the_split(tmp_path: Path) -> None:
    files = write_files(tmp_path, make_pairs(400))
    first, second, other = (split(files, None, seed) for seed in (1, 1, 2))
    assert first == second
    assert sizes_of(first)[1:] == [18, 18], "a 20th of 360 each"
    assert first["valid"] != other["valid"] and first["test"] != other["test"]


def write_many(folder: Path, files: int, pairs: int) -> list[Path]:
    """PO files with pairs of their own, and one pair whose source all of them have."""
    paths = []
    for number in range(files):
        own = number_pairs(pairs - 1, number * 10_000)
        paths += write_po(folder, [*own, ("See also", f"voir {number}")], f"{number}.po")
    return paths


def test_whole_files_are_drawn_of_many_small_ones(tmp_path: Path, capsys: Capture) -> None:
    parts = split(write_many(tmp_path, 40, 10), (30, 50))
    assert "train 320, valid 27, test 45, left out 8" in capsys.readouterr().out
    files = [{int(pair[0].split()[4]) // 10_000 for pair in part if pair[0] != "See also"} for part in parts.values()]
    assert [len(numbers) for numbers in files] == [32, 3, 5]
    assert len(set().union(*files)) == 40


@pytest.mark.parametrize(("large", "small"), [(20, 0), (20, 4), (9, 11)])
def test_pairs_are_drawn_of_files_that_are_too_large(tmp_path: Path, large: int, small: int) -> None:
    sizes = [60] * large + [2] * small
    tables = [
        write_tsv(tmp_path, number_pairs(size, number * 100), f"{number}.tsv")[0] for number, size in enumerate(sizes)
    ]
    assert sizes_of(split(tables, (50, 50))) == [sum(sizes) - 100, 50, 50]


@pytest.mark.parametrize(
    ("pairs", "sizes", "message"),
    [
        ([(f"same {n}", "même") for n in range(50)], (3, 3), "train 50, valid 0, test 0"),
        ([("", "vide")] * 50, None, "0 pairs"),
    ],
)
def test_too_few_pairs_are_refused(
    tmp_path: Path, pairs: list[Pair], sizes: tuple[int, int] | None, message: str
) -> None:
    with pytest.raises(InputError, match=f"{message}.* --split"):
        split(write_files(tmp_path, pairs), sizes)


@pytest.mark.parametrize("write", [write_tsv, write_tmx, write_po, write_folder])
def test_formats_give_the_same_split(tmp_path: Path, write: Callable[[Path, list[Pair]], list[Path]]) -> None:
    pairs = [*make_pairs(300), ('the <b>cat</b> & the "dog"', "le <b>chat</b> & le chien")]
    parts = split(write_files(tmp_path, pairs), (20, 30), keep_markup=True)
    assert split(find_files(write(tmp_path, pairs)), (20, 30), keep_markup=True) == parts


# Cleaning


def test_dropped_pairs_are_counted(tmp_path: Path, capsys: Capture) -> None:
    good = [("\ufeffone  two", "un\u2028deux"), ("a " * 100, "b " * 100), ("one", "b " * 9), ("x y", "猫" * 36)]
    empty = [("", "un"), ("one", "  "), ("\ufeff", "un")]
    long = [("a " * 101, "b " * 90), ("a " * 90, "猫" * 202), ("one", "a" + "\u0301\u0316" * 1000)]
    unequal = [("one", "b " * 10), ("x y", "猫" * 37), ("b " * 19, "un deux")]
    other = [("same  text", "same text"), ("One two", "un deux"), ("one two", "un deux")]
    files = write_files(tmp_path, good + unequal + empty + long + other)
    found = {pair for part in split(files, (1, 1)).values() for pair in part}
    assert found == {("one two", "un deux"), *((source.strip(), target.strip()) for source, target in good[1:])}
    printed = capsys.readouterr().out
    assert "read 16 pairs" in printed and "dropped 12 (3 with over 9 times as many" in printed
    counts = "3 without a sentence on a side, 2 of more than 100 words on a side, 1 of more than 2,000 characters"
    assert counts in printed and "1 with equal sides, 2 that came before" in printed


@pytest.mark.parametrize(
    ("sentence", "other", "equal"),
    [("A  Cat", "a cat", True), ("word 1 23 a", "word 12 3 a", False), ("２つ", "2つ", True)],
)
def test_equal_sentences_are_recognised(sentence: str, other: str, equal: bool) -> None:
    assert (hash_sentence(sentence) == hash_sentence(other)) == equal


WEB = ("<p>A <b class='x'>black</b> cat&#39;s &lt;b&gt; 5 < 6<br/>", "Un chat <i>noir</i> : 5 < 6 > <URL>\0 &amp; fin")
PLAIN = ("A black cat's <b> 5 < 6", "Un chat noir : 5 < 6 > <URL> & fin")


def test_tags_and_entities_are_taken_out() -> None:
    assert clean_pair(WEB, Counter()) == PLAIN
    assert clean_pair(WEB, Counter(), True) == (WEB[0], WEB[1].replace("\0", ""))


def test_markup_stays_in_messages(tmp_path: Path) -> None:
    pairs = [(f"Call :func:`open` of <b>%s</b> {n}", f"Appeler :func:`open` de <b>%s</b> &amp; {n}") for n in range(3)]
    parts = split(write_po(tmp_path, pairs), (1, 1))
    assert sorted(pair for part in parts.values() for pair in part) == pairs
