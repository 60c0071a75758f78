"""Loads models that the original tree2seq program trained into this package's model."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary
from omegaconf import OmegaConf

from rnnsearch_fairseq.plugin.models import Tree2SeqModel

LSTM_GATES = ("i", "f", "o", "u")
TREE_GATES = ("i", "fl", "fr", "o", "u")
NEVER = -100.0  # the bias of fairseq's symbols that the original lacks; e^-100 is negligible beside any word


def load_original(npz_path: Path, json_path: Path) -> Tree2SeqModel:
    """The float64 model of a parameter file and the JSON file with its vocabularies.

    The original's arrays are (out, in), one array for each gate; embeddings have words as columns. See its README.
    """
    description = json.loads(json_path.read_text(encoding="utf-8"))
    dictionaries, rows = zip(*(read_side(description, side) for side in ("src", "tgt")))
    with np.load(npz_path) as arrays:
        parameters = dict(arrays)
    output = "blackOut" if npz_path.stem.startswith("blackout") else "softmax"
    d, m = parameters["Wst"].shape[0], parameters["sourceEmbed"].shape[0]
    task = SimpleNamespace(source_dictionary=dictionaries[0], target_dictionary=dictionaries[1], has_trees=True)
    model = Tree2SeqModel.build_model(OmegaConf.create({"embedding_size": m, "hidden_size": d}), task).double()

    def table(name: str, side: int, missing: float = 0.0) -> np.ndarray:
        """A (dim, words) or (words,) array with words as rows in fairseq's order."""
        array = parameters[name].T if parameters[name].ndim == 2 else parameters[name]
        reordered = np.full((len(dictionaries[side]), *array.shape[1:]), missing)
        reordered[rows[side]] = array
        return reordered

    def stack(pattern: str, gates: Sequence[str]) -> np.ndarray:
        return np.concatenate([parameters[pattern.format(gate)] for gate in gates])

    state: dict[str, np.ndarray] = {
        "encoder.network.embedding.weight": table("sourceEmbed", 0),
        "decoder.network.embedding.weight": table("targetEmbed", 1),
        "decoder.network.to_vocabulary.weight": table(f"{output}.weight", 1),
        "decoder.network.to_vocabulary.bias": table(f"{output}.bias", 1, NEVER),
        "decoder.network.from_fed.weight": stack("dec.Wa{}", LSTM_GATES),
        "decoder.network.from_state.weight": parameters["Wst"],
        "decoder.network.from_state.bias": parameters["bs"],
        "decoder.network.from_context.weight": parameters["Wct"],
    }
    for module, name in (("encoder.network.lstm", "enc"), ("decoder.network.lstm", "dec")):
        state[f"{module}.from_input.weight"] = stack(f"{name}.Wx{{}}", LSTM_GATES)
        state[f"{module}.from_input.bias"] = stack(f"{name}.b{{}}", LSTM_GATES)
        state[f"{module}.from_state.weight"] = stack(f"{name}.Wh{{}}", LSTM_GATES)
    for module, name in (("encoder.network.tree_lstm", "encTree"), ("decoder.network.start", "initDecTree")):
        sides = [stack(f"{name}.Wh{{}}{side}", TREE_GATES) for side in ("L", "R")]
        state[f"{module}.from_children.weight"] = np.concatenate(sides, axis=1)
        state[f"{module}.from_children.bias"] = stack(f"{name}.b{{}}", TREE_GATES)
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in state.items()}
    model.load_state_dict({**tensors, "_extra_state": model.get_extra_state()})
    return model.eval()


def read_side(description: dict[str, Any], side: str) -> tuple[Dictionary, list[int]]:
    """fairseq's dictionary of a side's words, without the original's two symbols, and its id of each of theirs."""
    dictionary = Dictionary()
    symbols = {description[f"{side}_eos"]: dictionary.eos(), description[f"{side}_unk"]: dictionary.unk()}
    words = enumerate(description[f"{side}_vocab"])
    return dictionary, [symbols[n] if n in symbols else dictionary.add_symbol(word) for n, word in words]
