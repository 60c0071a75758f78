"""Draw what a tree-to-sequence model attends to, words and phrases, as in Figures 4 and 5 of Eriguchi et al. (2016).

SCORES is what ``rnnsearch score --trees FILE`` or ``rnnsearch translate --trees FILE --alignments SCORES`` wrote. Each
row is a target word, each column a source word or, right of the line, a phrase; black is the weight 0, white 1, and a
row sums to 1. Their tree stands above the words. Phrases have the numbers of their columns: in pre-order, the root
being 1.

  rnnsearch plot constituents trees.scores constituents.png
"""

import textwrap
from collections.abc import Iterator
from pathlib import Path

import torch
from matplotlib.axes import Axes

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.plots.alignment import choose, parse_arguments
from rnnsearch_fairseq.plots.picture import draw_matrix, write_picture
from rnnsearch_fairseq.text.scores import AlignedPair, read_scores
from rnnsearch_fairseq.text.trees import Tree

MOST_WORDS = 12  # of the sentence that is drawn by default
LONGEST_LABEL = 30
LEVEL = 0.75  # height of a phrase above the phrases in it, in words
MARGIN = 0.15
LINE_COLOR = "tab:blue"
CURE = "give what rnnsearch score --trees FILE wrote"


def read_attention(path: Path) -> Iterator[AlignedPair]:
    """The sentences of a file of scores; raises InputError for one that is not of a model that reads trees."""
    for pair in read_scores(path):
        if pair.phrases is None:
            raise InputError(f"{pair.where}: not a score of a model that reads trees; {CURE}")
        if pair.phrases:
            try:
                fits = tree_of(pair.phrases).leaves < len(pair.source)
            except (ValueError, IndexError):
                fits = False
            if not fits:
                raise InputError(f"{pair.where}: the phrases are not those of a tree of its words; {CURE}")
        yield pair


def tree_of(phrases: list[tuple[int, int]]) -> Tree:
    """The tree that has these `Tree.spans`; a ValueError or an IndexError if there is none."""
    # A left child that is a phrase comes next, and starts where its parent does.
    following = [*phrases[1:], (-1, -1)]
    splits = [end if begin == start else start + 1 for (start, _), (begin, end) in zip(phrases, following)]
    tree = Tree(tuple(splits))
    if tree.spans() != phrases:
        raise ValueError("not the phrases of a tree")
    return tree


def plot_attention(pair: AlignedPair, picture: Path) -> None:
    """Draw a sentence, as the module's description says, to ``picture``."""
    phrases = [f"{k}  {_shortened(pair.source[start:end])}" for k, (start, end) in enumerate(pair.phrases, 1)]
    words, target = ([_shortened([word]) for word in words] for words in (pair.source, pair.target))
    weights = torch.cat([pair.weights, pair.phrase_weights], dim=1).numpy()
    figure, axes = draw_matrix([*words, *phrases], target, weights)
    if pair.phrases:
        axes.axvline(len(words) - 0.5, color=LINE_COLOR, linewidth=2)
        figure.draw_without_rendering()  # labels have a size only when they are drawn
        tops = [label.get_window_extent().y1 for label in axes.get_xticklabels()[: len(words)]]
        base = axes.transData.inverted().transform((0, max(tops)))[1] - MARGIN
        _draw_tree(axes, tree_of(pair.phrases), base)
    write_picture(figure, picture)


def _draw_tree(axes: Axes, tree: Tree, base: float) -> None:
    """Draw brackets from ``base`` up, over the words, which stand at 0, 1, ...; up is the direction of lower y."""
    x = [float(word) for word in range(tree.leaves)] + [0.0] * len(tree.splits)
    y = [base] * len(x)
    for phrase, (left, right) in reversed(list(enumerate(tree.children(), tree.leaves))):
        x[phrase] = (x[left] + x[right]) / 2
        y[phrase] = min(y[left], y[right]) - LEVEL
        corners = [x[left], x[left], x[right], x[right]], [y[left], y[phrase], y[phrase], y[right]]
        axes.plot(*corners, color="black", linewidth=1, clip_on=False, scalex=False, scaley=False)
    for number, (across, up) in enumerate(zip(x[tree.leaves :], y[tree.leaves :]), 1):
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        axes.text(across, up, str(number), fontsize=8, ha="center", va="center", color=LINE_COLOR, bbox=box)


def _shortened(words: list[str]) -> str:
    """Words in a row or, if that is long, as many of the first as fit before the last, long ones cut."""
    whole = " ".join(words)
    if len(whole) <= LONGEST_LABEL:
        return whole
    if len(words) == 1:
        return whole[: LONGEST_LABEL - 1] + "…"
    longest = LONGEST_LABEL // 2 - 2  # for two words and " … "
    *first, last = (word if len(word) <= longest else word[: longest - 1] + "…" for word in words)
    room = LONGEST_LABEL - len(last) - 1
    return f"{textwrap.shorten(' '.join(first), room, placeholder=' …', break_on_hyphens=False)} {last}"


def main() -> None:
    """The command line of this module."""
    args = parse_arguments(__doc__, "scores", MOST_WORDS)
    pairs = (pair for pair in read_attention(args.scores) if pair.phrases or args.sentence is not None)
    pair = choose(pairs, args.scores, args.sentence, MOST_WORDS)
    plot_attention(pair, args.picture)
    print(f"attention of sentence {pair.number} -> {args.picture}")
