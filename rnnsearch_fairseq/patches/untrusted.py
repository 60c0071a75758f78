"""Guards around what fairseq reads: files and lines that anyone may have written.

What is checked, and how, is in :mod:`rnnsearch_fairseq.data`. Files and lines are those of fairseq-fixed 0.12.3.1.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import fairseq.checkpoint_utils
import fairseq.criterions
import fairseq.data
import fairseq.data.indexed_dataset
import fairseq.file_io
import fairseq.models
import fairseq.registry
import fairseq.tasks
import fairseq.trainer
import fairseq.utils
import torch
from omegaconf import DictConfig, OmegaConf
from torch.utils._python_dispatch import TorchDispatchMode

from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.files.binarized import check_dictionary, check_indexed
from rnnsearch_fairseq.files.checkpoints import CURE, check_checkpoint, check_model, check_settings
from rnnsearch_fairseq.files.text import check_text_file
from rnnsearch_fairseq.patches.typed_lines import Buffer, read_buffers
from rnnsearch_fairseq.patches.wrap import wrap, wrap_in_command

logger = logging.getLogger(__name__)

# What a checkpoint may name: their options were read, and lead to no file or program but by those in NEUTRAL.
TASKS = ("translation", "pooled_translation", "tree_translation", "language_modeling")
MODELS = ("rnnsearch", "tree2seq", "transformer", "transformer_align", "lstm", "fconv", "lightconv")
MODELS += ("transformer_lm", "lstm_lm", "fconv_lm", "lightconv_lm")
CRITERIONS = ("summed_nll", "blackout", "cross_entropy", "adaptive_loss", "label_smoothed_cross_entropy")
CRITERIONS += ("label_smoothed_cross_entropy_with_alignment", "label_smoothed_cross_entropy_with_rdrop")
# By what its name ends in, what a setting is in place of what a checkpoint says; --model-overrides come after.
NEUTRAL: dict[str, Any] = {
    "embed_path": None,  # embeddings that the parameters in the file are put in place of
    # BLEU in validation, whose search may take any memory and read length statistics
    **{"eval_bleu": False, "eval_bleu_args": "{}", "eval_bleu_detok_args": "{}"},
    # padding, to any length; and a program that keeps data in memory
    **{"num_batch_buckets": 0, "required_seq_len_multiple": 1, "pad_to_fixed_length": False, "pad_to_fixed_bsz": False},
    "use_plasma_view": False,
}
# A model may take this much memory for each number in the file (it may be there in half precision, and be copied while
# a model is built), and for tables of positions, which are not in it.
BYTES_A_NUMBER, BYTES_AT_LEAST = 8, 128 << 20
BYTES_A_TENSOR = 4 << 10  # and the objects of Python around it
MOST_REPEATED = 10_000  # parts of a list that an option repeats
ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def guard() -> None:
    """Put every guard in place; a second call changes nothing."""
    read_checkpoints_of_strangers()
    build_what_is_known()
    evaluate_no_code()
    explain_checkpoints_that_do_not_fit()
    check_binarized_data()
    answer_every_line()


def read_checkpoints_of_strangers() -> None:
    """Load a checkpoint that does no harm, and refuse any other in one sentence.

    Traps: fairseq hands a file to `torch.load` as it is (checkpoint_utils.py:340), which believes its sizes and, with
    TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1, runs the code in it; what the configuration in it says to look up,
    ``${oc.env:HOME}``, is looked up (:350). Cure: `check_checkpoint` and `check_settings` first, weights_only=True, and
    the settings in `NEUTRAL` replaced.
    """

    def make_load(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
        def check_then_load(path: str, *args: Any, **kwargs: Any) -> Any:
            local = Path(fairseq.file_io.PathManager.get_local_path(path))
            checked = check_checkpoint(local)
            check_model(checked, local)
            check_settings(checked, local)
            _check_choices(checked.get("args"), local)
            _last.path, _last.sizes = path, {name: tuple(tensor.size) for name, tensor in checked["model"].items()}
            try:
                return load_checkpoint(path, *args, **kwargs)
            except Exception as error:  # of an older fairseq's, which is brought up to date, anything may be missing
                raise InputError(f"{path}: not a checkpoint ({_first_words(error)}); {CURE}") from error

        return check_then_load

    fairseq.checkpoint_utils.torch = _Torch("torch")
    wrap(fairseq.checkpoint_utils, "load_checkpoint_to_cpu", make_load)


def build_what_is_known() -> None:
    """Build from a checkpoint only tasks, models and criterions whose options were read, in memory of the file's size.

    Traps: a checkpoint names any of fairseq's classes, whose options may read other files (``pretrained_checkpoint``,
    ``w2v_path`` and many more) or write one (``save_predictions``); and its sizes are those of the model that is built
    before it is compared with the file, whatever memory that takes (checkpoint_utils.py:472). Cure: the lists `TASKS`,
    `MODELS` and `CRITERIONS`, and a trial on the meta device, which takes no memory.
    """

    def make_task(setup_task: Callable[..., Any]) -> Callable[..., Any]:
        def check_then_setup(cfg: Any, **kwargs: Any) -> Any:
            if kwargs.get("from_checkpoint"):
                _check_task(cfg)
            return setup_task(cfg, **kwargs)

        return check_then_setup

    def make_model(build_model: Callable[..., Any]) -> Callable[..., Any]:
        def try_then_build(cfg: Any, task: Any, *args: Any, **kwargs: Any) -> Any:
            if _last.builds:
                _check_model(cfg)
                with torch.random.fork_rng(devices=[]), torch.device("meta"), _Trial(_last):
                    built = build_model(copy.deepcopy(cfg), task, *args, **kwargs).state_dict()
                _check_dictionaries({name: tuple(tensor.shape) for name, tensor in built.items()}, task.cfg)
            return build_model(cfg, task, *args, **kwargs)

        return try_then_build

    def make_criterion(build_criterion: Callable[..., Any]) -> Callable[..., Any]:
        def check_then_build(cfg: Any, task: Any, *args: Any, **kwargs: Any) -> Any:
            if cfg is not None and cfg is _last.criterion:  # that is, in fairseq-validate
                _check_name("criterion", cfg._name if isinstance(cfg, DictConfig) else cfg.criterion, CRITERIONS)
                if _last.measures_bleu and not getattr(task.cfg, "eval_bleu", False):
                    logger.warning("%s was trained with --eval-bleu; give it again for BLEU", _last.path)
            return build_criterion(cfg, task, *args, **kwargs)

        return check_then_build

    wrap(fairseq.tasks, "setup_task", make_task)
    wrap(fairseq.models, "build_model", make_model)
    wrap(fairseq.criterions, "build_criterion", make_criterion)


def evaluate_no_code() -> None:
    """Read options that are lists without running them.

    Trap: fairseq calls Python's eval on options (utils.py:791, models/fconv.py:123, optim/adam.py:91 and a dozen more),
    and a checkpoint has options: --adaptive-softmax-cutoff of a transformer or lstm, and --encoder-layers of an fconv,
    run any code when it is loaded, to translate, too. Cure: in fairseq's modules, eval knows numbers, text, and lists,
    and how these are added and multiplied.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("fairseq.") and "eval" not in vars(module):
            module.eval = _evaluate  # type: ignore[attr-defined]


