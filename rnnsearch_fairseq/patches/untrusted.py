"""Guards around fairseq's reading of untrusted files and lines: each function wraps one of fairseq's.

The checks themselves are in :mod:`rnnsearch_fairseq.files`. File and line numbers are those of fairseq-fixed 0.12.3.1.
"""

import argparse
import ast
import copy
import logging
import math
import operator
import os
import re
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import fairseq.data
import fairseq.file_io
import fairseq.models
import fairseq.registry
import fairseq.utils
import torch
from omegaconf import DictConfig, OmegaConf
from torch.utils._python_dispatch import TorchDispatchMode

from rnnsearch_fairseq.errors import InputError, in_short, input_error_behind
from rnnsearch_fairseq.files.binarized import check_dictionary, check_indexed
from rnnsearch_fairseq.files.checkpoints import CURE, check_checkpoint, check_model, check_settings, no_such_checkpoint
from rnnsearch_fairseq.patches.around import Original, around
from rnnsearch_fairseq.patches.typed_lines import Buffer, read_buffers
from rnnsearch_fairseq.text.lines import check_text_file

logger = logging.getLogger(__name__)

# The classes that a checkpoint may name. All of their options were read: none leads to a file or a program, except
# those in NEUTRAL.
TASKS = ("translation", "pooled_translation", "tree_translation", "language_modeling")
MODELS = ("rnnsearch", "tree2seq", "transformer", "transformer_align", "lstm", "fconv", "lightconv")
MODELS += ("transformer_lm", "lstm_lm", "fconv_lm", "lightconv_lm")
CRITERIONS = ("summed_nll", "rdrop", "blackout", "cross_entropy", "adaptive_loss", "label_smoothed_cross_entropy")
CRITERIONS += ("label_smoothed_cross_entropy_with_alignment", "label_smoothed_cross_entropy_with_rdrop")
# Options whose value in a checkpoint is replaced, by the end of their names. --model-overrides are applied later.
NEUTRAL: dict[str, Any] = {
    "embed_path": None,  # a file of embeddings, which the parameters in the checkpoint replace anyway
    # BLEU in validation: its search may take any memory, and read length statistics.
    **{"eval_bleu": False, "eval_bleu_args": "{}", "eval_bleu_detok_args": "{}"},
    # Padding to any length.
    **{"num_batch_buckets": 0, "required_seq_len_multiple": 1, "pad_to_fixed_length": False, "pad_to_fixed_bsz": False},
    "use_plasma_view": False,  # a program that keeps data in memory
}
# The memory that a model may take. Each number in the file counts eight bytes, since it may be stored in half precision
# and be copied while a model is built. The least amount allows for tables of positions, which are not in the file.
BYTES_A_NUMBER, BYTES_AT_LEAST = 8, 128 << 20
BYTES_A_TENSOR = 4 << 10  # Python's objects for each tensor
MOST_REPEATED = 10_000  # elements of a list that an option multiplies
ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


@dataclass
class Loading:
    """The checkpoint from which models are being built.

    Attributes:
        sizes: the shapes of its parameters, by name.
        measures_bleu: it was trained with --eval-bleu.
        criterion: its configuration of the criterion.
    """

    path: str = ""
    sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    measures_bleu: bool = False
    criterion: Any = None

    @property
    def numbers(self) -> int:
        """How many numbers its parameters have in all."""
        return sum(map(math.prod, self.sizes.values()))

    def check_name(self, kind: str, name: Any, known: Sequence[str]) -> None:
        """Raise `InputError` unless the class that the checkpoint names is a known one."""
        if name not in known:
            raise InputError(
                f"{self.path}: its {kind} is {in_short(name)}, whose options may lead to other files; give a "
                f"checkpoint of one of {', '.join(known)}"
            )

    def too_large(self) -> InputError:
        """The error of a checkpoint whose options ask for more memory than its parameters need."""
        return InputError(
            f"{self.path}: its options ask for more memory than a model of the {self.numbers:,} parameters that it "
            f"has; {CURE}, and the data that it was trained on"
        )


