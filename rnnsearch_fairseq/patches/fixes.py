"""Workarounds for faults of fairseq: each function wraps one of fairseq's, and returns what replaces it.

The table in `rnnsearch_fairseq.patches` says which. File and line numbers are those of fairseq-fixed 0.12.3.1.
"""

import argparse
import collections
import contextlib
import io
import logging
import operator
import os
import sys
import traceback
import types
import typing
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import fairseq.data
import fairseq.distributed.utils
import fairseq.sequence_scorer
import fairseq.tasks.translation
import fairseq.tokenizer
import fairseq.trainer
import fairseq.utils
import numpy as np
import omegaconf
import omegaconf.base
import omegaconf.nodes
import torch
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from hydra.errors import CompactHydraException
from omegaconf import DictConfig, OmegaConf

from rnnsearch_fairseq.errors import InputError, input_error_behind, print_without_traceback
from rnnsearch_fairseq.inference.record import copy_record
from rnnsearch_fairseq.inference.text import typed_lines
from rnnsearch_fairseq.patches.around import Original, around
from rnnsearch_fairseq.text.lines import check_preprocessing
from rnnsearch_fairseq.text.preparation import RECORD

logger = logging.getLogger(__name__)

TYPED = "typed"  # the tokenizer that `prepare_typed_lines` names and `build_preparation` builds; not one of fairseq's
MARK = "\0"

# Settings


def calm_the_root_logger() -> None:
    """Keep the debugging output of other libraries off the screen, unless LOGLEVEL asks for it.

    Importing fairseq calls logging.basicConfig(level=DEBUG) (models/wav2vec/wav2vec2_classification.py:25).
    """
    if logging.root.level == logging.DEBUG and os.environ.get("LOGLEVEL", "").upper() != "DEBUG":
        logging.root.setLevel(logging.INFO)


def allow_checkpoint_classes() -> None:
    """Let `torch.load` read the classes that fairseq writes, which only hold data.

    A model or optimizer that argparse configures leaves a Namespace in the checkpoint, and --eval-bleu leaves numpy
    arrays. A training by several processes broadcasts its configuration as omegaconf objects when it resumes, and the
    tensors as placeholders (checkpoint_utils.py:340, distributed/utils.py:805).
    """
    constructors = {"_reconstruct": np.empty(0).__reduce__()[0], "scalar": np.float64(0).__reduce__()[0]}
    nodes = omegaconf.nodes
    torch.serialization.add_safe_globals(
        [
            argparse.Namespace,
            *(np.ndarray, np.dtype),
            *{type(np.dtype(name)) for name in ("bool", "int32", "int64", "float32", "float64")},
            # numpy 2 renamed the module, and a checkpoint may name either.
            *((made, f"numpy.core.multiarray.{name}") for name, made in constructors.items()),
            *((made, f"numpy._core.multiarray.{name}") for name, made in constructors.items()),
            fairseq.distributed.utils._TensorPlaceholder,
            *(DictConfig, omegaconf.ListConfig, omegaconf.base.ContainerMetadata, omegaconf.base.Metadata),
            *(nodes.AnyNode, nodes.BooleanNode, nodes.IntegerNode, nodes.FloatNode, nodes.StringNode),
            # The types that omegaconf's metadata names.
            *(dict, list, int, float, str, bool, collections.defaultdict, (typing.Any, "typing.Any")),
        ]
    )


def print_input_errors() -> None:
    """In fairseq's commands, print an `InputError` as one line; other programs are left alone.

    The commands catch nothing, and the trainer hides a model's message about a checkpoint behind a general remark
    (trainer.py:596).
    """
    if _is_fairseq_command():
        print_without_traceback()


