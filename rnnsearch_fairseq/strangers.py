"""Guards around what fairseq reads: files and lines that anyone may have written.

What is checked, and how, is in :mod:`rnnsearch_fairseq.data`. Files and lines are those of fairseq-fixed 0.12.3.1.
"""

import argparse
import ast
import logging
import math
import operator
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fairseq.checkpoint_utils
import fairseq.data
import fairseq.data.indexed_dataset
import fairseq.file_io
import fairseq.registry
import fairseq.tasks
import fairseq.trainer
import torch
from torch.overrides import TorchFunctionMode

from rnnsearch_fairseq.data.binarized_files import check_dictionary, check_indexed
from rnnsearch_fairseq.data.checkpoint_files import CURE, check_checkpoint, check_model, check_settings
from rnnsearch_fairseq.data.text_files import check_text_file
from rnnsearch_fairseq.data.typed_lines import Buffer, read_buffers
from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.wrapping import wrap, wrap_in_command

logger = logging.getLogger(__name__)

MOST_REPEATED = 10_000  # parts of a list that an option repeats
ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def guard() -> None:
    """Put every guard in place; a second call changes nothing."""
    read_checkpoints_of_strangers()
    evaluate_no_code()
    explain_checkpoints_that_do_not_fit()
    check_binarized_data()
    answer_every_line()


def read_checkpoints_of_strangers() -> None:
    """Load a checkpoint that does no harm, and refuse any other in one sentence.

    Traps: fairseq hands a file to `torch.load` as it is (checkpoint_utils.py:340), which before torch 2.6 runs the code
    in it, and after it believes its sizes; what the configuration in it says to look up, ``${oc.env:HOME}``, is looked
    up (:350); the sizes in it are those of the model that is built before it is compared with the file, whatever memory
    that takes (:472); and the model reads the file that --encoder-embed-path names, to forget it again. Cure:
    `check_checkpoint` and `check_settings` first; a model of more parameters than the file has is found out in a trial
    that takes no memory; and the names of embeddings are taken out.
    """
    read: dict[str, Any] = {"path": "", "sizes": []}

    def make_load(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
        def check_then_load(path: str, *args: Any, **kwargs: Any) -> Any:
            local = Path(fairseq.file_io.PathManager.get_local_path(path))
            checked = check_checkpoint(local)
            check_model(checked, local)
            check_settings(checked, local)
            _check_choices(checked.get("args"), local)
            try:
                state = load_checkpoint(path, *args, **kwargs)
            except Exception as error:  # of an older fairseq's, which is brought up to date, anything may be missing
                raise InputError(f"{path}: not a checkpoint ({_first_words(error)}); {CURE}") from error
            _forget_embeddings(state)
            read.update(path=path, sizes=[math.prod(tensor.size) for tensor in checked["model"].values()])
            return state

        return check_then_load

    def make_build(build_model: Callable[..., Any]) -> Callable[..., Any]:
        def try_then_build(self: Any, cfg: Any, from_checkpoint: bool = False) -> Any:
            if from_checkpoint:
                _check_size(lambda: build_model(self, cfg, from_checkpoint), cfg, **read)
            return build_model(self, cfg, from_checkpoint)

        return try_then_build

    wrap(fairseq.checkpoint_utils, "load_checkpoint_to_cpu", make_load)
    wrap(fairseq.tasks.FairseqTask, "build_model", make_build)


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
            try:
                return load_models(filenames, *args, **kwargs)
            except Exception as error:
                raise _misfit(filenames, error) from error

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


def _forget_embeddings(state: dict[str, Any]) -> None:
    """Take out of a loaded checkpoint's options the files whose embeddings the training began with."""
    for options in filter(None, (state.get("args"), getattr(state.get("cfg"), "model", None))):
        for name in ("encoder_embed_path", "decoder_embed_path"):
            if getattr(options, name, None):
                setattr(options, name, None)


def _check_size(build: Callable[[], torch.nn.Module], cfg: Any, path: str, sizes: list[int]) -> None:
    """Build a model without memory, and compare it with a checkpoint whose parameters have ``sizes``.

    Raises:
        InputError: it is larger.
    """
    there = sum(sizes)
    options = vars(cfg) if isinstance(cfg, argparse.Namespace) else cfg
    layers = [number for name, number in options.items() if "layers" in name and isinstance(number, int)]
    # fairseq adds a few parameters where it has learnt to count something.
    needed, most = max([0, *layers]), len(sizes)
    if needed <= most:
        try:
            with torch.random.fork_rng(devices=[]), torch.device("meta"), _Uninitialized():
                needed, most = sum(tensor.numel() for tensor in build().state_dict().values()), 2 * there + 10_000
        except Exception as error:  # some model that cannot be built so; it will be built, or not, all the same
            logger.debug("%s: no trial (%s)", path, error)
    if there and needed > most:
        raise InputError(
            f"{path}: its options ask for more parameters than the {there:,} that it has; {CURE}, and the data that it "
            "was trained on"
        )


class _Uninitialized(TorchFunctionMode):
    """Leaves parameters as they are: without memory, they have no values, and torch takes seconds to find that out."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if getattr(func, "__module__", "") == "torch.nn.init" or name in ("normal_", "uniform_", "fill_", "zero_"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


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
