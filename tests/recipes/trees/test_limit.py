"""Training pairs that are too long or have no parse are left out, on all sides alike."""

import sys
from pathlib import Path

import pytest

from recipes.trees.limit import main
from rnnsearch_fairseq.errors import InputError

TEXT = {
    "en": ["a b c", "a b c d", "a", "", "a b", "a b c"],
    "ja": ["x y z", "x", "w x y z", "x", "x y", "x"],
    "tree": ["S S R S R", "S S R S R S R", "S", "-", "-", "S S S R R"],
}


@pytest.fixture(autouse=True)
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for ending, lines in TEXT.items():
        Path(f"all.{ending}").write_text("".join(f"{line}\n" for line in lines))


def run(monkeypatch: pytest.MonkeyPatch, options: str, out: str = "out") -> None:
    monkeypatch.setattr(sys, "argv", ["limit", "all", out, "-s", "en", "-t", "ja", *options.split()])
    main()


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ("--max-words 3", [0, 4, 5]),
        ("--max-words 4 --trees tree", [0, 1, 2, 5]),
    ],
)
def test_pairs_within_the_limits_stay(monkeypatch: pytest.MonkeyPatch, options: str, kept: list[int]) -> None:
    run(monkeypatch, options)
    for ending, lines in list(TEXT.items())[: 2 + ("--trees" in options)]:
        assert Path(f"out.{ending}").read_text().splitlines() == [lines[number] for number in kept]
    assert Path("out.tree").exists() == ("--trees" in options)


def test_what_cannot_be_done_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"all\.en"):
        run(monkeypatch, "--max-words 3", out="all")
    Path("all.tree").write_text("-\n" * 6)
    with pytest.raises(InputError, match=r"--max-words 3"):
        run(monkeypatch, "--max-words 3 --trees tree")
    Path("all.tree").write_text("-\n" * 5)
    with pytest.raises(InputError, match=r"all\.tree"):
        run(monkeypatch, "--max-words 3 --trees tree")
    assert not list(Path().glob("out.*"))