def ignore_warnings_about_libraries() -> None:
    """In fairseq's commands, ignore warnings that only the authors of its libraries can act on.

    fairseq uses names that Hydra and PyTorch deprecate, and asks for pinned memory on machines without an accelerator,
    so each command starts with about 20 lines of warnings. -W and PYTHONWARNINGS come first.
    """
    if not _is_fairseq_command():
        return
    libraries = r"(hydra|omegaconf|numpy|torch|fairseq|fairseq_cli)(\.|$)"
    for category in (FutureWarning, DeprecationWarning):
        warnings.filterwarnings("ignore", category=category, module=libraries, append=True)
    warnings.filterwarnings("ignore", category=UserWarning, module=r"hydra\.", append=True)
    for message in (r"\s*'.*' is validated against ConfigStore", "'pin_memory' argument is set as true"):
        warnings.filterwarnings("ignore", message, UserWarning, append=True)


def _is_fairseq_command() -> bool:
    """Whether a command of fairseq is this program, and imports this package as its --user-dir or by Hydra."""
    stack = [frame.f_code for frame, _ in traceback.walk_stack(None)]
    return any(
        called.co_name == "cli_main" and Path(called.co_filename).parent.name == "fairseq_cli"
        for called, caller in pairwise(stack)
        if caller.co_name == "<module>"
    )


# The command line


@around
def keep_bf16_off_the_tpu(
    parse: Original, parser: argparse.ArgumentParser, input_args: list[str] | None = None, *rest: Any, **kwargs: Any
) -> Any:
    """--bf16 turns --tpu on (options.py:201), which fails without torch_xla; now it does so only with --tpu."""
    parsed = parse(parser, input_args, *rest, **kwargs)
    args = parsed[0] if isinstance(parsed, tuple) else parsed
    if getattr(args, "bf16", False):
        args.tpu = "--tpu" in (sys.argv[1:] if input_args is None else input_args)
    return parsed


@around
def list_every_option_in_help(
    parse: Original, parser: argparse.ArgumentParser, input_args: list[str] | None = None, *rest: Any, **kwargs: Any
) -> Any:
    """--help leaves out the options of the model, task, criterion and optimizer that are named; now it lists them.

    fairseq parses twice and adds these options in between (options.py:138), but --help ends the first parse.
    """
    words = sys.argv[1:] if input_args is None else input_args
    others = [word for word in words if word not in {"-h", "--help"}]
    if len(others) == len(words):
        return parse(parser, input_args, *rest, **kwargs)
    # The rest of the command line may have mistakes: DATA, for example, may be missing.
    with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
        parse(parser, others, *rest, **kwargs)
    parser.print_help()
    parser.exit()


@around
def check_precision_on_a_cpu(
    init: Original, self: fairseq.trainer.Trainer, cfg: Any, *args: Any, **kwargs: Any
) -> None:
    """--fp16 on a CPU ends deep inside torch; now it is refused in one sentence. A slow --bf16 warns.

    --memory-efficient-fp16 and --fp16-no-flatten-grads do not ask CUDA for its device (optim/fp16_optimizer.py:38), and
    run.
    """
    cfg = _as_omegaconf(cfg)
    common = cfg.common
    flattens = common.fp16 and not (common.memory_efficient_fp16 or common.fp16_no_flatten_grads)
    if flattens and not _uses_cuda(common):
        raise InputError(
            "--fp16 trains on a CUDA device and none is in use; train with --bf16, which also runs on a CPU, "
            "or in the default precision"
        )
    if common.bf16 and not _uses_cuda(common) and not _multiplies_bf16():
        logger.warning(
            "this processor has no instructions that multiply bfloat16 (AVX512-BF16 or AMX), so --bf16 makes training "
            "slower, up to twenty times; train without it"
        )
    init(self, cfg, *args, **kwargs)


def _multiplies_bf16() -> bool:
    """Whether products in bfloat16 are fast on this processor; true where PyTorch cannot tell."""
    capabilities = getattr(torch.cpu, "get_capabilities", dict)()
    units = [capabilities[name] for name in ("avx512_bf16", "amx_bf16") if name in capabilities]
    return any(units) or not units


def _as_omegaconf(cfg: DictConfig | argparse.Namespace) -> DictConfig:
    """fairseq's configuration, which older programs give as argparse's."""
    return convert_namespace_to_omegaconf(cfg) if isinstance(cfg, argparse.Namespace) else cfg


