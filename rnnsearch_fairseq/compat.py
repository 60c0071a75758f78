"""Every workaround for fairseq or torch, one function each, with the trap it cures.

File and line numbers are those of fairseq-fixed 0.12.3.1. A cure leaves alone what a later fairseq no longer has.
"""

import argparse
import ast
import collections
import contextlib
import copy
import dataclasses
import logging
import math
import operator
import os
import re
import sys
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import fairseq.checkpoint_utils
import fairseq.data
import fairseq.data.data_utils
import fairseq.data.indexed_dataset
import fairseq.dataclass.configs
import fairseq.dataclass.initialize
import fairseq.distributed.utils
import fairseq.file_io
import fairseq.optim
import fairseq.options
import fairseq.registry
import fairseq.sequence_scorer
import fairseq.tasks
import fairseq.tasks.translation
import fairseq.trainer
import fairseq.utils
import numpy as np
import omegaconf
import omegaconf.base
import omegaconf.nodes
import torch
from torch.overrides import TorchFunctionMode

from rnnsearch_fairseq.data.binarized_files import check_dictionary, check_indexed
from rnnsearch_fairseq.data.checkpoint_files import CURE, check_checkpoint, check_model, check_settings
from rnnsearch_fairseq.data.text_files import check_preprocessing, check_text_file
from rnnsearch_fairseq.data.typed_lines import Buffer, read_buffers
from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.wrapping import wrap, wrap_in_command

logger = logging.getLogger(__name__)

MOST_REPEATED = 10_000  # parts of a list that an option repeats
ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
PATIENCE = ("best", "num_runs")  # what fairseq keeps as attributes of a function


def apply() -> None:
    """Apply every cure; a second call changes nothing."""
    calm_the_root_logger()
    keep_every_sentence()
    allow_checkpoint_classes()
    read_checkpoints_of_strangers()
    evaluate_no_code()
    explain_checkpoints_that_do_not_fit()
    check_binarized_data()
    keep_bf16_off_the_tpu()
    list_every_option_in_help()
    refuse_fp16_without_cuda()
    run_processes_on_cpu()
    name_the_plugin_to_spawned_processes()
    explain_missing_data()
    replace_unknown_words()
    answer_every_line()  # after the one that remembers the lines
    align_references_softly()
    keep_double_precision()
    remember_patience()
    check_before_preprocessing()
    print_input_errors()


def calm_the_root_logger() -> None:
    """Keep every library's debugging output off the screen.

    Trap: importing fairseq calls logging.basicConfig(level=DEBUG) (models/wav2vec/wav2vec2_classification.py:25), so
    that in a program that has not set up logging before, matplotlib alone prints 80 to 2,000 lines. Cure: INFO, unless
    DEBUG was asked for as fairseq's commands ask for it.
    """
    if logging.root.level == logging.DEBUG and os.environ.get("LOGLEVEL", "").upper() != "DEBUG":
        logging.root.setLevel(logging.INFO)