def explain_checkpoints_that_do_not_fit() -> None:
    """Name the checkpoint that does not go with the data, the model or the optimizer.

    Trap: what torch or fairseq says of it, if anything, is a traceback that does not name the file. Cure: one sentence;
    the traceback is logged with LOGLEVEL=DEBUG.
    """

    def make_ensemble(load_models: Callable[..., Any]) -> Callable[..., Any]:
        def explain(filenames: Sequence[str], *args: Any, **kwargs: Any) -> Any:
            _last.builds = True
            try:
                loaded = load_models(filenames, *args, **kwargs)
            except Exception as error:
                raise _misfit(filenames, error) from error
            finally:
                _last.builds = False
            _last.criterion = getattr(loaded[1], "criterion", None)
            return loaded

        return explain

    def make_resume(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
        def explain(self: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
            try:
                return load_checkpoint(self, filename, *args, **kwargs)
            except Exception as error:
                raise _misfit([filename], error) from error

        return explain

    wrap(fairseq.checkpoint_utils, "load_model_ensemble_and_task", make_ensemble)
    wrap(fairseq.trainer.Trainer, "load_checkpoint", make_resume)


def check_binarized_data() -> None:
    """Check dictionaries and binarized data when they are loaded.

    Traps: fairseq maps whatever lies where an index says that a sentence is (data/indexed_dataset.py:541), and looks up
    whatever numbers are there, so that damaged data ends a training in its middle, in an IndexError of the embedding;
    the older format takes memory for as many sentences as it says it has (:101); and a bad line of a dictionary is not
    numbered (data/dictionary.py:269); and a pipe in the place of a file, which it opens, makes it wait for ever. Cure:
    both are read once before. What --dataset-impl huffman and fasta read is not checked.
    """

    def make_infer(infer: Callable[..., Any]) -> Callable[..., Any]:
        def check_then_infer(path: str) -> Any:
            _check_regular(path)
            return infer(path)

        return check_then_infer

    def make_dataset(make: Callable[..., Any]) -> Callable[..., Any]:
        def check_then_make(path: str, impl: str, fix_lua_indexing: bool = False, dictionary: Any = None) -> Any:
            _check_regular(path)
            if impl == "raw" and os.path.isfile(path):
                check_text_file(path)
            elif impl in ("mmap", "cached", "lazy") and os.path.isfile(f"{path}.idx") and os.path.isfile(f"{path}.bin"):
                check_indexed(path, None if dictionary is None else len(dictionary), legacy=impl != "mmap")
            return make(path, impl, fix_lua_indexing=fix_lua_indexing, dictionary=dictionary)

        return check_then_make

    def make_read(add_from_file: Callable[..., None]) -> Callable[..., None]:
        def check_then_read(self: Any, f: Any) -> None:
            # Other kinds of dictionaries begin with lines of their own.
            plain = type(self)._load_meta is fairseq.data.Dictionary._load_meta
            if plain and isinstance(f, str) and os.path.lexists(f):
                try:
                    check_dictionary(Path(f))
                except OSError as error:
                    raise InputError(f"{f}: cannot be read ({error.strerror}); check the path") from error
            add_from_file(self, f)

        return check_then_read

    wrap(fairseq.data.indexed_dataset, "infer_dataset_impl", make_infer)
    wrap(fairseq.data.indexed_dataset, "make_dataset", make_dataset)
    wrap(fairseq.data.Dictionary, "add_from_file", make_read)


def answer_every_line() -> None:
    """Let `fairseq-interactive` answer every line, or say by its number why it does not.

    Traps: it reads its input as Python reads text (fairseq_cli/interactive.py:39), so that a byte that is not UTF-8
    ends the run, and a carriage return inside a line makes two of it; a line of too many words ends the run (:95), or
    is left out without its number, and a bad tree beside a sentence ends it, too. Cure: lines end where a file's lines
    end; what cannot be read, or is too long, is named and passed over, and the others keep their numbers.
    """
    wrap_in_command("fairseq_cli.interactive", "buffered_read", lambda _: lambda path, size: read_buffers(path, size))
    wrap_in_command("fairseq_cli.interactive", "make_batches", _pass_over)


def _check_regular(prefix: str) -> None:
    """Raises:
    InputError: ``PREFIX.idx`` or ``PREFIX.bin`` is a pipe, a folder or the like.
    """
    for name in (f"{prefix}.idx", f"{prefix}.bin"):
        if os.path.exists(name) and not os.path.isfile(name):
            raise InputError(f"{name}: not a regular file; write it anew by fairseq-preprocess")


def _check_choices(args: Any, path: Path) -> None:
    """Check the options of an old checkpoint that name a class; fairseq would look for a file of that name.

    Raises:
        InputError: one is no name.
    """
    for name in ("task", "arch", *fairseq.registry.REGISTRIES):
        choice = getattr(args, name, None)
        if isinstance(choice, str) and not re.fullmatch(r"[\w.-]*", choice):
            raise InputError(f"{path}: not a checkpoint ({name} is {choice[:60]!r}); {CURE}")


@dataclass
class _Last:
    """The checkpoint that was loaded last.

    ``sizes`` are those of its parameters, by name. ``builds``: models are being built from it.
    """

    path: str = ""
    sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    measures_bleu: bool = False
    builds: bool = False
    criterion: Any = None

    @property
    def numbers(self) -> int:
        """How many numbers its parameters have in all."""
        return sum(map(math.prod, self.sizes.values()))


_last = _Last()


class _Torch(types.ModuleType):
    """PyTorch as fairseq's module of checkpoints sees it: its `load` runs no code, whatever the environment says."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    @staticmethod
    def load(file: BinaryIO, map_location: Any = None) -> dict[str, Any]:
        """What is in a checkpoint, with neutral settings in place of those in `NEUTRAL`."""
        state = torch.load(file, map_location, weights_only=True)
        _last.measures_bleu = False
        for values, name in [*_settings(state.get("args")), *_settings(state.get("cfg"))]:
            _last.measures_bleu |= name == "eval_bleu" and bool(values[name])
            for ending, neutral in NEUTRAL.items():
                if name.endswith(ending):
                    values[name] = neutral
        return state


def _settings(cfg: Any) -> Iterator[tuple[Any, str]]:
    """Every setting of a configuration, sections inside sections included: its section's values, and its name."""
    values = vars(cfg) if isinstance(cfg, argparse.Namespace) else cfg
    for name in list(values) if isinstance(values, dict) else ():
        yield values, name
        yield from _settings(values[name])


def _check_name(kind: str, name: Any, known: Sequence[str]) -> None:
    if name not in known:
        raise InputError(
            f"{_last.path}: its {kind} is {in_short(name)}, whose options may lead to other files; give a checkpoint "
            f"of one of {', '.join(known)}"
        )


def _check_task(cfg: Any) -> None:
    """
    Raises:
        InputError: the task of a checkpoint is not known, or its languages lead to other files.
    """
    # As `fairseq.tasks.setup_task` takes it: old configurations have it under another name.
    name = getattr(cfg, "task", None)
    _check_name("task", name if isinstance(name, str) else getattr(cfg, "_name", None), TASKS)
    named = [getattr(cfg, option, None) for option in ("source_lang", "target_lang", "tree_lang")]
    if any("/" in str(language) for language in named):
        raise InputError(f"{_last.path}: its languages cannot be parts of file names; {CURE}")


def _check_model(cfg: Any) -> None:
    """
    Raises:
        InputError: the architecture of a checkpoint is not known, or has more layers than the file has parameters.
    """
    # As `fairseq.models.build_model` takes it.
    name = getattr(cfg, "_name", None) or getattr(cfg, "arch", None)
    model = fairseq.models.ARCH_MODEL_NAME_REGISTRY.get(name, name) if isinstance(name, str) else name
    _check_name("architecture", model, MODELS)
    for values, option in _settings(OmegaConf.to_container(cfg) if isinstance(cfg, DictConfig) else cfg):
        value = values[option]
        if option.endswith("xformers_att_config") and value is not None:
            raise InputError(f"{_last.path}: {option} is given, which is code of xFormers; give a checkpoint without")
        # lightconv repeats a list as many times.
        if "layers" in option and isinstance(value, int) and value > len(_last.sizes) > 0:
            raise _too_large(_last)


def _too_large(last: _Last) -> InputError:
    return InputError(
        f"{last.path}: its options ask for more memory than a model of the {last.numbers:,} parameters that it has; "
        f"{CURE}, and the data that it was trained on"
    )


def _check_dictionaries(built: dict[str, tuple[int, ...]], task: Any) -> None:
    """Compare the checkpoint's tables of words with those of the model that would be built for the dictionaries.

    Args:
        built: the sizes of the model's parameters, by name.
        task: its options, which name the data and the languages.

    Raises:
        InputError: a table of word embeddings has another number of words than the dictionary that was loaded.
    """
    path, sizes = _last.path, _last.sizes
    for name in sorted(built.keys() & sizes.keys(), reverse=True):  # the source first
        table = re.fullmatch(r"(encoder|decoder)\..*embed.*\.weight", name)
        if table is None or len(sizes[name]) != 2 or built[name][1:] != sizes[name][1:] or built[name] == sizes[name]:
            continue
        side = "source" if table[1] == "encoder" else "target"
        data = fairseq.utils.split_paths(str(getattr(task, "data", "")))[0]
        file = Path(data, f"dict.{getattr(task, f'{side}_lang', None)}.txt")
        raise InputError(
            f"{path}: it was trained with {sizes[name][0]:,} {side} words, but {file} has {built[name][0]:,}, symbols "
            "included; give the folder of the data that it was trained on"
        )


class _Trial(TorchDispatchMode):
    """Counts the memory of all tensors that there would be at a time.

    Raises:
        InputError: there is more of it than a checkpoint lets expect.
    """

    def __init__(self, last: _Last) -> None:
        super().__init__()
        self.last, self.most = last, BYTES_AT_LEAST + BYTES_A_NUMBER * last.numbers
        self.storages: dict[int, int] = {}
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # Without memory there are no values, which takes torch seconds to find out.
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
            raise _too_large(self.last)

    def _forget(self, storage: int) -> None:
        self.bytes -= self.storages.pop(storage)


def _evaluate(expression: Any, *_: Any) -> Any:
    """Python's eval of numbers, text, and tuples and lists of them, which may be added and multiplied.

    Raises:
        TypeError, ValueError, SyntaxError: it is anything else.
    """
    if not isinstance(expression, str):
        raise TypeError("what is evaluated is text")

    def value(node: ast.AST) -> Any:
        if isinstance(node, (ast.Tuple, ast.List)):
            values = map(value, node.elts)
            return tuple(values) if isinstance(node, ast.Tuple) else list(values)
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            sides = value(node.left), value(node.right)
            lists = [len(side) for side in sides if hasattr(side, "__len__")]
            factors = [side for side in sides if isinstance(side, (int, float))]
            if isinstance(node.op, ast.Mult) and lists and math.prod(lists + factors) > MOST_REPEATED:
                raise ValueError("too long a list")
            return ARITHMETIC[type(node.op)](*sides)
        return ast.literal_eval(node)

    return value(ast.parse(expression.strip(), mode="eval").body)


def _misfit(paths: Sequence[str], error: Exception) -> InputError:
    """The error of checkpoints that could not be used, because of ``error``."""
    path = ", ".join(paths)
    said: BaseException | None = error
    while said is not None and not isinstance(said, InputError):
        said = said.__cause__ or said.__context__
    if said is not None:
        of_it = str(said)
        named = any(name in of_it for name in paths)
        return InputError(of_it if named else f"{path}: {of_it[:1].lower()}{of_it[1:]}")
    logger.debug("%s", path, exc_info=error)
    if isinstance(error, OSError):
        return InputError(f"{path}: cannot be read ({in_short(error)}); check the path")
    return InputError(
        f"{path}: does not load ({_first_words(error)}); give the data and the options that it was trained with"
    )


def _first_words(error: Exception) -> str:
    """The type of an error, and the first sentence of what it says, or the first two lines."""
    said = " ".join(line.strip() for line in str(error).splitlines()[:2]).split(". ")[0].rstrip(".")
    return f"{type(error).__name__}: {in_short(said)}"


def _pass_over(make_batches: Callable[..., Any]) -> Callable[..., Any]:
    """Let `fairseq-interactive` translate what it can of a `Buffer`, and name the rest."""

    def translate(lines: Buffer, cfg: Any, task: Any, max_positions: Any, encode_fn: Callable[[str], str]) -> Any:
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

    return translate


def _why_not(line: str, task: Any, longest: float, encode_fn: Callable[[str], str]) -> str | None:
    """Why a typed line cannot be translated; None if it can."""
    try:
        (words,) = task.get_interactive_tokens_and_lengths([line], encode_fn)[1]
    except Exception as error:  # of a tokenizer that was not made for this
        return _first_words(error)
    if words > longest:
        return f"{words - 1:,} words, of which {longest - 1:,} can be read"
    return task.check_typed(line, words - 1) if hasattr(task, "check_typed") else None
