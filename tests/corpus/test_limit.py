"""Training pairs that are too long or have no parse are left out, on all sides alike; and pairs are shuffled."""

import itertools
import random
import sys
import tempfile
from pathlib import Path

import pytest

from rnnsearch_fairseq.corpus import limit as module
from rnnsearch_fairseq.corpus.limit import limit, main, shuffle
from rnnsearch_fairseq.errors import InputError

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
        (["--max-words", "3"], [0, 4, 5]),
        (["--max-words", "4"], [0, 1, 2, 4, 5]),
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


def test_the_command_shuffles_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for language in ("en", "ja"):
        (tmp_path / f"all.{language}").write_text("".join(f"{language}{number}\n" for number in range(99)) + "\n")
    command = ["limit", str(tmp_path / "all"), str(tmp_path / "out"), "-s", "en", "-t", "ja", "--max-words", "3"]
    monkeypatch.setattr(sys, "argv", [*command, "--shuffle", "3"])
    main()
    pairs = [(english[2:], japanese[2:]) for english, japanese in read(tmp_path, "out", "en", "ja")]
    assert all(english == japanese for english, japanese in pairs)
    assert sorted(int(english) for english, _ in pairs) == [*range(99)] != [int(english) for english, _ in pairs]


@pytest.mark.parametrize(("bucket", "files"), [(1 << 20, 1), (10, 3)])
def test_every_order_is_equally_likely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bucket: int, files: int
) -> None:
    """Of 3 pairs, in one bucket and over several; 180 shuffles, 6 orders of 30 each on average."""
    monkeypatch.setattr(module, "BUCKET", bucket)
    monkeypatch.setattr(module, "MOST_BUCKETS", 3)
    opened = []
    monkeypatch.setattr(
        tempfile, "TemporaryFile", lambda dir, make=tempfile.TemporaryFile: opened.append(0) or make(dir=dir)
    )
    texts = [tmp_path / "en", tmp_path / "fr"]
    counts = dict.fromkeys(itertools.permutations("abc"), 0)
    for seed in random.Random(4).sample(range(10**9), 180):
        for text in texts:
            text.write_text("".join(f"{text.name} {letter}\n" for letter in "abc"))
        shuffle(texts, seed)
        english, french = (tuple(line.split()[1] for line in text.read_text().splitlines()) for text in texts)
        assert english == french
        counts[english] += 1
    assert len(opened) == 180 * files
    # Chi-squared with 5 degrees of freedom is over 25.7 once in 10,000 times.
    assert sum((count - 30) ** 2 / 30 for count in counts.values()) < 25.7