# Set while `load_model_ensemble_and_task` runs; the task that it returns keeps it in its attribute `loading`.
_loading: ContextVar[Loading | None] = ContextVar("loading", default=None)

# Checkpoints


def evaluate_no_code() -> None:
    """In fairseq's modules, restrict eval to numbers, text and lists, and their sums and products.

    fairseq calls Python's eval on options (utils.py:791, models/fconv.py:123, optim/adam.py:91 and a dozen more), and a
    checkpoint has options: --adaptive-softmax-cutoff of a transformer or lstm, and --encoder-layers of an fconv, run
    any code as soon as the model is built, even for translation.
    """
    for name, module in sys.modules.copy().items():  # garbage collection may import meanwhile
        if name.startswith("fairseq.") and "eval" not in vars(module):
            module.eval = _evaluate  # type: ignore[attr-defined]


def _evaluate(expression: Any, *_: Any) -> Any:
    """Evaluate numbers, text, and tuples and lists of them, which may be added and multiplied, as Python's eval does.

    Raises:
        TypeError, ValueError, SyntaxError: it is anything else.
    """
    if not isinstance(expression, str):
        raise TypeError("eval is given no text")
    return _value(ast.parse(expression.strip(), mode="eval").body)


def _value(node: ast.AST) -> Any:
    if isinstance(node, ast.Tuple):
        return tuple(map(_value, node.elts))
    if isinstance(node, ast.List):
        return list(map(_value, node.elts))
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        sides = _value(node.left), _value(node.right)
        lengths = [len(side) for side in sides if hasattr(side, "__len__")]
        factors = [side for side in sides if isinstance(side, (int, float))]
        if isinstance(node.op, ast.Mult) and lengths and math.prod(lengths + factors) > MOST_REPEATED:
            raise ValueError("too long a list")
        return ARITHMETIC[type(node.op)](*sides)
    return ast.literal_eval(node)


@around
def check_checkpoints(load_checkpoint: Original, path: str, *args: Any, **kwargs: Any) -> Any:
    """fairseq hands any file to `torch.load`, and resolves its configuration; now the file is checked first.

    `torch.load` believes the sizes in it (checkpoint_utils.py:340), and ``${oc.env:HOME}`` is looked up (:350).
    """
    local = Path(fairseq.file_io.PathManager.get_local_path(path))
    checked = check_checkpoint(local)
    check_model(checked, local)
    check_settings(checked, local)
    # An old checkpoint names classes, and fairseq would look for a file of that name.
    for name in ("task", "arch", *fairseq.registry.REGISTRIES):
        choice = getattr(checked.get("args"), name, None)
        if isinstance(choice, str) and not re.fullmatch(r"[\w.-]*", choice):
            raise InputError(f"{path}: not a checkpoint ({name} is {choice[:60]!r}); {CURE}")
    if (loading := _loading.get()) is not None:
        loading.path = path
        loading.sizes = {name: tuple(tensor.size) for name, tensor in checked["model"].items()}
    try:
        return load_checkpoint(path, *args, **kwargs)
    except Exception as error:  # fairseq updates the content of older versions, where anything may be missing
        raise InputError(f"{path}: not a checkpoint ({_first_words(error)}); {CURE}") from error


def load_no_code(_: types.ModuleType) -> types.ModuleType:
    """With TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 `torch.load` runs the code in a checkpoint; now it never does here."""
    return _Torch("torch")


