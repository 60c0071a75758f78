"""Training pairs that are too long or have no parse are left out, on all sides alike."""

import sys
from pathlib import Path

import pytest

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.limit import limit, main

TEXT = {
    "en": ["a b c", "a b c d", "a", "", "a b", "a b c"],
    "ja": ["x y z", "x", "w x y z", "x", "x y", "x"],
    "tree": ["S S R S R", "S S R S R S R", "S", "-", "-", "S S S R R"],
}


def write(folder: Path) -> None:
    for ending, lines in TEXT.items():
        (folder / f"all.{ending}").write_text("".join(f"{line}\n" for line in lines))


def read(folder: Path, name: str, *endings: str) -> list[tuple[str, ...]]:
    return list(zip(*((folder / f"{name}.{ending}").read_text().splitlines() for ending in endings), strict=True))


def lines(*numbers: int) -> list[tuple[str, ...]]:
    return [tuple(side[number] for side in TEXT.values()) for number in numbers]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (["--max-words", "3"], [0, 3, 4, 5]),
        (["--max-words", "4"], [0, 1, 2, 3, 4, 5]),
        (["--max-words", "3", "--trees", "tree"], [0, 5]),
        (["--max-words", "4", "--trees", "tree", "--pairs", "3"], [0, 1, 2]),
    ],
)
def test_pairs_within_the_limits_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], kept: list[int]
) -> None:
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["limit", "all", "train", "-s", "en", "-t", "ja", *options])
    main()
    endings = list(TEXT)[: 2 + ("--trees" in options)]
    assert read(tmp_path, "train", *endings) == [line[: len(endings)] for line in lines(*kept)]
    assert (tmp_path / "train.tree").exists() == ("--trees" in options)


def test_files_can_be_limited_in_place(tmp_path: Path) -> None:
    write(tmp_path)
    paths = [tmp_path / f"all.{ending}" for ending in TEXT]
    assert limit(paths, paths, 3) == 2
    assert read(tmp_path, "all", *TEXT) == lines(0, 5)


def test_what_cannot_be_done_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    paths = [tmp_path / f"all.{ending}" for ending in TEXT]
    out = [tmp_path / f"out.{ending}" for ending in TEXT]
    (tmp_path / "all.tree").write_text("-\n" * 6)
    with pytest.raises(
        InputError, match="--max-words 3: every training pair is longer or has no parse; give a greater"
    ):
        limit(paths, out, 3)
    (tmp_path / "all.tree").write_text("-\n" * 5)
    with pytest.raises(InputError, match=r"all\.tree has 5"):
        limit(paths, out, 3)
    assert not list(tmp_path.glob("out.*"))
    command = ["limit", str(tmp_path / "all"), str(tmp_path / "all"), "-s", "en", "-t", "ja"]
    for options, message in ((["--max-words", "3"], "replace"), (["--max-words", "0"], "--max-words is 0")):
        monkeypatch.setattr(sys, "argv", [*command, *options])
        with pytest.raises(InputError, match=message):
            main()
