"""A corpus of the grammar in which all lengths are equally frequent."""

from collections import Counter
from pathlib import Path

from recipes.reproduce import even_lengths
from tests.recipes.reproduce.builders import printed_by


def test_lengths_are_spread_evenly_and_no_sentence_is_there_twice(tmp_path: Path) -> None:
    printed_by(even_lengths.main, tmp_path, "--train", 61, "--valid", 6, "--test", 12)
    parts = [(tmp_path / f"{part}.en").read_text().splitlines() for part in even_lengths.SIZES]
    bins = [Counter((len(line.split()) - 1) // 10 for line in part) for part in parts]
    assert bins == [Counter({0: 11, **dict.fromkeys(range(1, 6), 10)}), Counter(range(6)), Counter(2 * [*range(6)])]
    assert len({line for part in parts for line in part}) == 61 + 6 + 12
    for ending in ("fr", "align"):
        assert len((tmp_path / f"train.{ending}").read_text().splitlines()) == 61