def keep_every_sentence() -> None:
    """Train on, validate on and translate every sentence.

    Trap: fairseq drops the last batch of every data set unless its size is a multiple of
    --required-batch-size-multiple, by default 8 (data/data_utils.py:357): of 500 test sentences 496 are translated,
    of 5 none; and an empty data set raises IndexError there. Cure: append what is missing as the last batch, which is
    the batch that fairseq had made.
    """

    def make(batch_by_size: Callable[..., Any]) -> Callable[..., Any]:
        def keep_tail(indices: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(indices, np.ndarray):
                indices = np.fromiter(indices, dtype=np.int64)
            if len(indices) == 0:
                return []
            batches = batch_by_size(indices, *args, **kwargs)
            tail = indices[sum(len(batch) for batch in batches) :]
            return [*batches, tail] if len(tail) > 0 else batches

        return keep_tail

    wrap(fairseq.data.data_utils, "batch_by_size", make)


def allow_checkpoint_classes() -> None:
    """Let `torch.load` read what fairseq writes, without turning weights_only off.

    Trap: from torch 2.6 on `torch.load` refuses every class it does not know, and fairseq calls it plainly
    (checkpoint_utils.py:340, distributed/utils.py:805): models and optimizers that are configured by argparse leave a
    Namespace in the checkpoint, --eval-bleu leaves numpy arrays, and resuming with several processes broadcasts the
    configuration as omegaconf objects, with placeholders for the tensors. Cure: allow these classes, which only hold
    data.
    """
    if torch.__version__ < (2, 6):
        return
    dtypes = {type(np.dtype(name)) for name in ("bool", "int32", "int64", "float32", "float64")}
    torch.serialization.add_safe_globals(
        [argparse.Namespace, np.ndarray, np.dtype, *dtypes, *_numpy_constructors(), *_broadcast_classes()]
    )


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
    numbered (data/dictionary.py:269). Cure: both are read once before. What --dataset-impl huffman and fasta read is
    not checked.
    """

    def make_dataset(make: Callable[..., Any]) -> Callable[..., Any]:
        def check_then_make(path: str, impl: str, fix_lua_indexing: bool = False, dictionary: Any = None) -> Any:
            if impl == "raw" and os.path.isfile(path):
                check_text_file(path)
            elif impl in ("mmap", "cached", "lazy") and os.path.isfile(f"{path}.idx") and os.path.isfile(f"{path}.bin"):
                check_indexed(path, None if dictionary is None else len(dictionary), legacy=impl != "mmap")
            return make(path, impl, fix_lua_indexing=fix_lua_indexing, dictionary=dictionary)

        return check_then_make

    def make_read(add_from_file: Callable[..., None]) -> Callable[..., None]:
        def check_then_read(self: Any, f: Any) -> None:
            # Other kinds of dictionaries begin with lines of their own.
            if isinstance(f, str) and os.path.isfile(f) and type(self)._load_meta is fairseq.data.Dictionary._load_meta:
                check_dictionary(Path(f))
            add_from_file(self, f)

        return check_then_read

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


def keep_bf16_off_the_tpu() -> None:
    """Make --bf16 mean bfloat16 on the device in use.

    Trap: --bf16 turns --tpu on (options.py:201), and without torch_xla that ends in an AttributeError. Cure: turn it
    off again unless the user asked for it. Under Hydra nothing is amiss.
    """

    def make(parse_args_and_arch: Callable[..., Any]) -> Callable[..., Any]:
        def parse(
            parser: argparse.ArgumentParser, input_args: list[str] | None = None, *rest: Any, **kwargs: Any
        ) -> Any:
            parsed = parse_args_and_arch(parser, input_args, *rest, **kwargs)
            args = parsed[0] if isinstance(parsed, tuple) else parsed
            if getattr(args, "bf16", False):
                args.tpu = "--tpu" in (sys.argv[1:] if input_args is None else input_args)
            return parsed

        return parse

    wrap(fairseq.options, "parse_args_and_arch", make)


def list_every_option_in_help() -> None:
    """Let --help list the options of the model, task, criterion and optimizer that the command line names.

    Trap: fairseq parses twice, and adds their options in between (options.py:138), so --help, met the first time, knows
    nothing of them. Cure: parse without it first, then print the help of the parser that results.
    """

    def make(parse_args_and_arch: Callable[..., Any]) -> Callable[..., Any]:
        def parse(
            parser: argparse.ArgumentParser, input_args: list[str] | None = None, *rest: Any, **kwargs: Any
        ) -> Any:
            words = sys.argv[1:] if input_args is None else input_args
            others = [word for word in words if word not in {"-h", "--help"}]
            if len(others) == len(words):
                return parse_args_and_arch(parser, input_args, *rest, **kwargs)
            # A missing DATA must not keep anyone from reading about it.
            parser.error = _stop_parsing  # type: ignore[method-assign]
            with contextlib.suppress(_ParsingStopped):
                parse_args_and_arch(parser, others, *rest, **kwargs)
            parser.print_help()
            parser.exit()

        return parse

    wrap(fairseq.options, "parse_args_and_arch", make)


def refuse_fp16_without_cuda() -> None:
    """Say what is wrong with --fp16 on a CPU.

    Trap: fairseq asks CUDA for its device while it flattens the parameters (optim/fp16_optimizer.py:38), an assertion
    or a driver error deep inside torch. Cure: refuse when the trainer is built. --memory-efficient-fp16 and
    --fp16-no-flatten-grads never come there, and run.
    """

    def make(init: Callable[..., None]) -> Callable[..., None]:
        def check_precision(self: fairseq.trainer.Trainer, cfg: Any, *args: Any, **kwargs: Any) -> None:
            common = getattr(cfg, "common", cfg)
            flattens = common.fp16 and not (common.memory_efficient_fp16 or common.fp16_no_flatten_grads)
            if flattens and not _uses_cuda(common):
                raise InputError(
                    "--fp16 trains on a CUDA device and none is in use; train with --bf16, which also runs on a CPU, "
                    "or in the default precision"
                )
            init(self, cfg, *args, **kwargs)

        return check_precision

    wrap(fairseq.trainer.Trainer, "__init__", make)


def run_processes_on_cpu() -> None:
    """Train with several processes on a CPU under torchrun, and refuse what would train nothing.

    Trap: fairseq starts one process per CUDA device, so on a CPU --distributed-world-size 2 fails an assertion
    (distributed/utils.py:160) or, with --distributed-init-method, starts no process and exits with status 0 (:382);
    under torchrun it divides by zero (:91), or trains one independent model per process if the world size is left at
    its default of 1 (:54); and the default backends, NCCL and PyTorch's DistributedDataParallel as fairseq calls it
    (models/distributed_fairseq_model.py:60), want CUDA. Cure: read torchrun's variables here, choose gloo and fairseq's
    own legacy_ddp, and refuse to start processes in any other way that needs CUDA devices.
    """

    def make(call_main: Callable[..., Any]) -> Callable[..., Any]:
        def call_main_on_cpu(cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
            if not _uses_cuda(cfg.common) and not cfg.common.tpu:
                _set_up_cpu_processes(cfg)
            return call_main(cfg, main, **kwargs)

        return call_main_on_cpu

    wrap(fairseq.distributed.utils, "call_main", make)


def name_the_plugin_to_spawned_processes() -> None:
    """Let training on several GPUs find this package when Hydra, not --user-dir, has imported it.

    Trap: `fairseq-hydra-train --config-path pkg://rnnsearch_fairseq.config` imports the package in the first process
    alone; those that fairseq spawns import what common.user_dir names (fairseq_cli/train.py:51). Cure: name it.
    """

    def make(call_main: Callable[..., Any]) -> Callable[..., Any]:
        def call_main_with_plugin(cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
            if cfg.common.user_dir is None:
                cfg.common.user_dir = os.path.dirname(os.path.abspath(__file__))
            return call_main(cfg, main, **kwargs)

        return call_main_with_plugin

    wrap(fairseq.distributed.utils, "call_main", make)


def explain_missing_data() -> None:
    """Name what is missing from the binarized data, and how it is made.

    Trap: a missing data directory, dictionary or split ends in a traceback from a file system call
    (data/dictionary.py:241, tasks/translation.py:82), and data whose two sides differ in size in a bare assertion that
    does not name them (data/language_pair_dataset.py:235). Cure: one sentence.
    """

    def make_setup_task(setup_task: Callable[..., Any]) -> Callable[..., Any]:
        def explain(*args: Any, **kwargs: Any) -> Any:
            try:
                return setup_task(*args, **kwargs)
            except FileNotFoundError as error:
                raise InputError(
                    f"{error.filename}: no such file or directory; give the --destdir of a finished fairseq-preprocess"
                ) from error

        return explain

    def make_load_dataset(load_langpair_dataset: Callable[..., Any]) -> Callable[..., Any]:
        def explain(data_path: str, split: str, src: str, src_dict: Any, tgt: str, *args: Any, **kwargs: Any) -> Any:
            try:
                return load_langpair_dataset(data_path, split, src, src_dict, tgt, *args, **kwargs)
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

        return explain

    wrap(fairseq.tasks, "setup_task", make_setup_task)
    wrap(fairseq.tasks.translation, "load_langpair_dataset", make_load_dataset)


def replace_optimizer(name: str) -> None:
    """Make room for an optimizer of ours under a name that fairseq has taken.

    Trap: fairseq's adadelta (optim/adadelta.py:11) is configured by argparse, so under Hydra it ends in "Missing key
    lr", and its rho is 0.9, not the paper's .95; registering the name again raises. Cure: take fairseq's entry out; it
    has no dataclass, so no entry elsewhere.
    """
    fairseq.optim.OPTIMIZER_REGISTRY.pop(name, None)


def add_generation_options(options: type, make_build: Callable[..., Any]) -> None:
    """Add options to those of generation, for every command and `from_pretrained`, and a layer that follows them.

    Trap: a plugin may add options to models, tasks, criterions and optimizers, but generation has one closed
    dataclass (dataclass/configs.py:834), which is all that fairseq-generate hands to `build_generator`; and the task,
    which builds the generator, is another class under every --task. Cure: add the fields to that dataclass in place,
    store it anew for Hydra, and wrap the method in the base class.

    Args:
        options: a dataclass whose fields all have defaults.
        make_build: gives the new `FairseqTask.build_generator` for the old one.
    """
    config = fairseq.dataclass.configs.GenerationConfig
    for option in dataclasses.fields(options):
        if option.name not in config.__dataclass_fields__:
            config.__dataclass_fields__[option.name] = option
            config.__annotations__[option.name] = option.type
            setattr(config, option.name, option.default)
    fairseq.dataclass.initialize.hydra_init()
    wrap(fairseq.tasks.FairseqTask, "build_generator", make_build)


def replace_unknown_words() -> None:
    """Make --replace-unk work: copy the source word that an unknown word is aligned with, or look it up.

    Traps: --replace-unk without a file names the file "@@ " (dataclass/configs.py:889); no alignment is computed unless
    --print-alignment is given too (tasks/fairseq_task.py:482); what is computed is a list of pairs, but read as one
    source position per word, a TypeError (utils.py:227); and fairseq-interactive has forgotten the source's own unknown
    words by then (interactive.py:253). Cure: each. fairseq-generate still wants --dataset-impl raw, and says so in
    one sentence: binarized data does not hold the words.
    """

    def make_load(load_align_dict: Callable[..., Any]) -> Callable[..., Any]:
        return lambda replace_unk: load_align_dict("" if replace_unk == "@@ " else replace_unk)

    def make_build(build_generator: Callable[..., Any]) -> Callable[..., Any]:
        def build(self: Any, models: Any, args: Any, *rest: Any, **kwargs: Any) -> Any:
            if getattr(args, "replace_unk", None) is not None and not getattr(args, "print_alignment", None):
                args = copy.deepcopy(args)
                args.print_alignment = "hard"
            return build_generator(self, models, args, *rest, **kwargs)

        return build

    def make_main(main: Callable[..., Any]) -> Callable[..., Any]:
        def check_then_generate(cfg: Any, *args: Any, **kwargs: Any) -> Any:
            # The command passes what argparse parsed; Python callers may pass a configuration by sections.
            generation, dataset = getattr(cfg, "generation", cfg), getattr(cfg, "dataset", cfg)
            if generation.replace_unk is not None and dataset.dataset_impl != "raw":
                raise InputError(
                    "--replace-unk copies words, and binarized data does not hold the unknown ones; give "
                    "--dataset-impl raw to fairseq-preprocess and to fairseq-generate"
                )
            return main(cfg, *args, **kwargs)

        return check_then_generate

    wrap_in_command("fairseq_cli.generate", "main", make_main)
    wrap(fairseq.utils, "load_align_dict", make_load)
    wrap(fairseq.utils, "replace_unk", lambda _: _replace_unk)
    wrap(fairseq.tasks.FairseqTask, "build_generator", make_build)
    wrap_in_command("fairseq_cli.interactive", "make_batches", _remember_typed_words)


def align_references_softly() -> None:
    """Make --score-reference --print-alignment soft print the weights.

    Trap: the scorer is told "soft", takes it for true and extracts hard links all the same (sequence_scorer.py:135),
    which the command cannot print as weights, a TypeError (fairseq_cli/generate.py:319). Cure: extract the weights.
    """

    def make(generate: Callable[..., Any]) -> Callable[..., Any]:
        def generate_with_weights(self: Any, models: Any, sample: dict[str, Any], **kwargs: Any) -> Any:
            scored = generate(self, models, sample, **kwargs)
            if self.compute_alignment == "soft":
                for (best,), source, target in zip(scored, sample["net_input"]["src_tokens"], sample["target"]):
                    if best["attention"] is not None:
                        best["alignment"] = fairseq.utils.extract_soft_alignment(
                            best["attention"].cpu(), source.cpu(), target.cpu(), self.pad, self.eos
                        )
            return scored

        return generate_with_weights

    wrap(fairseq.sequence_scorer.SequenceScorer, "generate", make)


def keep_double_precision() -> None:
    """Let a float64 model have float64 probabilities.

    Trap: fairseq takes every softmax in float32 (utils.py:519), which is right for half precision and wrong for double.
    Cure: only raise the precision.
    """

    def make(softmax: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        exact = torch.log_softmax if softmax.__name__ == "log_softmax" else torch.softmax

        def keep(x: torch.Tensor, dim: int, *args: Any, **kwargs: Any) -> torch.Tensor:
            return exact(x, dim) if x.dtype == torch.float64 else softmax(x, dim, *args, **kwargs)

        return keep

    for name in ("softmax", "log_softmax"):
        wrap(fairseq.utils, name, make)


def remember_patience() -> None:
    """Let --patience count on where training was stopped.

    Trap: fairseq counts validations without a better score in the running program only (fairseq_cli/train.py:230), so
    that a training which is stopped and resumed takes the next score, however bad, for its best, and has all its
    patience again. Cure: the count is kept in the checkpoint. Where it is not there, the best score is, and counts.
    """

    def make_save(save_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
        def save(self: Any, filename: str, extra_state: dict[str, Any]) -> Any:
            counted = {name: value for name, value in vars(early_stopping()).items() if name in PATIENCE}
            return save_checkpoint(self, filename, {**extra_state, "patience": counted} if counted else extra_state)

        return save

    def make_load(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
        def load(self: Any, *args: Any, reset_meters: bool = False, **kwargs: Any) -> Any:
            extra_state = load_checkpoint(self, *args, reset_meters=reset_meters, **kwargs)
            if extra_state is not None and not reset_meters and "best" in extra_state:
                start = {"best": extra_state["best"], "num_runs": 0}
                vars(early_stopping()).update(extra_state.get("patience", start))
            return extra_state

        return load

    wrap(fairseq.trainer.Trainer, "save_checkpoint", make_save)
    wrap(fairseq.trainer.Trainer, "load_checkpoint", make_load)


def check_before_preprocessing() -> None:
    """Check the input of `fairseq-preprocess` before it is read.

    Trap: fairseq_cli/preprocess.py:main binarizes source and target one after the other and never compares them, so
    files of different lengths become misaligned data without a word, and a bad byte ends in a traceback after minutes
    of work. Cure: `check_preprocessing` first. The command loads --user-dir before it looks its main function up.
    """

    def make(main: Callable[..., Any]) -> Callable[..., Any]:
        def check_then_preprocess(args: argparse.Namespace) -> Any:
            check_preprocessing(args)
            return main(args)

        return check_then_preprocess

    wrap_in_command("fairseq_cli.preprocess", "main", make)


def print_input_errors() -> None:
    """Print an uncaught `InputError` as one line, without a traceback; the exit status stays 1.

    Trap: fairseq's commands catch nothing, so a message meant for the user comes last, after much code; and
    the trainer replaces what a model says of a checkpoint that does not fit by a general remark (trainer.py:596).
    """

    def make(excepthook: Callable[..., None]) -> Callable[..., None]:
        def print_or_delegate(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            first: BaseException | None = error
            while first is not None and not isinstance(first, InputError):
                first = first.__cause__ or first.__context__
            if first is None:
                excepthook(kind, error, trace)
            else:
                print(f"error: {first}", file=sys.stderr)

        return print_or_delegate

    wrap(sys, "excepthook", make)


class _ParsingStopped(Exception):
    """A command line that asks for help has a mistake elsewhere."""


def _stop_parsing(message: str) -> None:
    raise _ParsingStopped(message)


def _replace_unk(hypo_str: str, src_str: str, alignment: Any, align_dict: dict[str, str], unk: str) -> str:
    """`fairseq.utils.replace_unk` for the alignments that fairseq makes: hard (pairs) or soft (rows of weights)."""
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


def _remember_typed_words(make_batches: Callable[..., Any]) -> Callable[..., Any]:
    """Let `fairseq-interactive --replace-unk` print and copy the words that were typed, not their <unk>."""

    def remember(lines: Any, cfg: Any, task: Any, max_positions: Any, encode_fn: Callable[[str], str]) -> Any:
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

    return remember


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


def early_stopping() -> Callable[..., bool]:
    """fairseq-train's function, which keeps its count in its attributes; a stranger where no training is under way."""
    for module in (sys.modules["__main__"], sys.modules.get("fairseq_cli.train")):
        if hasattr(module, "should_stop_early"):
            return module.should_stop_early
    return lambda cfg, valid_loss: False


def _uses_cuda(common: Any) -> bool:
    return torch.cuda.is_available() and not common.cpu


def _numpy_constructors() -> list[tuple[Callable[..., Any], str]]:
    reconstruct, scalar = np.empty(0).__reduce__()[0], np.float64(0).__reduce__()[0]
    # numpy 2 renamed the module, and a checkpoint may have been written under either.
    return [
        (constructor, f"{module}.multiarray.{name}")
        for module in ("numpy.core", "numpy._core")
        for constructor, name in ((reconstruct, "_reconstruct"), (scalar, "scalar"))
    ]


def _broadcast_classes() -> list[Any]:
    nodes = omegaconf.nodes
    placeholder = getattr(fairseq.distributed.utils, "_TensorPlaceholder", None)
    return [
        *([placeholder] if placeholder else []),
        omegaconf.DictConfig,
        omegaconf.ListConfig,
        omegaconf.base.ContainerMetadata,
        omegaconf.base.Metadata,
        *(nodes.AnyNode, nodes.BooleanNode, nodes.IntegerNode, nodes.FloatNode, nodes.StringNode),
        # The types that omegaconf's metadata names.
        *(dict, list, int, float, str, bool, collections.defaultdict),
        (typing.Any, "typing.Any"),
    ]


def _set_up_cpu_processes(cfg: Any) -> None:
    distributed = cfg.distributed_training
    # Only training reads no model, and only training is what torchrun is started for without a world size.
    trains = cfg.common_eval.path is None
    if (
        distributed.distributed_init_method is None
        and int(os.environ.get("WORLD_SIZE", "1")) > 1
        and {"MASTER_ADDR", "MASTER_PORT", "RANK"} <= os.environ.keys()
        and (trains or distributed.distributed_world_size > 1)
    ):
        distributed.distributed_init_method = "env://"
        distributed.distributed_world_size = int(os.environ["WORLD_SIZE"])
        distributed.distributed_rank = int(os.environ["RANK"])
        distributed.distributed_no_spawn = True
    if distributed.distributed_world_size == 1:
        return
    if not distributed.distributed_no_spawn and distributed.distributed_world_size > torch.cuda.device_count():
        raise InputError(
            f"--distributed-world-size {distributed.distributed_world_size}: fairseq starts processes on CUDA devices "
            "only; on a CPU start them by torchrun --nproc-per-node "
            f'{distributed.distributed_world_size} "$(which fairseq-train)" with the other arguments unchanged'
        )
    if distributed.distributed_backend == "nccl":
        distributed.distributed_backend = "gloo"
    if distributed.ddp_backend in ("c10d", "pytorch_ddp"):
        distributed.ddp_backend = "legacy_ddp"
    logger.info("CPU processes: backend %s, %s", distributed.distributed_backend, distributed.ddp_backend)
