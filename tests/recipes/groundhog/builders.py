"""Models of GroundHog with random parameters."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recipes.groundhog.__main__ import convert
from tests.reference import groundhog
from tests.reference.recorded import RECORDED

VOCABULARIES = ("vocab.en.json", "vocab.fr.json")
TANH, SIGMOID = "lambda x: TT.tanh(x)", "lambda x: TT.nnet.sigmoid(x)"
LAYER = {"layer": "RecurrentLayer", "gating": True, "reseting": True, "gater": SIGMOID, "reseter": SIGMOID}
STATE = {
    **{f"{prefix}rec_{name}": value for prefix in ("", "enc_", "dec_") for name, value in LAYER.items()},
    **dict.fromkeys(("encoder_stack", "decoder_stack"), 1),
    **dict.fromkeys(("dim_mult", "hid_mult", "dropout", "dropout_rec"), 1.0),
    **dict.fromkeys(("bias_code", "decoding_inputs", "bigram", "check_first_word", "deep_out"), True),
    **{"activ": TANH, "rank_n_activ": "lambda x: x", "unary_activ": "Maxout(2)", "maxout_part": 2.0},
    **{"seqlen": 50, "bs": 80, "oov": "UNK", "source": ["a.h5"], "prefix": "search_"},
}

SEARCH = {"search": True, "forward": True, "backward": True, "last_forward": False, "last_backward": False}
ENCDEC = {"search": False, "forward": False, "backward": False, "last_forward": True, "last_backward": False}
ENCDEC["back_enc_rec_layer"] = "LSTMLayer"  # of the layer that is not used
UNITS, WIDTH, SOURCE, TARGET = 6, 5, 13, 11
# The numbers of end-of-sentence and of the unknown word of each side.
SYMBOLS = {"null_sym_source": 3, "unk_sym_source": 12, "null_sym_target": 10, "unk_sym_target": 4}


def convert_recorded(kind: str, folder: Path) -> Path:
    """Convert the original's own "search" or "encdec", and return the folder."""
    model, state, *words = (RECORDED / name for name in (f"{kind}_model.npz", f"{kind}_state.json", *VOCABULARIES))
    convert(model, state, words, ("en", "fr"), folder)
    return folder


@dataclass
class Original:
    """A GroundHog model before it is saved: its arrays, its state and its two vocabularies."""

    arrays: dict[str, np.ndarray]
    state: dict[str, Any]
    source: dict[str, int]
    target: dict[str, int]

    def save(self, folder: Path) -> list[Path]:
        """Write the four files, all but the model as JSON, and return their paths."""
        folder.mkdir(exist_ok=True)
        paths = [folder / name for name in ("model.npz", "state.json", *VOCABULARIES)]
        np.savez(paths[0], **self.arrays)
        for path, content in zip(paths[1:], (self.state, self.source, self.target)):
            path.write_text(json.dumps(content), encoding="utf-8")
        return paths

    def convert(self, folder: Path) -> Path:
        """Save and convert, and return the folder that results."""
        model, state, source, target = self.save(folder)
        convert(model, state, (source, target), ("en", "fr"), folder / "out")
        return folder / "out"


def make_original(encdec: bool = False) -> Original:
    """A tiny model with random parameters, as the original names and numbers them."""
    drawn = groundhog.random_arrays(n=UNITS, m=WIDTH, n_source=SOURCE, n_target=TARGET, encdec=encdec)
    state = {**STATE, **(ENCDEC if encdec else {**SEARCH, "dec_rec_layer": "RecurrentLayerWithSearch"})}
    state |= {"dim": UNITS, "rank_n_approx": WIDTH, "c_dim": UNITS if encdec else 2 * UNITS}
    state |= {"n_sym_source": SOURCE, "n_sym_target": TARGET, **SYMBOLS}
    vocabularies = []
    for side, letter, size in (("source", "s", SOURCE), ("target", "été", TARGET)):
        unknown = SYMBOLS[f"unk_sym_{side}"]
        numbers = [n for n in reversed(range(1, size)) if n not in (unknown, SYMBOLS[f"null_sym_{side}"])]
        vocabularies.append({"</s>": 0, "UNK": unknown, "<s>": 0} | {f"{letter}{number}": number for number in numbers})
    return Original({name: array.astype(np.float32) for name, array in drawn.items()}, state, *vocabularies)
