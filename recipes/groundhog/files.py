"""Read the files of the original GroundHog code: a model's settings, vocabularies and parameters."""

import contextlib
import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.modules.symbols import PAD
from rnnsearch_fairseq.text.lines import open_bytes

UNUSED = 0  # GroundHog's id without a word; its row of the softmax still counts in every probability
MATCH = "give the four files of one model"

SIGMOID = "lambda x: TT.nnet.sigmoid(x)"
# The settings of the paper's models.
MODEL_SETTINGS = {
    **dict.fromkeys(("encoder_stack", "decoder_stack", "dim_mult", "hid_mult"), 1),
    **dict.fromkeys(("bias_code", "decoding_inputs", "bigram", "check_first_word", "deep_out"), True),
    "rank_n_activ": "lambda x: x",
    # Below 1, GroundHog uses random masks or rescaling, also in translation.
    **dict.fromkeys(("dropout", "dropout_rec"), 1),
}
# GroundHog looks each up with the layer's prefix, enc_, back_enc_ or dec_, and without the prefix if that is not set.
LAYER_SETTINGS = {
    "rec_layer": "RecurrentLayer",
    "rec_gating": True,
    "rec_reseting": True,
    "rec_gater": SIGMOID,
    "rec_reseter": SIGMOID,
    "activ": "lambda x: TT.tanh(x)",
}

# For each parameter of the network, the GroundHog arrays that form it, with the sizes of their axes: x and y are the
# vocabularies, m the embedding, n the units, c the context, a the alignment model, l the maxout layer. All but the
# embeddings have the shape (inputs, outputs), the transpose of PyTorch's; several arrays are stacked vertically.
UNIT = {
    "from_input.weight": {"W_0_{}_input_embdr_0": "mn", "W_0_{}_update_embdr_0": "mn", "W_0_{}_reset_embdr_0": "mn"},
    "from_state.weight": {"G_{}_transition_0": "nn", "R_{}_transition_0": "nn"},
    "from_reset_state.weight": {"W_{}_transition_0": "nn"},
    "bias": {"b_0_{}_input_embdr_0": "n"},
}
CONTEXT = {"W_0_dec_dec_inputter_0": "cn", "W_0_dec_dec_updater_0": "cn", "W_0_dec_dec_reseter_0": "cn"}
SHARED = {
    "encoder.embedding.table.weight": {"W_0_enc_approx_embdr": "xm"},
    "encoder.embedding.bias": {"b_0_enc_approx_embdr": "m"},
    "decoder.embedding.table.weight": {"W_0_dec_approx_embdr": "ym"},
    "decoder.embedding.bias": {"b_0_dec_approx_embdr": "m"},
    "decoder.from_summary.weight": {"W_0_dec_initializer_0": "nn"},
    "decoder.from_summary.bias": {"b_0_dec_initializer_0": "n"},
    "decoder.unit.from_context.weight": CONTEXT,
    "decoder.readout.from_state.weight": {"W_0_dec_hid_readout_0": "nn"},
    "decoder.readout.from_state.bias": {"b_0_dec_hid_readout_0": "n"},
    "decoder.readout.from_word.weight": {"W_0_dec_prev_readout_0": "mn"},
    "decoder.readout.from_context.weight": {"W_0_dec_repr_readout": "cn"},
    "decoder.readout.factor.weight": {"W1_dec_deep_softmax": "lm"},
    "decoder.readout.to_vocabulary.weight": {"W2_dec_deep_softmax": "my"},
    "decoder.readout.to_vocabulary.bias": {"b_dec_deep_softmax": "y"},
}
ATTENTION = {
    "decoder.attention.from_state.weight": {"B_dec_transition_0": "na"},
    "decoder.attention.from_annotation.weight": {"A_dec_transition_0": "ca"},
    "decoder.attention.energy.weight": {"D_dec_transition_0": "a1"},
}


@dataclass(frozen=True)
class Symbols:
    """GroundHog's ids of one language: ``size`` ids, where ``end``, ``unknown`` and 0 are not words."""

    size: int
    end: int
    unknown: int

    @property
    def words(self) -> list[int]:
        """The ids of words."""
        return sorted({*range(self.size)} - {UNUSED, self.end, self.unknown})

    def rearrange(self, table: np.ndarray, pad: float) -> np.ndarray:
        """Bring ``table`` ``(size, ...)`` into fairseq's order, with a row of ``pad`` for <pad>."""
        return np.insert(table[[UNUSED, self.end, self.unknown, *self.words]], PAD, pad, axis=0)


