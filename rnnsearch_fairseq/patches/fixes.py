"""Every workaround for fairseq or torch, one function each, with the trap it cures.

File and line numbers are those of fairseq-fixed 0.12.3.1. A cure leaves alone what a later fairseq no longer has.
"""

import argparse
import collections
import contextlib
import copy
import inspect
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

import fairseq.checkpoint_utils
import fairseq.data
import fairseq.data.data_utils
import fairseq.dataclass.configs
import fairseq.dataclass.initialize
import fairseq.dataclass.utils
import fairseq.distributed.utils
import fairseq.optim
import fairseq.options
import fairseq.sequence_scorer
import fairseq.tasks
import fairseq.tasks.translation
import fairseq.tokenizer
import fairseq.trainer
import fairseq.utils
import numpy as np
import omegaconf
import omegaconf.base
import omegaconf.nodes
import torch
from hydra.errors import CompactHydraException

from rnnsearch_fairseq.errors import InputError, input_error_behind, print_without_traceback
from rnnsearch_fairseq.files.preparation import RECORD, copy_record
from rnnsearch_fairseq.files.text import check_preprocessing
from rnnsearch_fairseq.inference.text import typed_lines
from rnnsearch_fairseq.patches.wrap import wrap, wrap_in_command

logger = logging.getLogger(__name__)

TYPED = "typed"  # the name of the tokenizer of `prepare_typed_lines`, which is none of fairseq's
MARK = "\0"
PATIENCE = ("best", "num_runs")  # what fairseq keeps as attributes of a function


