"""Read the files of the original GroundHog code: a model's settings, vocabularies and parameters."""

import reprlib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import Dictionary
from fairseq.tokenizer import tokenize_line

from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.groundhog.pickles import open_regular, read_plain_dict

MOST_NUMBER = 10**9  # the largest number in a state
MOST_UNPACKED = 20  # times its own size may an .npz unpack to; trained parameters hardly compress
UNUSED = 0  # GroundHog's id without a word; its row of the softmax still counts in every probability

TANH = "lambda x: TT.tanh(x)"
SIGMOID = "lambda x: TT.nnet.sigmoid(x)"

# The settings of the paper's models.
MODEL_SETTINGS = {
    "encoder_stack": 1,
    "decoder_stack": 1,
    "dim_mult": 1,
    "hid_mult": 1,
    "rank_n_activ": "lambda x: x",
    "bias_code": True,
    "decoding_inputs": True,
    "bigram": True,
    "check_first_word": True,
    "deep_out": True,
    # Below 1, GroundHog uses random masks or rescaling, also in translation.
    "dropout": 1,
    "dropout_rec": 1,
}
# GroundHog looks each up with the layer's prefix, enc_, back_enc_ or dec_, and without the prefix if that is not set.
# No state has one for back_enc.
LAYER_SETTINGS = {
    "rec_layer": "RecurrentLayer",
    "rec_gating": True,
    "rec_reseting": True,
    "rec_gater": SIGMOID,
    "rec_reseter": SIGMOID,
    "activ": TANH,
}

# For each parameter, the GroundHog arrays that form it, with the sizes of their axes: x and y are the vocabularies, m
# the embedding, n the units, c the context, a the alignment model, l the maxout layer. All but the embeddings have the
# shape (inputs, outputs), the transpose of PyTorch's; several arrays for one parameter are stacked vertically.
UNIT = {
    "from_input.weight": {"W_0_{}_input_embdr_0": "mn", "W_0_{}_update_embdr_0": "mn", "W_0_{}_reset_embdr_0": "mn"},
    "from_state.weight": {"G_{}_transition_0": "nn", "R_{}_transition_0": "nn"},
    "from_reset_state.weight": {"W_{}_transition_0": "nn"},
    "bias": {"b_0_{}_input_embdr_0": "n"},
}
CONTEXT = {"W_0_dec_dec_inputter_0": "cn", "W_0_dec_dec_updater_0": "cn", "W_0_dec_dec_reseter_0": "cn"}
SHARED = {
    "encoder.network.embedding.table.weight": {"W_0_enc_approx_embdr": "xm"},
    "encoder.network.embedding.bias": {"b_0_enc_approx_embdr": "m"},
    "decoder.network.embedding.table.weight": {"W_0_dec_approx_embdr": "ym"},
    "decoder.network.embedding.bias": {"b_0_dec_approx_embdr": "m"},
    "decoder.network.from_summary.weight": {"W_0_dec_initializer_0": "nn"},
    "decoder.network.from_summary.bias": {"b_0_dec_initializer_0": "n"},
    "decoder.network.unit.from_context.weight": CONTEXT,
    "decoder.network.readout.from_state.weight": {"W_0_dec_hid_readout_0": "nn"},
    "decoder.network.readout.from_state.bias": {"b_0_dec_hid_readout_0": "n"},
    "decoder.network.readout.from_word.weight": {"W_0_dec_prev_readout_0": "mn"},
    "decoder.network.readout.from_context.weight": {"W_0_dec_repr_readout": "cn"},
    "decoder.network.readout.factor.weight": {"W1_dec_deep_softmax": "lm"},
    "decoder.network.readout.to_vocabulary.weight": {"W2_dec_deep_softmax": "my"},
    "decoder.network.readout.to_vocabulary.bias": {"b_dec_deep_softmax": "y"},
}
ATTENTION = {
    "decoder.network.attention.from_state.weight": {"B_dec_transition_0": "na"},
    "decoder.network.attention.from_annotation.weight": {"A_dec_transition_0": "ca"},
    "decoder.network.attention.energy.weight": {"D_dec_transition_0": "a1"},
}


@dataclass(frozen=True)
class Symbols:
    """GroundHog's ids of one language: ``size`` ids, where ``end``, ``unknown`` and 0 are not words."""

    size: int
    end: int
    unknown: int

    def words(self) -> list[int]:
        """The ids of the words."""
        return [number for number in range(self.size) if number not in (UNUSED, self.end, self.unknown)]

    def rearrange(self, table: np.ndarray, pad: float) -> np.ndarray:
        """Bring ``table`` (size, ...) into fairseq's order, with a row of ``pad`` for <pad>."""
        kept = table[[UNUSED, self.end, self.unknown, *self.words()]]
        return np.insert(kept, Dictionary().pad(), pad, axis=0)


