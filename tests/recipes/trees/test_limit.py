"""Training pairs that are too long or have no parse are left out, on all sides alike; the lengths of pairs."""

from pathlib import Path

import pytest

from recipes.trees import lengths, limit
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.search.length_statistics import LengthStatistics
from tests.recipes.reproduce.builders import printed_by, write

TEXT = {
    "en": ["a b c", "a b c d", "a", "", "a b", "a b c"],
    "ja": ["x y z", "x", "w x y z", "x", "x y", "x"],
    "tree": ["S S R S R", "S S R S R S R", "S", "-", "-", "S S S R R"],
}


@pytest.fixture(autouse=True)
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for ending, lines in TEXT.items():
        write(Path(f"all.{ending}"), lines)


def run(options: str, out: str = "out") -> None:
    printed_by(limit.main, "all", out, "-s", "en", "-t", "ja", *options.split())


@pytest.mark.parametrize(
    ("options", "numbers"), [("--max-words 3", [0, 4, 5]), ("--max-words 4 --trees tree", [0, 1, 2, 5])]
)
def test_pairs_within_the_limits_stay(options: str, numbers: list[int]) -> None:
    run(options)
    for ending, lines in list(TEXT.items())[: 2 + ("--trees" in options)]:
        assert Path(f"out.{ending}").read_text().splitlines() == [lines[number] for number in numbers]
    assert Path("out.tree").exists() == ("--trees" in options)


def test_what_cannot_be_done_is_refused() -> None:
    with pytest.raises(InputError, match=r"all\.en"):
        run("--max-words 3", out="all")
    for parses, message in ((6, "--max-words 3"), (5, r"all\.tree")):
        write(Path("all.tree"), ["-"] * parses)
        with pytest.raises(InputError, match=message):
            run("--max-words 3 --trees tree")
    assert not list(Path().glob("out.*"))


def test_lengths_are_counted_and_can_be_read_back() -> None:
    words = [write(Path("en"), ["a b c", "a b c", "", "a"]), write(Path("ja"), ["x y", "x", "x", "z z z"])]
    printed_by(lengths.main, *words, "--output", "lengths")
    assert LengthStatistics.read(Path("lengths")).counts == {(3, 2): 1, (3, 1): 1, (0, 1): 1, (1, 3): 1}
    with pytest.raises(InputError, match="ja"):
        printed_by(lengths.main, words[0], write(Path("ja"), ["x"]), "--output", "other")
    assert not Path("other").exists()
