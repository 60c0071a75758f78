"""Read the files of the original GroundHog code: a model's settings, vocabularies and parameters.

Nothing in a file is executed, and memory follows the sizes of the files.
"""

import io
import json
import math
import pickle
import reprlib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.modules.symbols import PAD

MOST_BYTES = 100_000_000  # of a state or a vocabulary
MOST_NUMBER = 10**9  # the largest number in a state
MOST_UNPACKED = 20  # times its own size may an .npz unpack to; trained parameters hardly compress
STATE_CURE = "give the state that GroundHog saved beside the model"
UNUSED = 0  # GroundHog's id without a word; its row of the softmax still counts in every probability

TANH = "lambda x: TT.tanh(x)"
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
# No state has one for back_enc.
LAYER_SETTINGS = {
    "rec_layer": "RecurrentLayer",
    "rec_gating": True,
    "rec_reseting": True,
    "rec_gater": SIGMOID,
    "rec_reseter": SIGMOID,
    "activ": TANH,
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

    def rearrange(self, table: np.ndarray, pad: float) -> np.ndarray:
        """Bring ``table`` (size, ...) into fairseq's order, with a row of ``pad`` for <pad>."""
        special = [UNUSED, self.end, self.unknown]
        return np.insert(table[[*special, *sorted({*range(self.size)} - {*special})]], PAD, pad, axis=0)


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
        n, k, context = self.units, self.pool, 2 * self.units if self.searches else self.units
        vocabularies = {"x": self.source.size, "y": self.target.size}
        return {"1": 1, "n": n, "m": self.embedding, "l": n // k, "c": context} | vocabularies

    def parameters(self) -> dict[str, dict[str, str]]:
        """The GroundHog arrays, with their axes, that form each parameter of the network."""
        units = {"encoder.forward_unit": "enc", "decoder.unit": "dec"}
        if self.searches:
            units["encoder.backward_unit"] = "back_enc"
        parameters = SHARED | (ATTENTION if self.searches else {})
        for unit, layer in units.items():
            for part, arrays in UNIT.items():
                parameters[f"{unit}.{part}"] = {name.format(layer): axes for name, axes in arrays.items()}
        return parameters


class _Unpickler(pickle._Unpickler):  # Python's own: C's allocates memory up to an index that the file gives
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}, which may be code, and is not followed")


def read_plain_dict(path: Path) -> dict[Any, Any]:
    """Read a dictionary of plain data from a pickle (``.pkl``), Python 2's included, or from JSON (``.json``).

    Keys and values that are Python 2 strings are decoded as UTF-8; invalid bytes become lone surrogates.

    Raises:
        InputError: the file cannot be read, has another ending, is damaged, names code, or holds no dictionary.
    """
    cure = "give the file as GroundHog wrote it, or as JSON"
    if path.suffix not in (".pkl", ".json"):
        raise InputError(f"{path}: neither .pkl nor .json; give it the ending of its format")
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
        # Strings of Python 2 stay bytes, so that an error can name a bad one.
        unpickler = _Unpickler(io.BytesIO(content), encoding="bytes")
        data = json.loads(content) if path.suffix == ".json" else unpickler.load()
        if not isinstance(data, dict):
            raise ValueError(f"it holds a {type(data).__name__}, not a dictionary")
        return {_text(key): _text(value) for key, value in data.items()}
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except Exception as error:  # damaged files raise many kinds of errors
        raise InputError(f"{path}: not a dictionary of plain data ({in_short(error)}); {cure}") from error


def _text(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


class State(dict[str, Any]):
    """GroundHog's settings in a file; InputErrors name the file and the setting."""

    def __init__(self, path: Path) -> None:
        super().__init__(read_plain_dict(path))
        self.path = path

    def __missing__(self, key: str) -> Any:
        raise InputError(f"{self.path}: {key} is missing; {STATE_CURE}")

    def expect(self, key: str, *supported: Any) -> Any:
        """The value of ``key``, which must be one of ``supported``; 1, 1.0 and True are the same."""
        value = self[key]
        if value not in supported:
            raise InputError(
                f"{self.path}: {key} is {_shown(value)}, and only {' or '.join(map(repr, supported))} can be "
                "converted; give a model of the paper's RNNsearch or RNNencdec"
            )
        return value

    def number(self, key: str) -> int:
        """The value of ``key``, which must be a whole number, as int or float, of at least 1."""
        value = self[key]
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not 1 <= value <= MOST_NUMBER or value % 1 != 0:
            raise InputError(
                f"{self.path}: {key} is {_shown(value)}, but it must be a whole number from 1 to {MOST_NUMBER:,}; "
                f"{STATE_CURE}"
            )
        return int(value)

    def symbols(self, side: str) -> Symbols:
        """The ids of ``side``, source or target."""
        size, end, unknown = (self.number(f"{key}_{side}") for key in ("n_sym", "null_sym", "unk_sym"))
        if end == unknown or max(end, unknown) >= size:
            raise InputError(
                f"{self.path}: null_sym_{side} {end} and unk_sym_{side} {unknown} must be two ids below n_sym_{side} "
                f"{size}; {STATE_CURE}"
            )
        return Symbols(size, end, unknown)


def _shown(value: Any) -> str:
    try:
        return reprlib.repr(value)
    except ValueError:  # Python refuses to print numbers of more than 4,300 digits
        return f"too large a {type(value).__name__}"


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
            state.expect(own if own in state else key, value)
    units, pool = state.number("dim"), state.number("maxout_part")
    state.expect("unary_activ", f"Maxout({pool})")
    state.expect("c_dim", 2 * units if searches else units)
    if units % pool:
        raise InputError(f"{path}: dim {units} does not divide into pools of maxout_part {pool}; give another state")
    return Settings(
        searches, units, state.number("rank_n_approx"), pool, state.symbols("source"), state.symbols("target")
    )


def read_words(path: Path, symbols: Symbols) -> list[str]:
    """Read the words of the vocabulary file ``path``, in the order of their ids.

    Raises:
        InputError: it does not have one word for each id of a word, or a word cannot stand in a text.
    """
    cure = "give the vocabulary that the model was trained with"
    words: dict[int, str] = {}
    for word, number in read_plain_dict(path).items():
        if not isinstance(word, str) or type(number) is not int or abs(number) > MOST_NUMBER:
            raise InputError(f"{path}: {_shown(word)}: {_shown(number)} does not give a word its number; {cure}")
        if number == symbols.unknown or (number == UNUSED and word in ("<s>", "</s>")):
            continue
        if not 0 <= number < symbols.size or number in (UNUSED, symbols.end):
            raise InputError(f"{path}: {word!r} has id {number}, which is not the id of a word in this model; {cure}")
        if number in words:
            raise InputError(f"{path}: {words[number]!r} and {word!r} both have id {number}; {cure}")
        # Unlike GroundHog, Python and fairseq also split at no-break spaces and Unicode's line separators.
        if word.split() != [word] or any("\ud800" <= character <= "\udfff" for character in word):
            raise InputError(
                f"{path}: the word {word!r} is empty, holds a space or is not UTF-8; replace it, in a .json copy"
            )
        words[number] = word
    # All ids are distinct and in range, so the count shows whether any is missing.
    if len(words) != symbols.size - 3:
        raise InputError(f"{path}: it has {len(words):,} words and the model {symbols.size - 3:,}; {cure}")
    return [words[number] for number in sorted(words)]


def read_arrays(path: Path, settings: Settings) -> dict[str, np.ndarray]:
    """Read GroundHog's parameters, in float32.

    Names, types and shapes are compared with ``settings`` before an array is read.

    Raises:
        InputError: the file cannot be read, its arrays do not match ``settings``, or a number is not finite.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {record.filename.removesuffix(".npy"): record for record in archive.infolist()}
            if {record.compress_type for record in members.values()} - {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
                raise ValueError("it is compressed in an unusual way")
            if sum(record.file_size for record in members.values()) > MOST_UNPACKED * path.stat().st_size:
                raise ValueError("unpacked, it is far larger than the file")
            shapes = {name: _read_shape(archive, record) for name, record in members.items()}
            _check_shapes(path, shapes, settings)
            return {name: _read_array(archive, record) for name, record in members.items()}
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check the path") from error
    except Exception as error:  # numpy and zipfile raise many kinds of errors
        raise InputError(f"{path}: not an .npz of parameters ({in_short(error)}); give the file as saved") from error


def _read_shape(archive: zipfile.ZipFile, record: zipfile.ZipInfo) -> tuple[int, ...]:
    """Read an array's shape, and check that it is of floating-point numbers and as large as its record."""
    with archive.open(record) as file:
        first = np.lib.format.read_magic(file) == (1, 0)
        read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        if not np.issubdtype(dtype, np.floating):
            raise ValueError(f"{record.filename} holds {dtype}, not floating-point numbers")
        if math.prod(shape) * dtype.itemsize + file.tell() != record.file_size:
            raise ValueError(f"{record.filename} is not as large as it declares")
    return shape


def _check_shapes(path: Path, shapes: dict[str, tuple[int, ...]], settings: Settings) -> None:
    cure = "give the model that GroundHog saved beside this state"
    expected = {name: axes for arrays in settings.parameters().values() for name, axes in arrays.items()}
    if differing := sorted(expected.keys() ^ shapes.keys()):
        fault = "is missing" if differing[0] in expected else "does not belong to the model of this state"
        raise InputError(f"{path}: the array {in_short(differing[0])} {fault}; {cure}")
    sizes = settings.sizes()
    if settings.searches:
        sizes["a"] = max((1, *shapes["B_dec_transition_0"][-1:]))
    for name, axes in expected.items():
        shape = tuple(sizes[axis] for axis in axes)
        if shapes[name] != shape:
            raise InputError(f"{path}: {name} is {shapes[name]}, but by the state it should be {shape}; {cure}")


def _read_array(archive: zipfile.ZipFile, record: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(record) as file, np.errstate(over="ignore"):
        array = np.lib.format.read_array(file, allow_pickle=False).astype(np.float32)
    if not np.isfinite(array).all():
        raise ValueError(f"{record.filename} holds NaN or infinity: its training failed")
    return array
