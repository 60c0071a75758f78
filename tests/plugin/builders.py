"""Tiny models of the second paper and their batches, and the original program's."""

import json
from types import SimpleNamespace
from typing import Any

import torch
from omegaconf import OmegaConf

from rnnsearch_fairseq.modules.forest import build_forest
from rnnsearch_fairseq.modules.tree_lstm import Forest
from rnnsearch_fairseq.plugin.models import Tree2SeqModel
from rnnsearch_fairseq.text.trees import parse_transitions
from tests.builders import EOS, PAD, make_dictionary, make_sample, randomize
from tests.reference.recorded import TREE2SEQ
from tests.reference.tree2seq_original import load_original, read_side

EXACT = {"rtol": 0, "atol": 1e-10}
Tree = Any  # an int, or a list of one or two trees; None of no parse


def transitions_of(tree: Tree) -> str:
    if tree is None:
        return "-"
    if isinstance(tree, int):
        return "S"
    if len(tree) == 1:
        return transitions_of(tree[0])
    return f"{transitions_of(tree[0])} {transitions_of(tree[1])} R"


def make_forest(trees: list[Tree], first_columns: list[int], src_len: int) -> Forest:
    return build_forest([parse_transitions(transitions_of(tree)) for tree in trees], first_columns, src_len)


def make_batch(
    sources: list[list[int]], targets: list[list[int]], trees: list[Tree], left: bool = False
) -> dict[str, Any]:
    sample = make_sample(sources, targets, left)
    width = max(map(len, sources))
    first_columns = [width - len(source) if left else 0 for source in sources]
    sample["net_input"]["trees"] = tuple(make_forest(trees, first_columns, width))
    return sample


class Original:
    """A recorded model, what is said of it, and its sentences in fairseq's ids."""

    def __init__(self, kind: str) -> None:
        self.model = load_original(TREE2SEQ / f"{kind}.npz", TREE2SEQ / "softmax.json")
        self.described = json.loads((TREE2SEQ / "softmax.json").read_text(encoding="utf-8"))
        self.source, self.target = (read_side(self.described, side)[1] for side in ("src", "tgt"))

    def batch(self, records: list[dict[str, Any]], left: bool = False) -> dict[str, Any]:
        sources = [[self.source[number] for number in record["src"]] for record in records]
        targets = [[self.target[number] for number in record["tgt"]] for record in records]
        return make_batch(sources, targets, [record["tree"] for record in records], left)

    def check_gradients(self, kind: str) -> None:
        """Compare the model's gradients with those recorded; the original has no <s> and no padding."""
        gradients = load_original(TREE2SEQ / f"{kind}_grad.npz", TREE2SEQ / "softmax.json").state_dict()
        gradients["decoder.network.to_vocabulary.bias"][[0, PAD]] = 0
        for name, parameter in self.model.named_parameters():
            torch.testing.assert_close(parameter.grad, gradients[name], **EXACT, msg=name)


SOURCES = [[5, 9, 7, 4, EOS], [8, EOS], [6, 6, 10, EOS], [11, 5, EOS], [4, 7, EOS]]
TARGETS = [[7, 8, EOS], [5, 4, 6, 9, EOS], [EOS], [6, 5, EOS], [10, EOS]]
TREES: list[Tree] = [[[0, 1], [2, 3]], [0], [0, [1, 2]], None, [0]]  # the last tree leaves a word out


def make_model(**settings: Any) -> Tree2SeqModel:
    """A tiny float64 model in evaluation mode, far from its initial values."""
    task = SimpleNamespace(source_dictionary=make_dictionary(12), target_dictionary=make_dictionary(9), has_trees=True)
    model = Tree2SeqModel.build_model(OmegaConf.create({"embedding_size": 5, "hidden_size": 6, **settings}), task)
    randomize(model)
    return model.double().eval()
