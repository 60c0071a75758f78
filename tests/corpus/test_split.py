"""One corpus to training, development and test sets."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rnnsearch_fairseq.corpus.pairs import Pair
from rnnsearch_fairseq.corpus.split import clean_pair, split_files
from rnnsearch_fairseq.errors import InputError
from tests.corpus.builders import LANGUAGES, make_pairs, number_pairs, write_files, write_po

Capture = pytest.CaptureFixture[str]


def split(data: list[Path], *words: Any, **settings: Any) -> dict[str, list[Pair]]:
    return {part: [*pairs] for part, pairs in split_files(data, LANGUAGES, *words, **settings).items()}


def sizes_of(parts: dict[str, list[Pair]]) -> list[int]:
    return [len(pairs) for pairs in parts.values()]


def test_no_sentence_is_in_two_parts(tmp_path: Path) -> None:
    pairs = make_pairs(600)
    cleaned = [*dict.fromkeys(pairs)]
    assert len({source for source, _ in cleaned}) < len(cleaned) - 50 > len({target for _, target in cleaned})
    pairs += [(f"  {source.upper()}", target.replace(" ", "  ")) for source, target in pairs[::7]]
    files = write_files(tmp_path, pairs)
    parts = split(files, (40, 50))
    assert sizes_of(parts) == [len(cleaned) - 90, 40, 50]
    for side in (0, 1):
        sentences = [{pair[side].lower() for pair in part} for part in parts.values()]
        assert sum(map(len, sentences)) == len(set().union(*sentences))
    assert {pair for part in parts.values() for pair in part} == {*cleaned}
    for part in parts.values():
        remaining = iter(cleaned)
        assert all(pair in remaining for pair in part), "the order is kept"
    assert split(files, (40, 50)) == parts
    assert sizes_of(split(files))[1:] == [len(cleaned) // 20] * 2


def write_many(folder: Path, sizes: list[int]) -> list[Path]:
    """PO files with pairs of their own, and one pair whose source all of them have."""
    paths = []
    for number, size in enumerate(sizes):
        own = number_pairs(size - 1, number * 10_000)
        paths += write_po(folder, [*own, ("See also", f"voir {number}")], f"{number}.po")
    return paths


@pytest.mark.parametrize(
    ("sizes", "wanted", "whole", "counts"),
    [
        ([10] * 40, (30, 50), True, "train 320, valid 27, test 45, left out 8"),
        ([60] * 20, (50, 50), False, "train 1,100, valid 50, test 50, left out 0"),
        ([60] * 9 + [2] * 11, (50, 50), False, "train 462, valid 50, test 50, left out 0"),
    ],
)
def test_whole_files_are_drawn_of_many_small_ones(
    tmp_path: Path, capsys: Capture, sizes: list[int], wanted: tuple[int, int], whole: bool, counts: str
) -> None:
    parts = split(write_many(tmp_path, sizes), wanted)
    assert counts in capsys.readouterr().out
    files = [{int(pair[0].split()[4]) // 10_000 for pair in part if pair[0] != "See also"} for part in parts.values()]
    assert (sum(map(len, files)) == len(sizes)) == whole


def test_dropped_pairs_are_counted_and_too_few_are_refused(tmp_path: Path, capsys: Capture) -> None:
    good = [("\ufeffone  two", "un\u2028deux"), ("a " * 100, "b " * 100), ("one", "b " * 9), ("x y", "猫" * 36)]
    empty = [("", "un"), ("one", "  "), ("\ufeff", "un")]
    long = [("a " * 101, "b " * 90), ("a " * 90, "猫" * 202), ("one", "a" + "\u0301\u0316" * 1000)]
    unequal = [("one", "b " * 10), ("x y", "猫" * 37), ("b " * 19, "un deux")]
    other = [("same  text", "same text"), ("One two", "un deux"), ("one two", "un deux"), ("ｏｎｅ two", "un deux")]
    files = write_files(tmp_path, good + unequal + empty + long + other)
    cleaned = {pair for part in split(files, (1, 1)).values() for pair in part}
    assert cleaned == {("one two", "un deux"), *((source.strip(), target.strip()) for source, target in good[1:])}
    printed = capsys.readouterr().out
    assert "read 17 pairs" in printed and "dropped 13 (3 with over 9 times as many" in printed
    counts = "3 without a sentence on a side, 2 of more than 100 words on a side, 1 of more than 2,000 characters"
    assert counts in printed and "1 with equal sides, 3 that are duplicates" in printed
    for pairs, sizes, message in (
        ([(f"same {n}", "même") for n in range(50)], (3, 3), "train 50, valid 0, test 0"),
        ([("", "vide")] * 50, None, "no pair is left .50 without a sentence on a side.; give text in en and fr"),
    ):
        with pytest.raises(InputError, match=message):
            split(write_files(tmp_path, pairs), sizes)


WEB = (
    "<p>A <b class='x'>black</b> cat&#39;s &lt;b&gt; 5 < 6<br/> ?a&copy=<b or c>",
    "Un <i>chat</i> : 5 < 6 > <URL>\0 &amp;",
)
PLAIN = ("A black cat's <b> 5 < 6 ?a&copy=<b or c>", "Un chat : 5 < 6 > <URL> &")


def test_tags_and_entities_are_taken_out_but_not_in_messages(tmp_path: Path) -> None:
    assert clean_pair(WEB, Counter()) == PLAIN
    assert clean_pair(WEB, Counter(), True) == (WEB[0], WEB[1].replace("\0", ""))
    pairs = [(f"Call :func:`open` of <b>%s</b> {n}", f"Appeler :func:`open` de <b>%s</b> &amp; {n}") for n in range(3)]
    parts = split(write_po(tmp_path, pairs), (1, 1))
    assert sorted(pair for part in parts.values() for pair in part) == pairs