def _uses_cuda(common: DictConfig) -> bool:
    return torch.cuda.is_available() and not common.cpu


# Several processes


@around
def set_up_processes(call_main: Original, cfg: DictConfig, main: Callable[..., Any], **kwargs: Any) -> Any:
    """Several processes on a CPU fail, or each train a model of their own; now torchrun starts them for one model.

    fairseq starts one process per CUDA device (distributed/utils.py:160). Under torchrun it divides by zero (:91) or
    ignores it (:54), and its default backends need CUDA (models/distributed_fairseq_model.py:60). Now torchrun's
    variables are read here, and gloo and legacy_ddp are chosen; other ways to start processes are refused.

    On several GPUs fairseq spawns processes that import common.user_dir only (fairseq_cli/train.py:51). With Hydra the
    first process has imported this package by `--config-path pkg://rnnsearch_fairseq.config`, so it is named to them.
    """
    if not _uses_cuda(cfg.common) and not cfg.common.tpu:
        _read_torchrun(cfg)
        if cfg.distributed_training.distributed_world_size > 1:
            _choose_cpu_backends(cfg.distributed_training)
    if cfg.common.user_dir is None:
        cfg.common.user_dir = str(Path(__file__).resolve().parents[1])
    return call_main(cfg, main, **kwargs)


def _read_torchrun(cfg: DictConfig) -> None:
    distributed = cfg.distributed_training
    # Only fairseq-train reads no model, and only it need not be told the number of processes.
    is_wanted = cfg.common_eval.path is None or distributed.distributed_world_size > 1
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    is_torchrun = processes > 1 and {"MASTER_ADDR", "MASTER_PORT", "RANK"} <= os.environ.keys()
    if is_wanted and is_torchrun and distributed.distributed_init_method is None:
        distributed.distributed_init_method = "env://"
        distributed.distributed_world_size = processes
        distributed.distributed_rank = int(os.environ["RANK"])
        distributed.distributed_no_spawn = True


def _choose_cpu_backends(distributed: DictConfig) -> None:
    processes = distributed.distributed_world_size
    if not distributed.distributed_no_spawn and processes > torch.cuda.device_count():
        raise InputError(
            f"--distributed-world-size {processes}: fairseq starts processes on CUDA devices only; on a CPU start them "
            f'by torchrun --nproc-per-node {processes} "$(which fairseq-train)" with the other arguments unchanged'
        )
    if distributed.distributed_backend == "nccl":
        distributed.distributed_backend = "gloo"
    if distributed.ddp_backend in ("c10d", "pytorch_ddp"):
        distributed.ddp_backend = "legacy_ddp"
    logger.info("CPU processes: backend %s, %s", distributed.distributed_backend, distributed.ddp_backend)


# Data


@around
def keep_every_sentence(batch_by_size: Original, indices: Any, *args: Any, **kwargs: Any) -> Any:
    """fairseq drops the last batch of a data set unless its size is a multiple of 8; now the batch is kept.

    Of 500 test sentences it translates 496, of 5 none (data/data_utils.py:357); an empty data set raises IndexError.
    """
    if not isinstance(indices, np.ndarray):
        indices = np.fromiter(indices, dtype=np.int64)
    if len(indices) == 0:
        return []
    batches = batch_by_size(indices, *args, **kwargs)
    tail = indices[sum(len(batch) for batch in batches) :]
    return [*batches, tail] if len(tail) > 0 else batches


