"""Sentences joined to passages: whose words they are, how long they are, and what makes too few."""

import random
import sys
from collections import Counter
from pathlib import Path

import pytest

from recipes.multi30k_en_fr.passages import count_words, main, write_passages
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.preparation import Preparation, read_preparations, write_preparations

Texts = tuple[Path, Path]


def texts(prefix: Path) -> Texts:
    return prefix.with_name(f"{prefix.name}.en"), prefix.with_name(f"{prefix.name}.fr")


def write(prefix: Path, sides: tuple[list[str], list[str]]) -> Texts:
    for path, lines in zip(texts(prefix), sides):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return texts(prefix)


def read(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def text(tmp_path: Path) -> Texts:
    """Eighty pairs of 3 to 17 source words, some split in pieces; every token names its sentence."""
    generator = random.Random(2)
    source = [
        " ".join(f"a{n}{'@@' * (i % 4 == 1)}" for i in range(generator.randint(3, 17))) + f" a{n}" for n in range(80)
    ]
    target = [" ".join([f"b{n}"] * generator.randint(1, 20)) for n in range(80)]
    folder = tmp_path / "text"
    folder.mkdir()
    return write(folder / "test", (["", *source], ["x", *target]))


def passages_of(out: Path) -> list[tuple[list[str], list[str], list[tuple[int, int]]]]:
    sizes = [
        [tuple(map(int, item.split("-"))) for item in line] for line in read(out.with_name(f"{out.name}.segments"))
    ]
    return list(zip(*map(read, texts(out)), sizes, strict=True))


def test_a_passage_is_whole_pairs_in_one_order_on_both_sides(text: Texts, tmp_path: Path) -> None:
    pairs = set(zip(*(map(tuple, read(path)) for path in text)))
    out = tmp_path / "new/test"
    assert write_passages(text, texts(out), tmp_path / "new/test.segments", 300, 4, 50, 1) == (80, 80)
    for source, target, sizes in passages_of(out):
        assert 1 <= len(sizes) <= 4
        found = []
        for source_size, target_size in sizes:
            found.append((tuple(source[:source_size]), tuple(target[:target_size])))
            source, target = source[source_size:], target[target_size:]
        assert source == target == []
        assert pairs.issuperset(found) and len(set(found)) == len(found)
    assert {len(sizes) for *_, sizes in passages_of(out)} == {1, 2, 3, 4}


def test_every_bin_of_source_lengths_has_equally_many(text: Texts, tmp_path: Path) -> None:
    out = tmp_path / "test"
    write_passages(text, texts(out), tmp_path / "test.segments", 302, 5, 70, 1)
    found = passages_of(out)
    assert len({tuple(source) for source, *_ in found}) == 302
    bins = Counter((count_words(source) - 1) // 10 for source, *_ in found)
    assert bins == dict.fromkeys(range(7), 43) | {0: 44}
    early = Counter((count_words(source) - 1) // 10 for source, *_ in found[:151])
    assert all(9 <= early[bin] <= 36 for bin in range(7)), "they are shuffled"


def test_the_command_writes_the_same_and_takes_the_record_along(
    text: Texts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_preparations(text[0].parent, {"en": Preparation("moses", bpe="#version: 0.2\n"), "fr": Preparation("moses")})
    out, words = tmp_path / "out/test", [f"{text[0].parent / 'test'}", "-s", "en", "-t", "fr"]
    command = ["passages", words[0], str(out), *words[1:], "--passages", "70"]
    monkeypatch.setattr(sys, "argv", [*command, "--seed", "3"])
    main()
    assert "70 passages with " in capsys.readouterr().out
    assert read_preparations(out.parent) == read_preparations(text[0].parent)
    assert (out.parent / "bpe.codes").read_text() == "#version: 0.2\n"
    again = tmp_path / "again"
    write_passages(text, texts(again), tmp_path / "again.segments", 70, 5, 70, 3)
    for ending in ("en", "fr", "segments"):
        assert (tmp_path / f"again.{ending}").read_bytes() == out.with_name(f"test.{ending}").read_bytes()
    for wrong, message in ((["--max-words", "0"], "--max-words is 0"), (["--sentences", "-1"], "--sentences is -1")):
        monkeypatch.setattr(sys, "argv", [*command, *wrong])
        with pytest.raises(InputError, match=message):
            main()
