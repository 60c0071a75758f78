"""What is replaced in fairseq's data, options, checkpoints and start (line numbers of fairseq-fixed 0.12.3.1)."""

import argparse
import ast
import collections
import contextlib
import io
import logging
import os
import sys
import typing
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fairseq.distributed.utils
import numpy as np
import omegaconf
import omegaconf.base
import torch
from omegaconf import DictConfig, OmegaConf, nodes

import rnnsearch_fairseq
from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.patches.recovery import saving, stopping

logger = logging.getLogger(__name__)

# The ends of the names of the options that fairseq hands to Python's eval when it builds what a checkpoint names.
EVALUATED = ("_betas", "adafactor_eps", "wer_args", "feature_encoder_spec", "conv_feature_layers", "character_filters")
EVALUATED += ("conv_aggregator_layers", "encoder_layers", "decoder_layers", "_attention", "pretrained", "project_input")
EVALUATED += ("downsample", "adaptive_softmax_cutoff", "adaptive_input_cutoff", "xformers_att_config")
EVALUATED += ("left_pad_source", "left_pad_target", "_balance", "_devices")
LITERAL = (ast.Expression, ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.BinOp, ast.UnaryOp, ast.expr_context)
LITERAL += (ast.operator, ast.unaryop)
CORES = ("core", "_core")  # numpy 2 renamed its module, and a checkpoint may name either


def keep_every_sentence(batch_by_size: Callable[..., Any], indices: Any, *args: Any, **kwargs: Any) -> list[Any]:
    """Keep the last batch, which fairseq drops unless its size is a multiple of 8 (data/data_utils.py:357)."""
    if not isinstance(indices, np.ndarray):
        indices = np.fromiter(indices, dtype=np.int64)
    if len(indices) == 0:
        return []
    batches = batch_by_size(indices, *args, **kwargs)
    tail = indices[sum(len(batch) for batch in batches) :]
    return [*batches, tail] if len(tail) > 0 else batches


