"""Draw what a tree-to-sequence model attends to, words and phrases, as in Figures 4 and 5 of Eriguchi et al. (2016).

SCORES is what ``rnnsearch score --trees FILE`` or ``rnnsearch translate --trees FILE --alignments SCORES`` wrote. Each
row is a target word, each column a source word or, right of the line, a phrase; black is the weight 0, white 1. Above
the words stands their tree, whose phrases have the numbers of their columns.

  python -m recipes.trees.constituents trees.scores constituents.png
"""

from pathlib import Path

import torch
from matplotlib.axes import Axes

from rnnsearch_fairseq.command_line import program
from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.inference.aligned_pairs import AlignedPair, read_scores
from rnnsearch_fairseq.modules.forest import Tree
from rnnsearch_fairseq.plots import choose_pair, draw_matrix, parse_arguments, write_picture

DRAWN_WORDS = 12  # at most, in the sentence that is drawn by default
MAX_LABEL = 30
LEVEL = 0.75  # height of a phrase above the phrases in it, in words
MARGIN = 0.15
LINE_COLOR = "tab:blue"


def plot_attention(pair: AlignedPair, picture: Path) -> None:
    """Draw a sentence, as the module's description says, to ``picture``."""
    spans = (" ".join(pair.source[start:end]) for start, end in pair.phrases)
    phrases = [f"{number}  {quote(words, MAX_LABEL)}" for number, words in enumerate(spans, 1)]
    words, target = ([quote(word, MAX_LABEL) for word in words] for words in (pair.source, pair.target))
    weights = torch.cat([pair.weights, pair.phrase_weights], dim=1).numpy()
    figure, axes = draw_matrix([*words, *phrases], target, weights)
    if pair.phrases:
        axes.axvline(len(words) - 0.5, color=LINE_COLOR, linewidth=2)
        figure.draw_without_rendering()  # labels have a size only when they are drawn
        tops = [label.get_window_extent().y1 for label in axes.get_xticklabels()[: len(words)]]
        base = axes.transData.inverted().transform((0, max(tops)))[1] - MARGIN
        # Phrases are in pre-order: a left child that is one comes next, and starts where its parent does.
        neighbours = zip(pair.phrases, [*pair.phrases[1:], (-1, -1)])
        splits = (end if begin == start else start + 1 for (start, _), (begin, end) in neighbours)
        _draw_tree(axes, Tree(tuple(splits)), base)
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


@program
def main() -> None:
    args = parse_arguments(__doc__, "scores", DRAWN_WORDS)
    pairs = (pair for pair in read_scores(args.scores) if pair.phrases != [] or args.sentence is not None)
    pair = choose_pair(pairs, args.scores, args.sentence, DRAWN_WORDS)
    if pair.phrases is None:
        where = f"{args.scores}, line {pair.number + 1}"
        raise InputError(f"{where}: the model reads no trees; give what rnnsearch score --trees FILE wrote")
    plot_attention(pair, args.picture)
    print(f"attention of line {pair.number + 1} -> {args.picture}")
