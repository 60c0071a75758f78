"""The synchronous grammar: what its rules write, and what holds for every pair of the corpus."""

import hashlib
from collections import Counter
from pathlib import Path

import pytest

from recipes import grammar
from recipes.grammar.__main__ import main
from rnnsearch_fairseq.text.trees import read_penn
from tests.commands import printed_by


def test_same_seed_same_pairs_on_every_python() -> None:
    """The stored results are of this grammar, so it does not change."""
    corpus = list(grammar.generate(3000, seed=7))
    texts = [repr((p.source, p.target, p.alignment)) for p in corpus], [p.parse for p in corpus]
    assert [hashlib.sha256("\n".join(lines).encode()).hexdigest() for lines in texts] == [
        "1ed9a03de27d9967bdb64b2a106477d3e7d449f5251da3d338b3095753450f8c",
        "e4242017c9cfee83d81eda8033c476470bc8b22e2d2312c3e22d7baeaf3055f5",
    ]
    assert max(len(pair.source) for pair in grammar.generate(300, seed=7, longest=8)) in (7, 8)


SIZES = {"train": 61, "valid": 6, "test": 12}


@pytest.mark.parametrize("options", [[], ["--even"]])
def test_the_command_writes_parts_that_share_no_sentence(tmp_path: Path, options: list[object]) -> None:
    sizes = [word for part, size in SIZES.items() for word in (f"--{part}", size)]
    assert "train.{en,fr,align,penn}: 61 sentences" in printed_by(main, tmp_path, *sizes, *options)
    columns = {path.name: path.read_text(encoding="utf-8").splitlines() for path in tmp_path.iterdir()}
    assert columns.pop("preparation.json")
    assert {name.partition(".")[0]: len(lines) for name, lines in columns.items()} == SIZES and len(columns) == 12
    assert len({line for part in SIZES for line in columns[f"{part}.en"]}) == sum(SIZES.values())
    for source, target, links, tree in zip(*(columns[f"train.{ending}"] for ending in ("en", "fr", "align", "penn"))):
        assert read_penn(tree).words == source.split()
        places = [{*map(int, side)} for side in zip(*(link.split("-") for link in links.split()))]
        assert places == [{*range(len(side.split()))} for side in (source, target)]
    bins = [Counter((len(line.split()) - 1) // 10 for line in columns[f"{part}.en"]) for part in SIZES]
    even = [Counter({0: 11, **dict.fromkeys(range(1, 6), 10)}), Counter(range(6)), Counter(2 * [*range(6)])]
    assert (bins == even) == ("--even" in options)
