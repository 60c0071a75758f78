"""Trees without syntax have as many words as the parses that they replace."""

from pathlib import Path

import pytest

from recipes.trees.controls import main
from rnnsearch_fairseq.text.trees import parse_transitions
from tests.recipes.reproduce.builders import printed_by

PARSES = ["S S R S R", "-", "S", "S S S S R R R S R"] * 9


@pytest.mark.parametrize("kind", ["right", "random"])
def test_each_tree_has_the_words_of_its_parse(tmp_path: Path, kind: str) -> None:
    (tmp_path / "parses").write_text("".join(f"{line}\n" for line in PARSES))
    printed_by(main, tmp_path / "parses", "--kind", kind, "--output", tmp_path / "out")
    trees = [*map(parse_transitions, (tmp_path / "out").read_text().splitlines())]
    assert [tree and tree.leaves for tree in trees] == [3, None, 1, 5] * 9
    spans = {tuple(tree.spans()) for tree in trees if tree and tree.leaves == 5}
    assert ((0, 5), (1, 5), (2, 5), (3, 5)) in spans if kind == "right" else len(spans) > 3
    assert len(spans) == 1 or kind == "random"