@dataclass(frozen=True)
class Settings:
    """A model's settings.

    Attributes:
        searches: whether it is RNNsearch, and not RNNencdec.
        units: n, the size of the hidden state.
        embedding: m, the size of the embeddings and the rank of the output matrix.
        pool: how many units a maxout unit takes the maximum of.
        source, target: the ids of both languages.
    """

    searches: bool
    units: int
    embedding: int
    pool: int
    source: Symbols
    target: Symbols

    def sizes(self) -> dict[str, int]:
        """The size of each kind of axis, except the alignment model's, which the state lacks."""
        n, k, context = self.units, self.pool, 2 * self.units if self.searches else self.units
        vocabularies = {"x": self.source.size, "y": self.target.size}
        return {"1": 1, "n": n, "m": self.embedding, "l": n // k, "c": context} | vocabularies

    def parameters(self) -> dict[str, dict[str, str]]:
        """The GroundHog arrays, with their axes, that form each parameter of the fairseq model."""
        units = {"encoder.network.forward_unit": "enc", "decoder.network.unit": "dec"}
        if self.searches:
            units["encoder.network.backward_unit"] = "back_enc"
        parameters = SHARED | (ATTENTION if self.searches else {})
        for unit, layer in units.items():
            for part, arrays in UNIT.items():
                parameters[f"{unit}.{part}"] = {name.format(layer): axes for name, axes in arrays.items()}
        return parameters


class State:
    """GroundHog's settings in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values = read_plain_dict(path)

    def get(self, key: str) -> Any:
        """The value of ``key``, which must be there."""
        if key not in self.values:
            raise InputError(f"{self.path}: {key} is missing; give the state that GroundHog saved beside the model")
        return self.values[key]

    def expect(self, key: str, *supported: Any) -> Any:
        """The value of ``key``, which must be one of ``supported``; 1, 1.0 and True are the same."""
        value = self.get(key)
        if value not in supported:
            raise InputError(
                f"{self.path}: {key} is {_shown(value)}, and only {' or '.join(map(repr, supported))} can be "
                "converted; give a model of the paper's RNNsearch or RNNencdec"
            )
        return value

    def number(self, key: str, least: int) -> int:
        """The value of ``key``, which must be a whole number, as int or float, of at least ``least``."""
        value = self.get(key)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not least <= value <= MOST_NUMBER or value % 1 != 0:
            raise InputError(
                f"{self.path}: {key} is {_shown(value)}, but it must be a whole number from {least} to "
                f"{MOST_NUMBER:,}; give the state that GroundHog saved beside the model"
            )
        return int(value)


def read_settings(path: Path) -> Settings:
    """Read the settings from the state file ``path``.

    Raises:
        InputError: a setting is missing, or the model is not the paper's RNNsearch or RNNencdec.
    """
    state = State(path)
    searches = bool(state.expect("search", True, False))
    for key, value in MODEL_SETTINGS.items():
        state.expect(key, value)
    for part in ("forward", "backward", "last_forward", "last_backward"):
        state.expect(part, part in (("forward", "backward") if searches else ("last_forward",)))
    for layer in ("enc", "back_enc", "dec") if searches else ("enc", "dec"):
        for key, value in LAYER_SETTINGS.items():
            if searches and (layer, key) == ("dec", "rec_layer"):
                value = "RecurrentLayerWithSearch"
            own = f"{layer}_{key}"
            state.expect(own if own in state.values else key, value)
    units, pool = state.number("dim", 1), state.number("maxout_part", 1)
    state.expect("unary_activ", f"Maxout({pool})")
    state.expect("c_dim", 2 * units if searches else units)
    if units % pool:
        raise InputError(f"{path}: dim {units} does not divide into pools of maxout_part {pool}; give another state")
    embedding = state.number("rank_n_approx", 1)
    return Settings(searches, units, embedding, pool, read_symbols(state, "source"), read_symbols(state, "target"))


def _shown(value: Any) -> str:
    try:
        return reprlib.repr(value)
    except ValueError:  # Python refuses to print numbers of more than 4,300 digits
        return f"too large a {type(value).__name__}"


def read_symbols(state: State, side: str) -> Symbols:
    """Read the ids of ``side``, source or target."""
    size, end, unknown = (state.number(f"{key}_{side}", 1) for key in ("n_sym", "null_sym", "unk_sym"))
    if end == unknown or max(end, unknown) >= size:
        raise InputError(
            f"{state.path}: null_sym_{side} {end} and unk_sym_{side} {unknown} must be two ids below n_sym_{side} "
            f"{size}; give the state that GroundHog saved beside the model"
        )
    return Symbols(size, end, unknown)


def read_words(path: Path, symbols: Symbols) -> list[str]:
    """Read the words of the vocabulary file ``path``, in the order of their ids.

    Raises:
        InputError: it does not have one word for each of ``symbols.words()``, or a word cannot stand in a text.
    """
    cure = "give the vocabulary that the model was trained with"
    words: dict[int, str] = {}
    for word, number in read_plain_dict(path).items():
        is_number = isinstance(number, int) and not isinstance(number, bool) and abs(number) <= MOST_NUMBER
        if not isinstance(word, str) or not is_number:
            raise InputError(f"{path}: {_shown(word)}: {_shown(number)} does not give a word its number; {cure}")
        if number == symbols.unknown or (number == UNUSED and word in ("<s>", "</s>")):
            continue
        if not 0 <= number < symbols.size or number in (UNUSED, symbols.end):
            raise InputError(f"{path}: {word!r} has id {number}, which is not the id of a word in this model; {cure}")
        if number in words:
            raise InputError(f"{path}: {words[number]!r} and {word!r} both have id {number}; {cure}")
        check_word(path, word)
        words[number] = word
    # All ids are distinct and in range, so the count shows whether any is missing.
    if len(words) != symbols.size - 3:
        raise InputError(f"{path}: it has {len(words):,} words and the model {symbols.size - 3:,}; {cure}")
    return [words[number] for number in sorted(words)]


def check_word(path: Path, word: str) -> None:
    """Check that ``word`` can stand in a text and in a dictionary file.

    Raises:
        InputError: it is not UTF-8, is empty, or holds a character that fairseq splits words at.
    """
    try:
        word.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(
            f"{path}: the word {word!r} is not UTF-8; replace it by one that is, in a .json copy"
        ) from None
    # Unlike GroundHog, fairseq also splits at no-break spaces and Unicode's line separators.
    if tokenize_line(word) != [word]:
        raise InputError(f"{path}: the word {word!r} is empty or holds a space; replace it by another, in a .json copy")


def read_arrays(path: Path, settings: Settings) -> dict[str, np.ndarray]:
    """Read GroundHog's parameters, in float32, fairseq's precision.

    Raises:
        InputError: the file cannot be read, its arrays do not match ``settings``, or a number is not finite.
    """
    cure = "give the model that GroundHog saved beside this state"
    expected = {name: axes for arrays in settings.parameters().values() for name, axes in arrays.items()}
    try:
        open_regular(path).close()
        with zipfile.ZipFile(path) as archive:
            if sum(info.file_size for info in archive.infolist()) > MOST_UNPACKED * path.stat().st_size:
                raise InputError(f"{path}: unpacked, it is far larger than the file; {cure}")
        with np.load(path, allow_pickle=False) as npz:
            if missing := sorted(expected.keys() - set(npz.files)):
                raise InputError(f"{path}: the array {missing[0]} is missing; {cure}")
            if others := sorted(set(npz.files) - expected.keys()):
                raise InputError(f"{path}: the array {others[0]} does not belong to the model of this state; {cure}")
            arrays = {name: read_array(path, npz, name) for name in npz.files}
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check the path") from error
    except Exception as error:  # numpy and zipfile raise many kinds of errors
        raise InputError(f"{path}: not an .npz of arrays; give the file as GroundHog wrote it") from error
    sizes = settings.sizes()
    if settings.searches:
        sizes["a"] = max((1, *arrays["B_dec_transition_0"].shape[-1:]))
    for name, axes in expected.items():
        shape = tuple(sizes[axis] for axis in axes)
        if arrays[name].shape != shape:
            raise InputError(f"{path}: {name} is {arrays[name].shape}, but by the state it should be {shape}; {cure}")
    return arrays


def read_array(path: Path, npz: np.lib.npyio.NpzFile, name: str) -> np.ndarray:
    """Read an array of an open file, in float32."""
    try:
        array = npz[name]
    except Exception as error:
        raise InputError(
            f"{path}: the array {name} cannot be read ({in_short(error)}); give the file as saved"
        ) from error
    kind = getattr(array, "dtype", None)
    if not isinstance(kind, np.dtype) or not np.issubdtype(kind, np.floating):
        raise InputError(f"{path}: the array {name} holds {kind}, not floating-point numbers; give the file as saved")
    with np.errstate(over="ignore"):
        array = array.astype(np.float32)
    if not np.isfinite(array).all():
        raise InputError(
            f"{path}: the array {name} holds NaN or infinity; give a model from before its training failed"
        )
    return array
