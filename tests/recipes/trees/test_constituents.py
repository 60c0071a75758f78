"""The picture of the attention to words and phrases."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from recipes.trees.constituents import main, plot_attention
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.aligned_pairs import AlignedPair
from rnnsearch_fairseq.modules.forest import Tree
from tests.commands import printed_by

# ((the window) (is (open now))), without the full stop
TREE = Tree((2, 1, 3, 4))
SOURCE = ["the", "window", "is", "open", "now", ".", "</s>"]
TARGET = ["la", "fenêtre", "est", "</s>"]


def attended(source: list[str], target: list[str], tree: Tree | None) -> AlignedPair:
    """A pair with weights of words and of phrases that are drawn by chance."""
    spans = [] if tree is None else tree.spans()
    weights = np.random.default_rng(0).dirichlet(np.ones(len(source) + len(spans)), size=len(target))
    to_words, to_phrases = torch.from_numpy(weights).split([len(source), len(spans)], dim=1)
    known = [[False] * len(words) for words in (source, target)]
    scores = {"logprobs": torch.zeros(len(target)), "blocks": [to_words], "phrase_weights": to_phrases}
    return AlignedPair(source, target, *known, **scores, phrases=spans)


EXAMPLE = attended(SOURCE, TARGET, TREE)


def test_a_parsed_sentence_is_drawn(tmp_path: Path) -> None:
    scores, picture = tmp_path / "scores.jsonl", tmp_path / "figure.svg"
    pairs = [attended(SOURCE, TARGET, None), replace(EXAMPLE, number=1)]
    scores.write_text("".join(f"{pair.to_json()}\n" for pair in pairs), encoding="utf-8")
    assert printed_by(main, scores, picture) == f"attention of line 2 -> {picture}\n"
    assert "<!-- 4  open now -->" in picture.read_text(encoding="utf-8")
    assert "line 1 ->" in printed_by(main, scores, picture, "--sentence", 1)
    scores.write_text(replace(EXAMPLE, phrases=None).to_json() + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"scores\.jsonl, line 1: .*--trees"):
        printed_by(main, scores, picture)


def test_words_stand_before_phrases_under_brackets_that_join_children(tmp_path: Path, figures: list[Figure]) -> None:
    plot_attention(EXAMPLE, tmp_path / "figure.png")
    axes = figures[0].axes[0]
    across = [label.get_text() for label in axes.get_xticklabels()]
    assert across == [*SOURCE, "1  the window is open now", "2  the window", "3  is open now", "4  open now"]
    assert [label.get_text() for label in axes.get_yticklabels()] == TARGET
    weights = torch.cat([EXAMPLE.weights, EXAMPLE.phrase_weights], dim=1)
    np.testing.assert_array_equal(axes.get_images()[0].get_array(), weights)
    separator, *brackets = axes.get_lines()
    assert set(separator.get_xdata()) == {len(SOURCE) - 0.5}
    sides = {(line.get_xdata()[0], line.get_xdata()[-1]) for line in brackets}
    assert sides == {(0, 1), (3, 4), (2, 3.5), (0.5, 2.75)}
    numbers = {text.get_text(): text.get_position() for text in axes.texts}
    assert {number: x for number, (x, _) in numbers.items()} == {"1": 1.625, "2": 0.5, "3": 2.75, "4": 3.5}
    # Up is the direction of lower y: each phrase stands above those in it, on its own bar, and all above the words.
    assert numbers["1"][1] < numbers["3"][1] < numbers["4"][1] == numbers["2"][1]
    assert {y for _, y in numbers.values()} == {line.get_ydata()[1] for line in brackets}
    axes.figure.draw_without_rendering()
    top = max(label.get_window_extent().y1 for label in axes.get_xticklabels()[: len(SOURCE)])
    feet = axes.transData.transform((0, max(max(line.get_ydata()) for line in brackets)))[1]
    assert top < feet < top + 20