@around
def read_symbols_as_unknown_words(
    encode_line: Original,
    self: Any,
    line: str,
    line_tokenizer: Callable[[str], list[str]] = fairseq.tokenizer.tokenize_line,
    add_if_not_exist: bool = True,
    consumer: Any = None,
    append_eos: bool = True,
    reverse_order: bool = False,
) -> torch.Tensor:
    """<pad>, </s> and <s> in text are looked up like words (data/dictionary.py:325); now they are unknown words.

    A typed <pad> would be dropped, and a </s> would end the sentence. Lines to which no end-of-sentence is appended
    are left alone: models with other inputs write symbols into these.
    """
    numbers = (getattr(self, name, None) for name in ("bos_index", "pad_index", "eos_index"))
    # A dictionary can have a word of the same letters under a number of its own.
    symbols = {self.symbols[number] for number in numbers if number is not None}
    symbols = {symbol for symbol in symbols if self.indices[symbol] < self.nspecial}

    def split(text: str) -> list[str]:
        words = line_tokenizer(text)
        if append_eos and not symbols.isdisjoint(words):
            words = [self.unk_word if word in symbols else word for word in words]
        return words

    return encode_line(self, line, split, add_if_not_exist, consumer, append_eos, reverse_order)


@around
def explain_missing_data(setup_task: Original, cfg: Any, *args: Any, **kwargs: Any) -> Any:
    """A missing data directory or dictionary ends in a traceback (data/dictionary.py:241); now in one sentence.

    So does a configuration of Hydra that names no data (utils.py:63).
    """
    try:
        return setup_task(cfg, *args, **kwargs)
    except TypeError as error:
        if getattr(cfg, "data", "") is not None:
            raise
        raise InputError(
            "no data is named; give the --destdir of a finished fairseq-preprocess, under Hydra as task.data=FOLDER"
        ) from error
    except FileNotFoundError as error:
        raise InputError(
            f"{error.filename}: no such file or directory; give the --destdir of a finished fairseq-preprocess"
        ) from error


@around
def explain_missing_split(
    load: Original, data_path: str, split: str, src: str, src_dict: Any, tgt: str, *args: Any, **kwargs: Any
) -> Any:
    """A missing split, or sides of different size, end in a traceback (tasks/translation.py:82); now in one sentence.

    A bare assertion compares the sizes (data/language_pair_dataset.py:235).
    """
    try:
        return load(data_path, split, src, src_dict, tgt, *args, **kwargs)
    except FileNotFoundError as error:
        raise InputError(
            f"{data_path}: no {split} data for {src}-{tgt}; write it with fairseq-preprocess, or name another "
            "split by --train-subset, --valid-subset or --gen-subset"
        ) from error
    except AssertionError as error:
        if "same number of examples" not in str(error):
            raise
        raise InputError(
            f"{data_path}: the {src} and {tgt} sides of the {split} data differ in their numbers of sentences; "
            "write both again in one run of fairseq-preprocess"
        ) from error


@around
def check_before_preprocessing(main: Original, args: argparse.Namespace) -> Any:
    """fairseq-preprocess never compares source and target; now its input is checked first, and its record copied.

    Files of different lengths become misaligned data, a bad byte ends in a traceback after minutes of work, and how the
    text was prepared is forgotten. The training text's record replaces the one in --destdir; other text is prepared as
    the text of the dictionaries was.
    """
    check_preprocessing(args)
    prefix = args.trainpref or (args.validpref or args.testpref or "").split(",")[0]
    if prefix and (args.trainpref or not Path(args.destdir, RECORD).exists()):
        copy_record(Path(prefix).parent, Path(args.destdir))
    return main(args)


@around
def keep_preparation(load_checkpoint: Original, cfg: Any, trainer: Any, *args: Any, **kwargs: Any) -> Any:
    """fairseq forgets how its text was prepared; now training copies the record from the data to --save-dir.

    fairseq creates the folder before it looks for the last checkpoint.
    """
    loaded = load_checkpoint(cfg, trainer, *args, **kwargs)
    data = getattr(trainer.task.cfg, "data", None)
    # A folder of a remote file system is left to fairseq.
    if data and trainer.is_data_parallel_master and cfg.save_dir and os.path.isdir(cfg.save_dir):
        copy_record(Path(fairseq.utils.split_paths(data)[0]), Path(cfg.save_dir))
    return loaded


# Translation