@dataclass(frozen=True)
class Settings:
    """A model's settings: ``searches`` tells RNNsearch from RNNencdec, ``units`` is n, ``embedding`` m, ``pool`` k."""

    searches: bool
    units: int
    embedding: int
    pool: int
    source: Symbols
    target: Symbols

    def sizes(self) -> dict[str, int]:
        """The size of each kind of axis, except the alignment model's, which the state lacks."""
        n, context = self.units, 2 * self.units if self.searches else self.units
        vocabularies = {"x": self.source.size, "y": self.target.size}
        return {"1": 1, "n": n, "m": self.embedding, "l": n // self.pool, "c": context} | vocabularies

    def parameters(self) -> dict[str, dict[str, str]]:
        """The GroundHog arrays, with their axes, that form each parameter of the network."""
        units = {"encoder.forward_unit": "enc", "decoder.unit": "dec"}
        if self.searches:
            units["encoder.backward_unit"] = "back_enc"
        parameters = SHARED | (ATTENTION if self.searches else {})
        for unit, layer in units.items():
            for parameter, arrays in UNIT.items():
                parameters[f"{unit}.{parameter}"] = {name.format(layer): axes for name, axes in arrays.items()}
        return parameters


def read_json(path: Path) -> dict[str, Any]:
    """Read the JSON object in ``path``."""
    data = None
    with open_bytes(path) as file, contextlib.suppress(ValueError):
        data = json.load(file)
    if not isinstance(data, dict):
        raise InputError(f"{path}: not a JSON object; recipes/groundhog/README.md says how to make it of a pickle")
    return data


def read_settings(path: Path) -> Settings:
    """Read the settings from the state file ``path``; an InputError unless they are the paper's models'."""
    state = read_json(path)

    def expect(key: str, value: Any) -> None:
        if state.get(key) != value:
            raise InputError(
                f"{path}: {key} is {quote(repr(state.get(key)))}, and only {value!r} can be converted; "
                "give a model of the paper's RNNsearch or RNNencdec"
            )

    def number(key: str) -> int:
        value = state.get(key)
        if not isinstance(value, (int, float)) or value != value // 1 or value < 1:
            raise InputError(f"{path}: {key} is {quote(repr(value))}, not a whole number of at least 1; {MATCH}")
        return int(value)

    searches = bool(state.get("search"))
    for key, value in MODEL_SETTINGS.items():
        expect(key, value)
    for key in ("forward", "backward", "last_forward", "last_backward"):
        expect(key, key in (("forward", "backward") if searches else ("last_forward",)))
    for layer in ("enc", "back_enc", "dec") if searches else ("enc", "dec"):
        for key, value in LAYER_SETTINGS.items():
            with_prefix = f"{layer}_{key}"
            if searches and with_prefix == "dec_rec_layer":
                value = "RecurrentLayerWithSearch"
            expect(with_prefix if with_prefix in state else key, value)
    units, pool = number("dim"), number("maxout_part")
    expect("unary_activ", f"Maxout({pool})")
    expect("c_dim", 2 * units if searches else units)
    ids = [[number(f"{key}_{side}") for key in ("n_sym", "null_sym", "unk_sym")] for side in ("source", "target")]
    return Settings(searches, units, number("rank_n_approx"), pool, *(Symbols(*numbers) for numbers in ids))


def read_words(path: Path, symbols: Symbols) -> list[str]:
    """Read the words of the vocabulary file ``path``, in the order of their ids; an InputError unless they fit."""
    words = {number: word for word, number in read_json(path).items() if number not in (UNUSED, symbols.unknown)}
    if sorted(words) != symbols.words:
        raise InputError(f"{path}: its ids are not those of the model's {len(symbols.words):,} words; {MATCH}")
    for word in words.values():
        # Unlike GroundHog, Python and fairseq also split at no-break spaces and Unicode's line separators.
        if word.split() != [word] or re.search("[\ud800-\udfff]", word):
            raise InputError(f"{path}: the word {word!r} is empty, holds a space or is not UTF-8; replace it")
    return [words[number] for number in symbols.words]


def read_arrays(path: Path, settings: Settings) -> dict[str, np.ndarray]:
    """Read GroundHog's parameters, in float32; an InputError unless they are finite, and those of ``settings``."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name].astype(np.float32) for name in archive.files}
    except (OSError, ValueError, AttributeError, zipfile.BadZipFile) as error:  # AttributeError: a lone .npy
        raise InputError(f"{path}: not an .npz of parameters ({quote(error)}); give the file as saved") from error
    expected = {name: axes for origins in settings.parameters().values() for name, axes in origins.items()}
    if differing := sorted(expected.keys() ^ arrays.keys()):
        raise InputError(f"{path}: the array {quote(differing[0])} is missing or of another model; {MATCH}")
    sizes = settings.sizes()
    if settings.searches:
        sizes["a"] = arrays["B_dec_transition_0"].shape[-1]
    for name, axes in expected.items():
        shape = tuple(sizes[axis] for axis in axes)
        if arrays[name].shape != shape:
            raise InputError(f"{path}: {name} is {arrays[name].shape}, but by the state it should be {shape}; {MATCH}")
        if not np.isfinite(arrays[name]).all():
            raise InputError(f"{path}: {name} holds NaN or infinity, as its training failed; give an earlier file")
    return arrays