def read_command_line(
    parse: Callable[..., Any],
    parser: argparse.ArgumentParser,
    input_args: list[str] | None = None,
    *rest: Any,
    **kw: Any,
) -> Any:
    """Set --tpu only where it is given, and let --help list the options of what is named.

    fairseq sets it with --bf16 (options.py:201). It adds the options of the model, task, criterion and optimizer
    between two parses (:138), and --help ends the first.
    """
    words = sys.argv[1:] if input_args is None else list(input_args)
    if not {"-h", "--help"}.isdisjoint(words):
        # The rest of the command line may have mistakes: DATA, for example, may be missing.
        with contextlib.suppress(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            parse(parser, [word for word in words if word not in ("-h", "--help")], *rest, **kw)
        parser.print_help()
        parser.exit()
    parsed = parse(parser, input_args, *rest, **kw)
    args = parsed[0] if isinstance(parsed, tuple) else parsed
    if getattr(args, "bf16", False):
        args.tpu = "--tpu" in words
    return parsed


def refuse_code_in_options(load_checkpoint: Callable[..., Any], path: str, *args: Any, **kwargs: Any) -> Any:
    """Load a checkpoint whose options are literals where fairseq evaluates them (utils.py:791, models/fconv.py:123).

    Raises:
        InputError: an option holds code.
    """
    state = load_checkpoint(path, *args, **kwargs)
    for name, text in [*_texts("", state.get("args")), *_texts("", state.get("cfg"))]:
        if name.endswith(EVALUATED) and _is_code(text):
            raise InputError(
                f"{path}: its option {in_short(name)} holds code ({in_short(text)}), which fairseq would run; give a "
                "checkpoint that you trust"
            )
    return state


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each option that is text."""
    if isinstance(value, DictConfig | omegaconf.ListConfig):
        value = OmegaConf.to_container(value, resolve=False)
    if isinstance(value, argparse.Namespace):
        value = vars(value)
    if isinstance(value, dict):
        for key, inside in value.items():
            yield from _texts(str(key), inside)
    elif isinstance(value, list | tuple):
        for inside in value:
            yield from _texts(name, inside)
    elif isinstance(value, str):
        yield name, value


def _is_code(text: str) -> bool:
    """Whether a text is an expression of more than numbers, text, lists and sums and products of them."""
    try:
        return not all(isinstance(node, LITERAL) for node in ast.walk(ast.parse(text.strip(), mode="eval")))
    except SyntaxError:
        return False


# Several processes


def set_up_processes(call_main: Callable[..., Any], cfg: DictConfig, main: Callable[..., Any], **kwargs: Any) -> None:
    """Run the processes that torchrun starts on CPUs as one training.

    There fairseq divides by zero (distributed/utils.py:91) or has each process train alone (:54), and its default
    backends need CUDA. Processes that fairseq spawns import common.user_dir only, so this package is named to them.
    Afterwards the caller has its signal handlers again, and other trainings have the folder.
    """
    distributed = cfg.distributed_training
    if not (torch.cuda.is_available() and not cfg.common.cpu) and not cfg.common.tpu:
        _read_torchrun(distributed)
        if distributed.distributed_world_size > 1:
            _choose_cpu_backends(distributed)
    if cfg.common.user_dir is None:
        cfg.common.user_dir = str(Path(rnnsearch_fairseq.__file__).parent)
    try:
        call_main(cfg, main, **kwargs)
        stopping.part()
    except AssertionError as error:
        if str(error).startswith(("Must specify batch size", "--batch-size cannot be larger than --buffer-size")):
            raise InputError(str(error)) from error
        raise
    finally:
        stopping.restore_handlers()
        saving.unlock()


def _read_torchrun(distributed: DictConfig) -> None:
    processes = int(os.environ.get("WORLD_SIZE", 1))
    is_torchrun = processes > 1 and {"MASTER_ADDR", "MASTER_PORT", "RANK"} <= os.environ.keys()
    if is_torchrun and distributed.distributed_init_method is None:
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


# Settings of Python and PyTorch, which replace nothing


def calm_the_root_logger() -> None:
    """Undo the level that importing fairseq sets (models/wav2vec/wav2vec2_classification.py:25), unless asked for."""
    if logging.root.level == logging.DEBUG and os.environ.get("LOGLEVEL", "").upper() != "DEBUG":
        logging.root.setLevel(logging.INFO)


def allow_checkpoint_classes() -> None:
    """Let `torch.load` read the classes that fairseq writes, which only hold data.

    A model or optimizer that argparse configures leaves a Namespace in the checkpoint, and --eval-bleu leaves numpy
    arrays. A training by several processes broadcasts omegaconf objects and placeholders for tensors when it resumes.
    """
    constructors = {"_reconstruct": np.empty(0).__reduce__()[0], "scalar": np.float64(0).__reduce__()[0]}
    torch.serialization.add_safe_globals(
        [
            argparse.Namespace,
            *(np.ndarray, np.dtype),
            *{type(np.dtype(name)) for name in ("bool", "int32", "int64", "float32", "float64")},
            *((made, f"numpy.{core}.multiarray.{name}") for name, made in constructors.items() for core in CORES),
            fairseq.distributed.utils._TensorPlaceholder,
            *(DictConfig, omegaconf.ListConfig, omegaconf.base.ContainerMetadata, omegaconf.base.Metadata),
            *(nodes.AnyNode, nodes.BooleanNode, nodes.IntegerNode, nodes.FloatNode, nodes.StringNode),
            # The types that omegaconf's metadata names.
            *(dict, list, int, float, str, bool, collections.defaultdict, (typing.Any, "typing.Any")),
        ]
    )


def ignore_warnings_about_libraries() -> None:
    """Ignore what only the authors of fairseq and Hydra can act on: about 20 lines before each command's output."""
    libraries = r"(hydra|omegaconf|fairseq|fairseq_cli)(\.|$)"
    for category in (FutureWarning, DeprecationWarning):
        warnings.filterwarnings("ignore", category=category, module=libraries, append=True)
    warnings.filterwarnings("ignore", category=UserWarning, module=r"hydra\.", append=True)
    for message in (r"\s*'.*' is validated against ConfigStore", "'pin_memory' argument is set as true"):
        warnings.filterwarnings("ignore", message, UserWarning, append=True)