@around
def answer_blank_lines(
    inference_step: Original,
    self: Any,
    generator: Any,
    models: Any,
    sample: dict[str, Any],
    prefix_tokens: Any = None,
    **kwargs: Any,
) -> Any:
    """A sentence without words is translated by some sentence; now by one without words.

    A reference is scored, and a prefix continued, as before.
    """
    found = inference_step(self, generator, models, sample, prefix_tokens=prefix_tokens, **kwargs)
    if prefix_tokens is not None or isinstance(generator, fairseq.sequence_scorer.SequenceScorer):
        return found
    tokens, dictionary = sample["net_input"]["src_tokens"], self.source_dictionary
    blank = (tokens.eq(dictionary.pad()) | tokens.eq(dictionary.eos())).all(dim=1).tolist()
    return [[_no_words(self.target_dictionary)] if b else best for b, best in zip(blank, found)]


def _no_words(dictionary: fairseq.data.Dictionary) -> dict[str, Any]:
    """A finished hypothesis of end-of-sentence alone, which is certain."""
    scores = torch.zeros(1)
    tokens = torch.tensor([dictionary.eos()])
    return {"tokens": tokens, "score": scores[0], "attention": None, "alignment": [], "positional_scores": scores}


@around
def align_references_softly(generate: Original, self: Any, models: Any, sample: dict[str, Any], **kwargs: Any) -> Any:
    """--score-reference --print-alignment soft extracts hard links (sequence_scorer.py:135); now it prints weights.

    The command cannot print links as weights, and ends in a TypeError (fairseq_cli/generate.py:319).
    """
    scored = generate(self, models, sample, **kwargs)
    if self.compute_alignment == "soft":
        for (best,), source, target in zip(scored, sample["net_input"]["src_tokens"], sample["target"]):
            if best["attention"] is not None:
                best["alignment"] = fairseq.utils.extract_soft_alignment(
                    best["attention"].cpu(), source.cpu(), target.cpu(), self.pad, self.eos
                )
    return scored


@around
def print_soft_alignments(main: types.FunctionType, *args: Any, **kwargs: Any) -> Any:
    """fairseq-interactive --print-alignment soft ends in a ValueError (interactive.py:296); now it prints the weights.

    The command prints each row of weights as a link, a pair with a hyphen between. So it runs with a `utils` that gives
    the weights as one link to a mark, and with a `print` that leaves the hyphen and the mark out. The function must be
    fairseq's own, so this is the first patch of its target.
    """

    def process(*given: Any, **options: Any) -> tuple[Any, str, Any]:
        tokens, text, alignment = fairseq.utils.post_process_prediction(*given, **options)
        if len(alignment) and isinstance(alignment[0], list):
            alignment = [(" ".join(map(",".join, alignment)), MARK)]
        return tokens, text, alignment

    def show(line: str) -> None:
        print(line.removesuffix(f"-{MARK}") if line.startswith("A-") else line)

    utils = types.SimpleNamespace(**{**vars(fairseq.utils), "post_process_prediction": process})
    names = {**main.__globals__, "utils": utils, "print": show}
    return types.FunctionType(main.__code__, names)(*args, **kwargs)


@around
def prepare_typed_lines(main: Original, cfg: Any, *args: Any, **kwargs: Any) -> Any:
    """fairseq-interactive prepares lines by --tokenizer and --bpe only; now as the training text was prepared.

    The record of the preparation counts where these options are missing, and a word that is known in lower case alone
    is lowercased.
    """
    cfg = _as_omegaconf(cfg)
    task = fairseq.tasks.TASK_REGISTRY.get(str(getattr(cfg.task, "_name", None)), object)
    if issubclass(task, fairseq.tasks.translation.TranslationTask):  # the lines of others may be no plain text
        typed = {"_name": TYPED, "path": cfg.common_eval.path, "post_process": cfg.common_eval.post_process}
        typed |= {"tokenizer": cfg.tokenizer, "bpe": cfg.bpe}
        cfg.tokenizer, cfg.bpe = OmegaConf.create(typed), None
    return main(cfg, *args, **kwargs)