def apply() -> None:
    """Apply every cure; a second call changes nothing."""
    calm_the_root_logger()
    keep_every_sentence()
    allow_checkpoint_classes()
    keep_bf16_off_the_tpu()
    list_every_option_in_help()
    refuse_fp16_without_cuda()
    refuse_to_average_a_sum()
    run_processes_on_cpu()
    name_the_plugin_to_spawned_processes()
    explain_missing_data()
    replace_unknown_words()
    align_references_softly()
    remember_patience()
    check_before_preprocessing()
    read_symbols_as_unknown_words()
    answer_blank_lines()
    keep_preparation()
    prepare_typed_lines()
    print_soft_alignments()
    print_input_errors()
    print_input_errors_under_hydra()
    ignore_warnings_about_libraries()
    report_only_shared_parameters()


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

    Trap: `torch.load` refuses every class it does not know, and fairseq calls it plainly (checkpoint_utils.py:340,
    distributed/utils.py:805): models and optimizers that are configured by argparse leave a Namespace in the
    checkpoint, --eval-bleu leaves numpy arrays, and resuming with several processes broadcasts the configuration as
    omegaconf objects, with placeholders for the tensors. Cure: allow these classes, which only hold data.
    """
    dtypes = {type(np.dtype(name)) for name in ("bool", "int32", "int64", "float32", "float64")}
    torch.serialization.add_safe_globals(
        [argparse.Namespace, np.ndarray, np.dtype, *dtypes, *_numpy_constructors(), *_broadcast_classes()]
    )


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


def refuse_to_average_a_sum() -> None:
    """Refuse --sentence-avg with a criterion that divides by nothing.

    Trap: fairseq offers the option with every criterion, and leaves it to the criterion to obey it. Cure: refuse when
    the trainer is built, so that only training is concerned.
    """

    def make(init: Callable[..., None]) -> Callable[..., None]:
        def check_average(self: fairseq.trainer.Trainer, cfg: Any, *args: Any, **kwargs: Any) -> None:
            averages = getattr(getattr(cfg, "optimization", cfg), "sentence_avg", False)
            criterion = getattr(cfg, "criterion", None)
            if averages and getattr(criterion, "_name", criterion) == "summed_nll":
                raise InputError(
                    "--sentence-avg asks for a mean over the sentences, and --criterion summed_nll divides by nothing; "
                    "leave one of them out"
                )
            init(self, cfg, *args, **kwargs)

        return check_average

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
                cfg.common.user_dir = str(Path(__file__).resolve().parents[1])
            return call_main(cfg, main, **kwargs)

        return call_main_with_plugin

    wrap(fairseq.distributed.utils, "call_main", make)


def explain_missing_data() -> None:
    """Name what is missing from the binarized data, and how it is made.

    Trap: a missing data directory, dictionary or split ends in a traceback from a file system call
    (data/dictionary.py:241, tasks/translation.py:82), data whose two sides differ in size in a bare assertion that does
    not name them (data/language_pair_dataset.py:235), and a configuration of Hydra's that names no data in a TypeError
    (utils.py:63). Cure: one sentence.
    """

    def make_setup_task(setup_task: Callable[..., Any]) -> Callable[..., Any]:
        def explain(cfg: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return setup_task(cfg, *args, **kwargs)
            except TypeError as error:
                if getattr(cfg, "data", "") is not None:
                    raise
                raise InputError(
                    "no data is named; give the --destdir of a finished fairseq-preprocess, under Hydra as "
                    "task.data=FOLDER"
                ) from error
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
    """Check the input of `fairseq-preprocess` before it is read, and copy the record of its preparation.

    Trap: fairseq_cli/preprocess.py:main binarizes source and target one after the other and never compares them, so
    files of different lengths become misaligned data without a word, and a bad byte ends in a traceback after minutes
    of work; and how the text was prepared is forgotten. Cure: `check_preprocessing` first, then `copy_record`. The
    command loads --user-dir before it looks its main function up.
    """

    def make(main: Callable[..., Any]) -> Callable[..., Any]:
        def check_then_preprocess(args: argparse.Namespace) -> Any:
            check_preprocessing(args)
            _copy_record_of_text(args)
            return main(args)

        return check_then_preprocess

    wrap_in_command("fairseq_cli.preprocess", "main", make)


def read_symbols_as_unknown_words() -> None:
    """Read <pad>, </s> and <s> in text as unknown words.

    Trap: fairseq looks them up like any word (data/dictionary.py:325). A <pad> that was typed is then taken for padding
    and dropped, and a </s> ends a sentence in its middle. Cure: in a line that gets its own end-of-sentence they are
    unknown words. Lines without one are left alone: models with other inputs write their symbols into these.
    """

    def make(encode_line: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def encode(
            self: Any,
            line: str,
            line_tokenizer: Callable[[str], list[str]] = fairseq.tokenizer.tokenize_line,
            add_if_not_exist: bool = True,
            consumer: Any = None,
            append_eos: bool = True,
            reverse_order: bool = False,
        ) -> torch.Tensor:
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

        return encode

    wrap(fairseq.data.Dictionary, "encode_line", make)


def answer_blank_lines() -> None:
    """Translate a sentence without words by a translation without words.

    Trap: fairseq searches for a translation of end-of-sentence alone, and finds a sentence. Cure: replace what it
    finds. A reference is scored, and a prefix continued, as before.
    """

    def make(inference_step: Callable[..., Any]) -> Callable[..., Any]:
        def answer(
            self: Any, generator: Any, models: Any, sample: dict[str, Any], prefix_tokens: Any = None, **kwargs: Any
        ) -> Any:
            found = inference_step(self, generator, models, sample, prefix_tokens=prefix_tokens, **kwargs)
            if prefix_tokens is not None or isinstance(generator, fairseq.sequence_scorer.SequenceScorer):
                return found
            tokens, dictionary = sample["net_input"]["src_tokens"], self.source_dictionary
            blank = (tokens.eq(dictionary.pad()) | tokens.eq(dictionary.eos())).all(dim=1).tolist()
            return [[_no_words(self.target_dictionary)] if b else best for b, best in zip(blank, found)]

        return answer

    wrap(fairseq.tasks.translation.TranslationTask, "inference_step", make)


def keep_preparation() -> None:
    """Keep the record of how the text was prepared beside the checkpoints.

    Trap: fairseq forgets it, so that whoever types text for a model must know. Cure: when a training starts, copy the
    record from the data to --save-dir, which is there when the last checkpoint has been looked for.
    """

    def make(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
        def load_then_copy(cfg: Any, trainer: Any, *args: Any, **kwargs: Any) -> Any:
            loaded = load_checkpoint(cfg, trainer, *args, **kwargs)
            data = getattr(trainer.task.cfg, "data", None)
            # A folder of a remote file system is left to fairseq.
            if data and trainer.is_data_parallel_master and os.path.isdir(cfg.save_dir):
                copy_record(Path(fairseq.utils.split_paths(data)[0]), Path(cfg.save_dir))
            return loaded

        return load_then_copy

    wrap(fairseq.checkpoint_utils, "load_checkpoint", make)


def prepare_typed_lines() -> None:
    """Let `fairseq-interactive` prepare what is typed as the training text was prepared.

    Trap: the command does to a line what --tokenizer and --bpe say, and nothing without them, so that capitals and
    punctuation make words unknown; it has one set of options for both languages, and no lower case. Cure: without
    these options the record of the preparation counts; a word that is known in lower case alone is lowercased. What
    prepares the lines is made where the command makes its tokenizer (fairseq_cli/interactive.py:173).
    """

    def make_main(main: Callable[..., Any]) -> Callable[..., Any]:
        def prepare_lines(cfg: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(cfg, argparse.Namespace):
                cfg = fairseq.dataclass.utils.convert_namespace_to_omegaconf(cfg)
            task = fairseq.tasks.TASK_REGISTRY.get(str(getattr(cfg.task, "_name", None)), object)
            if not issubclass(task, fairseq.tasks.translation.TranslationTask):  # its lines may be no plain text
                return main(cfg, *args, **kwargs)
            typed = {"_name": TYPED, "path": cfg.common_eval.path, "post_process": cfg.common_eval.post_process}
            typed |= {"tokenizer": cfg.tokenizer, "bpe": cfg.bpe}
            cfg.tokenizer, cfg.bpe = omegaconf.OmegaConf.create(typed), None
            return main(cfg, *args, **kwargs)

        return prepare_lines

    def make_build(build_tokenizer: Callable[..., Any]) -> Callable[..., Any]:
        def build(self: Any, cfg: Any) -> Any:
            if getattr(cfg, "_name", None) != TYPED:
                return build_tokenizer(self, cfg)
            return typed_lines(self, cfg, Path(fairseq.utils.split_paths(cfg.path)[0]).parent)

        return build

    wrap_in_command("fairseq_cli.interactive", "main", make_main)
    wrap(fairseq.tasks.FairseqTask, "build_tokenizer", make_build)


def print_soft_alignments() -> None:
    """Let `fairseq-interactive --print-alignment soft` print the weights, as fairseq-generate prints them.

    Trap: the command takes each row of weights for a link, a pair of numbers: a ValueError
    (fairseq_cli/interactive.py:296). Cure: give it a row as a link from the row to a mark, which is not printed.
    """

    def make(main: Callable[..., Any]) -> Callable[..., Any]:
        def main_with_weights(*args: Any, **kwargs: Any) -> Any:
            names = inspect.unwrap(main).__globals__
            changed = {**vars(fairseq.utils), "post_process_prediction": _rows_as_links}
            names.update(utils=types.SimpleNamespace(**changed), print=_print_without_marks)
            return main(*args, **kwargs)

        return main_with_weights

    wrap_in_command("fairseq_cli.interactive", "main", make)


def print_input_errors() -> None:
    """Let fairseq's commands print an `InputError` as one line; other programs are left alone.

    Trap: fairseq's commands catch nothing, so a message meant for the user comes last, after much code; and
    the trainer replaces what a model says of a checkpoint that does not fit by a general remark (trainer.py:596).
    """
    if _is_fairseq_command():
        print_without_traceback()


def print_input_errors_under_hydra() -> None:
    """Do the same in `fairseq-hydra-train`.

    Trap: Hydra prints the traceback of every error itself, but of its own kind only the message. Cure: make it of that
    kind.
    """

    def make(main: Callable[..., Any]) -> Callable[..., Any]:
        def explain(*args: Any, **kwargs: Any) -> Any:
            try:
                return main(*args, **kwargs)
            except Exception as error:
                first = input_error_behind(error)
                if first is None:
                    raise
                raise CompactHydraException(f"error: {first}") from error

        return explain

    wrap_in_command("fairseq_cli.hydra_train", "_hydra_main", make)


def ignore_warnings_about_libraries() -> None:
    """Keep warnings off the log of a fairseq command that only the authors of its libraries can act on.

    Trap: fairseq uses names of Hydra and PyTorch that these libraries deprecate, and it wants pinned memory on machines
    without an accelerator, so each command starts with about 20 lines of warnings. Cure: ignore them, in fairseq's
    commands only. What -W and PYTHONWARNINGS say of them is obeyed first.
    """
    if not _is_fairseq_command():
        return
    libraries = r"(hydra|omegaconf|numpy|torch|fairseq|fairseq_cli)(\.|$)"
    for category in (FutureWarning, DeprecationWarning):
        warnings.filterwarnings("ignore", category=category, module=libraries, append=True)
    warnings.filterwarnings("ignore", category=UserWarning, module=r"hydra\.", append=True)
    for message in (r"\s*'.*' is validated against ConfigStore", "'pin_memory' argument is set as true"):
        warnings.filterwarnings("ignore", message, UserWarning, append=True)


def report_only_shared_parameters() -> None:
    """Let the trainer report those parameters as shared that modules share.

    Trap: PyTorch keeps a parameter that a module does without, as the bias of Linear(bias=False), as None, and the
    trainer takes every None for the same parameter (trainer.py:1597): "detected shared parameter", 14 times for
    RNNsearch. Cure: leave out the parameter None.
    """

    def make(catalog_shared_params: Callable[..., Any]) -> Callable[..., Any]:
        def catalog(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            # Each list has the names of one parameter. Submodules, for which the function calls itself, have no lists.
            shared = catalog_shared_params(module, *args, **kwargs)
            return shared and [names for names in shared if operator.attrgetter(names[0])(module) is not None]

        return catalog

    wrap(fairseq.trainer, "_catalog_shared_params", make)


def _copy_record_of_text(args: argparse.Namespace) -> None:
    """Copy the record beside the text that `fairseq-preprocess` reads to --destdir.

    Only the training text's replaces one that is there: others are prepared as the dictionaries' text was.
    """
    prefix = args.trainpref or (args.validpref or args.testpref or "").split(",")[0]
    if prefix and (args.trainpref or not Path(args.destdir, RECORD).exists()):
        copy_record(Path(prefix).parent, Path(args.destdir))


def _no_words(dictionary: fairseq.data.Dictionary) -> dict[str, Any]:
    """A finished hypothesis of end-of-sentence alone, which is certain."""
    scores = torch.zeros(1)
    tokens = torch.tensor([dictionary.eos()])
    return {"tokens": tokens, "score": scores[0], "attention": None, "alignment": [], "positional_scores": scores}


def _rows_as_links(*args: Any, **kwargs: Any) -> tuple[Any, str, Any]:
    tokens, text, alignment = fairseq.utils.post_process_prediction(*args, **kwargs)
    if len(alignment) and isinstance(alignment[0], list):
        alignment = [(",".join(row), MARK) for row in alignment]
    return tokens, text, alignment


def _print_without_marks(line: str) -> None:
    print(line.replace(f"-{MARK}", "") if line.startswith("A-") else line)


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


def early_stopping() -> Callable[..., bool]:
    """fairseq-train's function, which keeps its count in its attributes; a stranger where no training is under way."""
    for module in (sys.modules["__main__"], sys.modules.get("fairseq_cli.train")):
        if hasattr(module, "should_stop_early"):
            return module.should_stop_early
    return lambda cfg, valid_loss: False


def _is_fairseq_command() -> bool:
    """Whether the program is a command of fairseq's that is importing this package, as its --user-dir or by Hydra."""
    stack = [frame.f_code for frame, _ in traceback.walk_stack(None)]
    return any(
        called.co_name == "cli_main" and Path(called.co_filename).parent.name == "fairseq_cli"
        for called, caller in pairwise(stack)
        if caller.co_name == "<module>"
    )


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