class _Torch(types.ModuleType):
    """PyTorch as fairseq.checkpoint_utils sees it, with a `load` that runs no code and sets what `NEUTRAL` says."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def load(file: BinaryIO, map_location: Any = None) -> dict[str, Any]:
        """Load a checkpoint."""
        state = torch.load(file, map_location, weights_only=True)
        loading = _loading.get() or Loading()
        loading.measures_bleu = False
        for values, name in [*_settings(state.get("args")), *_settings(state.get("cfg"))]:
            loading.measures_bleu |= name == "eval_bleu" and bool(values[name])
            for ending, neutral in NEUTRAL.items():
                if name.endswith(ending):
                    values[name] = neutral
        return state


def _settings(cfg: Any) -> Iterator[tuple[Any, str]]:
    """Yield each setting of a configuration and its sections: the dictionary that holds it, and its name there."""
    values = vars(cfg) if isinstance(cfg, argparse.Namespace) else cfg
    for name in list(values) if isinstance(values, dict) else ():
        yield values, name
        yield from _settings(values[name])


@around
def check_task(setup_task: Original, cfg: Any, **kwargs: Any) -> Any:
    """A checkpoint names any task, whose options may read any file; now only one of `TASKS` is set up."""
    if kwargs.get("from_checkpoint"):
        loading = _loading.get() or Loading()
        # As `fairseq.tasks.setup_task` takes it: old configurations have it under another name.
        name = getattr(cfg, "task", None)
        loading.check_name("task", name if isinstance(name, str) else getattr(cfg, "_name", None), TASKS)
        languages = [getattr(cfg, option, None) for option in ("source_lang", "target_lang", "tree_lang")]
        if any("/" in str(language) for language in languages):
            raise InputError(f"{loading.path}: its languages cannot be parts of file names; {CURE}")
    return setup_task(cfg, **kwargs)


@around
def try_model(build_model: Original, cfg: Any, task: Any, *args: Any, **kwargs: Any) -> Any:
    """A checkpoint names any model, of any size; now only one of `MODELS` is built, in memory of the file's size.

    fairseq builds the model before it compares it with the file (checkpoint_utils.py:472), and its options may read
    other files (``pretrained_checkpoint``, ``w2v_path`` and many more). So the model is first built on the meta device,
    which takes no memory.
    """
    if (loading := _loading.get()) is not None:
        _check_architecture(cfg, loading)
        with torch.random.fork_rng(devices=[]), torch.device("meta"), _Trial(loading):
            built = build_model(copy.deepcopy(cfg), task, *args, **kwargs).state_dict()
        _check_dictionaries({name: tuple(tensor.shape) for name, tensor in built.items()}, task.cfg, loading)
    return build_model(cfg, task, *args, **kwargs)


def _check_architecture(cfg: Any, loading: Loading) -> None:
    # As `fairseq.models.build_model` takes it.
    name = getattr(cfg, "_name", None) or getattr(cfg, "arch", None)
    model = fairseq.models.ARCH_MODEL_NAME_REGISTRY.get(name, name) if isinstance(name, str) else name
    loading.check_name("architecture", model, MODELS)
    for values, option in _settings(OmegaConf.to_container(cfg) if isinstance(cfg, DictConfig) else cfg):
        value = values[option]
        if option.endswith("xformers_att_config") and value is not None:
            raise InputError(f"{loading.path}: {option} is given, which is code of xFormers; give a checkpoint without")
        # lightconv makes a list of this length before it makes its first layer.
        if "layers" in option and isinstance(value, int) and value > len(loading.sizes) > 0:
            raise loading.too_large()


def _check_dictionaries(built: dict[str, tuple[int, ...]], task: Any, loading: Loading) -> None:
    """Compare the number of words in the checkpoint's embeddings with that in the dictionaries.

    Args:
        built: the shapes of the parameters of a model for the dictionaries, by name.
        task: the task's options, which name the data and the languages.
        loading: the checkpoint.

    Raises:
        InputError: they differ.
    """
    sizes = loading.sizes
    for name in sorted(built.keys() & sizes.keys(), reverse=True):  # the source first
        table = re.fullmatch(r"(encoder|decoder)\..*embed.*\.weight", name)
        if table is None or len(sizes[name]) != 2 or built[name][1:] != sizes[name][1:] or built[name] == sizes[name]:
            continue
        side = "source" if table[1] == "encoder" else "target"
        data = fairseq.utils.split_paths(str(getattr(task, "data", "")))[0]
        file = Path(data, f"dict.{getattr(task, f'{side}_lang', None)}.txt")
        raise InputError(
            f"{loading.path}: it was trained with {sizes[name][0]:,} {side} words, but {file} has {built[name][0]:,}, "
            "symbols included; give the folder of the data that it was trained on"
        )


class _Trial(TorchDispatchMode):
    """Counts the bytes of all tensors that exist at the same time.

    Raises:
        InputError: they are more than a model of the checkpoint's parameters needs.
    """

    def __init__(self, loading: Loading) -> None:
        super().__init__()
        self.loading, self.most = loading, BYTES_AT_LEAST + BYTES_A_NUMBER * loading.numbers
        self.storages: dict[int, int] = {}
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # Skip initialisation: on the meta device it changes nothing, and takes torch seconds.
        if func.overloadpacket.__name__ in ("normal_", "uniform_", "fill_", "zero_"):
            return args[0]
        made = func(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, (tuple, list)) else [made]:
            if isinstance(tensor, torch.Tensor):
                self._count(tensor.untyped_storage())
        return made

    def _count(self, storage: torch.UntypedStorage) -> None:
        if storage._cdata not in self.storages:
            self.storages[storage._cdata] = storage.nbytes() + BYTES_A_TENSOR
            self.bytes += self.storages[storage._cdata]
            weakref.finalize(storage, self._forget, storage._cdata)
        if self.bytes > self.most:
            raise self.loading.too_large()

    def _forget(self, storage: int) -> None:
        self.bytes -= self.storages.pop(storage)


@around
def check_criterion(build_criterion: Original, cfg: Any, task: Any, *args: Any, **kwargs: Any) -> Any:
    """A checkpoint names any criterion, which may write a file (``save_predictions``); now one of `CRITERIONS`.

    Only fairseq-validate builds the criterion of a checkpoint.
    """
    loading = getattr(task, "loading", None)
    if cfg is not None and loading is not None and cfg is loading.criterion:
        loading.check_name("criterion", cfg._name if isinstance(cfg, DictConfig) else cfg.criterion, CRITERIONS)
        if loading.measures_bleu and not getattr(task.cfg, "eval_bleu", False):
            logger.warning("%s was trained with --eval-bleu; give it again for BLEU", loading.path)
    return build_criterion(cfg, task, *args, **kwargs)


@around
def explain_models_that_do_not_fit(
    load_models: Original,
    filenames: Sequence[str],
    arg_overrides: Any = None,
    task: Any = None,
    strict: bool = True,
    suffix: str = "",
    num_shards: int = 1,
    state: dict[str, Any] | None = None,
) -> Any:
    """A checkpoint that does not fit the data ends in a traceback without its name; now in one sentence.

    The traceback is logged with LOGLEVEL=DEBUG.
    """
    sizes = {} if state is None else {name: tuple(tensor.shape) for name, tensor in state["model"].items()}
    loading = Loading(filenames[0], sizes)
    before = _loading.set(loading)
    try:
        ensemble, cfg, task = load_models(filenames, arg_overrides, task, strict, suffix, num_shards, state)
    except Exception as error:
        raise _misfit(filenames, error) from error
    finally:
        _loading.reset(before)
    loading.criterion, task.loading = getattr(cfg, "criterion", None), loading
    return ensemble, cfg, task


@around
def explain_training_that_does_not_fit(
    load_checkpoint: Original, self: Any, filename: str, *args: Any, **kwargs: Any
) -> Any:
    """A checkpoint that does not fit the model or the optimizer ends in a traceback; now in one sentence."""
    try:
        return load_checkpoint(self, filename, *args, **kwargs)
    except Exception as error:
        raise _misfit([filename], error) from error


def _misfit(paths: Sequence[str], error: Exception) -> InputError:
    """The error to raise where ``error`` kept these checkpoints from being used."""
    path = ", ".join(paths)
    if (first := input_error_behind(error)) is not None:
        said = str(first)
        return InputError(said if any(name in said for name in paths) else f"{path}: {said[:1].lower()}{said[1:]}")
    logger.debug("%s", path, exc_info=error)
    if isinstance(error, OSError):
        missing = next((name for name in paths if not os.path.lexists(name)), None)
        if missing is not None:
            return no_such_checkpoint(Path(missing))
        return InputError(f"{path}: cannot be read ({in_short(error)}); check the path")
    return InputError(
        f"{path}: does not load ({_first_words(error)}); give the data and the options that it was trained with"
    )


def _first_words(error: Exception) -> str:
    """The type of an error, and the first sentence of its message, or the first two lines."""
    said = " ".join(line.strip() for line in str(error).splitlines()[:2]).split(". ")[0].rstrip(".")
    return f"{type(error).__name__}: {in_short(said)}"


# Data


@around
def refuse_pipes(infer: Original, path: str) -> Any:
    """fairseq opens a pipe in the place of a data file and waits for ever; now it is refused."""
    _check_regular(path)
    return infer(path)


@around
def check_data(
    make_dataset: Original, path: str, impl: str, fix_lua_indexing: bool = False, dictionary: Any = None
) -> Any:
    """fairseq reads wherever a damaged index points (data/indexed_dataset.py:541); now data are checked when opened.

    A number that is not in the dictionary ends a training in its middle, by an IndexError of the embedding, and the
    older format takes memory for as many sentences as it claims to have (:101). --dataset-impl huffman and fasta are
    not checked.
    """
    _check_regular(path)
    if impl == "raw" and os.path.isfile(path):
        check_text_file(path)
    elif impl in ("mmap", "cached", "lazy") and os.path.isfile(f"{path}.idx") and os.path.isfile(f"{path}.bin"):
        check_indexed(path, None if dictionary is None else len(dictionary), legacy=impl != "mmap")
    return make_dataset(path, impl, fix_lua_indexing=fix_lua_indexing, dictionary=dictionary)


def _check_regular(prefix: str) -> None:
    for name in (f"{prefix}.idx", f"{prefix}.bin"):
        if os.path.exists(name) and not os.path.isfile(name):
            raise InputError(f"{name}: not a regular file; write it anew by fairseq-preprocess")


@around
def number_bad_lines(add_from_file: Original, self: Any, f: Any) -> None:
    """fairseq refuses a bad line of a dictionary without its number (data/dictionary.py:269); now it is numbered."""
    plain = type(self)._load_meta is fairseq.data.Dictionary._load_meta
    if plain and isinstance(f, str) and os.path.lexists(f):
        try:
            check_dictionary(Path(f))
        except OSError as error:
            raise InputError(f"{f}: cannot be read ({error.strerror}); check the path") from error
    add_from_file(self, f)


# Typed lines


@around
def read_every_line(_: Original, path: str, size: int) -> Iterator[Buffer]:
    """A typed byte that is not UTF-8 ends fairseq-interactive (interactive.py:39); now the line is named and left out.

    A carriage return inside a line no longer makes two of it, and the others keep their numbers.
    """
    return read_buffers(path, size)


@around
def pass_over_bad_lines(
    make_batches: Original, lines: Buffer, cfg: Any, task: Any, max_positions: Any, encode_fn: Callable[[str], str]
) -> Any:
    """A line too long, or a bad tree, ends fairseq-interactive (interactive.py:95); now it is named and left out.

    It wraps `remember_typed_words`, which so gets only lines that can be translated.
    """
    longest = max_positions if isinstance(max_positions, (int, float)) else max_positions[0]
    longest = min(longest, cfg.dataset.max_tokens or longest)
    for i, line in enumerate(lines):
        if line is not None:
            typed = line.partition("\t")[0] if cfg.generation.constraints else line
            lines.refuse(i, _why_not(typed, task, longest, encode_fn))
    numbers = [i for i, line in enumerate(lines) if line is not None]
    if numbers:
        for batch in make_batches([lines[i] for i in numbers], cfg, task, max_positions, encode_fn):
            ids = [numbers[number] for number in batch.ids.tolist()]
            yield batch._replace(ids=batch.ids.new_tensor(ids))


def _why_not(line: str, task: Any, longest: float, encode_fn: Callable[[str], str]) -> str | None:
    """Why a typed line cannot be translated; None if it can."""
    try:
        (words,) = task.get_interactive_tokens_and_lengths([line], encode_fn)[1]
    except Exception as error:  # a tokenizer may fail at any text
        return _first_words(error)
    if words > longest:
        return f"{words - 1:,} words, of which {longest - 1:,} can be read"
    return task.check_typed(line, words - 1) if hasattr(task, "check_typed") else None