@around
def build_preparation(build_tokenizer: Original, self: Any, cfg: Any) -> Any:
    """fairseq-interactive builds its tokenizer here (fairseq_cli/interactive.py:173); now typed lines get theirs."""
    if getattr(cfg, "_name", None) != TYPED:
        return build_tokenizer(self, cfg)
    return typed_lines(self, cfg, Path(fairseq.utils.split_paths(cfg.path)[0]).parent)


# Unknown words


@around
def want_raw_data_for_unknown_words(main: Original, cfg: Any, *args: Any, **kwargs: Any) -> Any:
    """fairseq-generate --replace-unk wants raw data, in an assertion; now it says so in one sentence."""
    cfg = _as_omegaconf(cfg)
    if cfg.generation.replace_unk is not None and cfg.dataset.dataset_impl != "raw":
        raise InputError(
            "--replace-unk copies words, and binarized data does not hold the unknown ones; give "
            "--dataset-impl raw to fairseq-preprocess and to fairseq-generate"
        )
    return main(cfg, *args, **kwargs)


@around
def read_no_dictionary_unless_named(load_align_dict: Original, replace_unk: str) -> Any:
    """--replace-unk without a file reads a file named "@@ " (dataclass/configs.py:889); now it reads none."""
    return load_align_dict("" if replace_unk == "@@ " else replace_unk)


@around
def replace_unknown_words(
    _: Original, hypo_str: str, src_str: str, alignment: Any, align_dict: dict[str, str], unk: str
) -> str:
    """--replace-unk takes fairseq's alignments for one position a word (utils.py:227); now it reads pairs and weights.

    An unknown word is replaced by the source word that it is aligned with, or by that word's translation in the file.
    """
    words = hypo_str.split()
    source = src_str.split()
    if len(alignment) and isinstance(alignment[0], list):
        # The last column is end-of-sentence, which is no word to copy.
        aligned = {i: int(np.argmax([float(weight) for weight in row[:-1]])) for i, row in enumerate(alignment)}
    else:
        aligned = {int(target): int(position) for position, target in alignment}
    for i, word in enumerate(words):
        if word == unk and aligned.get(i, len(source)) < len(source):
            copied = source[aligned[i]]
            words[i] = align_dict.get(copied, copied)
    return " ".join(words)


@around
def remember_typed_words(
    make_batches: Original, lines: Any, cfg: Any, task: Any, max_positions: Any, encode_fn: Callable[[str], str]
) -> Any:
    """fairseq-interactive --replace-unk copies the source's <unk> (interactive.py:253); now the word that was typed."""
    if cfg.generation.replace_unk is not None:
        dictionary = task.source_dictionary
        typed = collections.deque(encode_fn(line) for line in lines)

        def string(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> str:
            # The command asks for each sentence once, in order; one that was too long to translate is passed over.
            while typed:
                text = typed.popleft()
                if dictionary.encode_line(text, add_if_not_exist=False).tolist() == tensor.tolist():
                    return text
            return type(dictionary).string(dictionary, tensor, *args, **kwargs)

        dictionary.string = string
    yield from make_batches(lines, cfg, task, max_positions, encode_fn)


# The log


@around
def explain_under_hydra(main: Original, *args: Any, **kwargs: Any) -> Any:
    """Hydra prints the traceback of every error but its own; now an `InputError` is one line in fairseq-hydra-train."""
    try:
        return main(*args, **kwargs)
    except Exception as error:
        first = input_error_behind(error)
        if first is None:
            raise
        raise CompactHydraException(f"error: {first}") from error


@around
def report_only_shared_parameters(catalog: Original, module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    """The trainer reports every missing bias as a shared parameter; now it reports parameters that modules share.

    PyTorch keeps a parameter that a module does without, such as the bias of Linear(bias=False), as None, and the
    trainer takes every None for the same parameter (trainer.py:1597).
    """
    # Each list has the names of one parameter. Submodules, for which the function calls itself, have no lists.
    shared = catalog(module, *args, **kwargs)
    return shared and [names for names in shared if operator.attrgetter(names[0])(module) is not None]
