"""All that this package changes in fairseq, in one table; ``RNNSEARCH_PATCHES`` chooses among it.

The variable is ``all`` (the default), ``none``, or some of `GROUPS` with commas between them. `fairseq_cli`'s functions
are replaced where the module of the command is loaded, which configures logging: it is never imported for that.
"""

import functools
import os
import pkgutil
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.patches import fixes, untrusted
from rnnsearch_fairseq.patches.around import Original, around
from rnnsearch_fairseq.patches.recovery import gradients, resuming, saving, stopping

VARIABLE = "RNNSEARCH_PATCHES"
GROUPS = ("fixes", "untrusted", "recovery")

# What was in the place of each replacement: by module or class, and name.
ORIGINALS: dict[tuple[Any, str], Any] = {}


class Patch(NamedTuple):
    """One replacement of a part of fairseq.

    ``wrapper`` gets what is at ``target``, a dotted name, or what the patches above in the table have made of it, and
    returns what takes its place.
    """

    target: str
    wrapper: Callable[[Any], Any]
    group: str

    @property
    def why(self) -> str:
        """What fairseq does, and what it does now, in one line."""
        return (self.wrapper.__doc__ or "").partition("\n")[0]


@around
def patch_loaded_commands(init: Original, *args: Any, **kwargs: Any) -> None:
    """Spawned processes and Python callers load a command after this package; now it is patched for its trainer."""
    replace_targets()
    init(*args, **kwargs)


PATCHES = (
    Patch("fairseq.data.data_utils.batch_by_size", fixes.keep_every_sentence, "fixes"),
    Patch("fairseq.data.Dictionary.encode_line", fixes.read_symbols_as_unknown_words, "fixes"),
    Patch("fairseq.options.parse_args_and_arch", fixes.keep_bf16_off_the_tpu, "fixes"),
    Patch("fairseq.options.parse_args_and_arch", fixes.list_every_option_in_help, "fixes"),
    Patch("fairseq.trainer.Trainer.__init__", fixes.refuse_fp16_without_cuda, "fixes"),
    Patch("fairseq.trainer.Trainer.__init__", fixes.refuse_to_average_a_sum, "fixes"),
    Patch("fairseq.trainer.Trainer.save_checkpoint", fixes.save_patience, "fixes"),
    Patch("fairseq.trainer.Trainer.load_checkpoint", fixes.load_patience, "fixes"),
    Patch("fairseq.trainer._catalog_shared_params", fixes.report_only_shared_parameters, "fixes"),
    Patch("fairseq.checkpoint_utils.load_checkpoint", fixes.keep_preparation, "fixes"),
    Patch("fairseq.distributed.utils.call_main", fixes.run_processes_on_cpu, "fixes"),
    Patch("fairseq.distributed.utils.call_main", fixes.name_the_plugin_to_spawned_processes, "fixes"),
    Patch("fairseq.tasks.setup_task", fixes.explain_missing_data, "fixes"),
    Patch("fairseq.tasks.translation.load_langpair_dataset", fixes.explain_missing_split, "fixes"),
    Patch("fairseq.tasks.translation.TranslationTask.inference_step", fixes.answer_blank_lines, "fixes"),
    Patch("fairseq.tasks.FairseqTask.build_tokenizer", fixes.build_preparation, "fixes"),
    Patch("fairseq.sequence_scorer.SequenceScorer.generate", fixes.align_references_softly, "fixes"),
    Patch("fairseq.utils.load_align_dict", fixes.read_no_dictionary_unless_named, "fixes"),
    Patch("fairseq.utils.replace_unk", fixes.replace_unknown_words, "fixes"),
    Patch("fairseq_cli.preprocess.main", fixes.check_before_preprocessing, "fixes"),
    Patch("fairseq_cli.generate.main", fixes.want_raw_data_for_unknown_words, "fixes"),
    Patch("fairseq_cli.interactive.main", fixes.print_soft_alignments, "fixes"),
    Patch("fairseq_cli.interactive.main", fixes.prepare_typed_lines, "fixes"),
    Patch("fairseq_cli.interactive.make_batches", fixes.remember_typed_words, "fixes"),
    Patch("fairseq_cli.hydra_train._hydra_main", fixes.explain_under_hydra, "fixes"),
    Patch("fairseq.checkpoint_utils.load_checkpoint_to_cpu", untrusted.check_checkpoints, "untrusted"),
    Patch("fairseq.checkpoint_utils.torch", untrusted.load_no_code, "untrusted"),
    Patch(
        "fairseq.checkpoint_utils.load_model_ensemble_and_task", untrusted.explain_models_that_do_not_fit, "untrusted"
    ),
    Patch("fairseq.tasks.setup_task", untrusted.check_task, "untrusted"),
    Patch("fairseq.models.build_model", untrusted.try_model, "untrusted"),
    Patch("fairseq.criterions.build_criterion", untrusted.check_criterion, "untrusted"),
    Patch("fairseq.trainer.Trainer.load_checkpoint", untrusted.explain_training_that_does_not_fit, "untrusted"),
    Patch("fairseq.data.indexed_dataset.infer_dataset_impl", untrusted.refuse_pipes, "untrusted"),
    Patch("fairseq.data.indexed_dataset.make_dataset", untrusted.check_data, "untrusted"),
    Patch("fairseq.data.Dictionary.add_from_file", untrusted.number_bad_lines, "untrusted"),
    Patch("fairseq_cli.interactive.buffered_read", untrusted.read_every_line, "untrusted"),
    # Outside of `remember_typed_words`, which so gets the lines that can be translated.
    Patch("fairseq_cli.interactive.make_batches", untrusted.pass_over_bad_lines, "untrusted"),
    Patch("fairseq.checkpoint_utils.torch_persistent_save", saving.save_whole, "recovery"),
    Patch("fairseq.file_io.PathManager.copy", saving.copy_whole, "recovery"),
    Patch("fairseq.checkpoint_utils.verify_checkpoint_directory", saving.begin_alone, "recovery"),
    Patch("fairseq.checkpoint_utils.load_checkpoint", resuming.load_complete_checkpoints, "recovery"),
    Patch("fairseq.checkpoint_utils.save_checkpoint", stopping.note_what_is_saved, "recovery"),
    Patch("fairseq.tasks.FairseqTask.get_batch_iterator", resuming.batch_as_from_the_start, "recovery"),
    *(
        Patch(
            f"fairseq.optim.lr_scheduler.reduce_lr_on_plateau.ReduceLROnPlateauLRSchedule.{name}", wrapper, "recovery"
        )
        for name, wrapper in (("state_dict", resuming.save_plateau), ("load_state_dict", resuming.load_plateau))
    ),
    Patch("fairseq.optim.amp_optimizer.AMPOptimizer.clip_grad_norm", gradients.clip_without_a_scaler, "recovery"),
    Patch("fairseq.nan_detector.NanDetector.add_hooks", gradients.detect_in_any_output, "recovery"),
    Patch("fairseq.trainer.Trainer.clip_grad_norm", gradients.find_nonfinite_gradients, "recovery"),
    Patch("fairseq.trainer.Trainer.train_step", gradients.skip_updates, "recovery"),
    Patch("fairseq.trainer.Trainer._aggregate_logging_outputs", stopping.share_the_signal, "recovery"),
    Patch("fairseq.trainer.Trainer.save_checkpoint", gradients.save_skipped_updates, "recovery"),
    Patch("fairseq.trainer.Trainer.load_checkpoint", resuming.keep_interval_meters, "recovery"),
    Patch("fairseq.trainer.Trainer.load_checkpoint", resuming.step_plateau, "recovery"),
    Patch("fairseq.trainer.Trainer.load_checkpoint", gradients.load_skipped_updates, "recovery"),
    Patch("fairseq.trainer.Trainer.__init__", patch_loaded_commands, "recovery"),
    *(
        Patch(
            f"fairseq.data.iterators.{kind}EpochBatchIterator._get_iterator_for_epoch",
            stopping.keep_workers,
            "recovery",
        )
        for kind in ("", "Grouped", "Streaming")
    ),
    Patch("fairseq.distributed.utils.call_main", saving.unlock_at_the_end, "recovery"),
    Patch("fairseq.distributed.utils.call_main", stopping.pass_signals_on, "recovery"),
    Patch("fairseq.distributed.utils.call_main", stopping.end_well, "recovery"),
    Patch("fairseq_cli.train.train", resuming.train_if_any, "recovery"),
    Patch("fairseq_cli.train.train", stopping.listen_in_training, "recovery"),
    Patch("fairseq_cli.train.validate_and_save", gradients.validate_after_updates_only, "recovery"),
    Patch("fairseq_cli.train.validate_and_save", stopping.stop_after_validation, "recovery"),
)
# What replaces no part of fairseq.
SETTINGS = (
    (fixes.calm_the_root_logger, "fixes"),
    (fixes.allow_checkpoint_classes, "fixes"),
    (fixes.print_input_errors, "fixes"),
    (fixes.ignore_warnings_about_libraries, "fixes"),
    (untrusted.evaluate_no_code, "untrusted"),
)


def apply() -> None:
    """Apply the patches of the chosen groups; a second call changes only commands that were loaded since.

    Raises:
        InputError: ``RNNSEARCH_PATCHES`` names another group, or a target is not in this fairseq.
    """
    groups = chosen_groups()
    for setting, group in SETTINGS:
        if group in groups:
            setting()
    replace_targets()


def chosen_groups() -> set[str]:
    """The groups that ``RNNSEARCH_PATCHES`` names.

    Raises:
        InputError: it names another.
    """
    words = os.environ.get(VARIABLE, "all").split(",")
    if words in (["all"], ["none"]):
        return set(GROUPS) if words == ["all"] else set()
    for word in words:
        if word not in GROUPS:
            raise InputError(f"{VARIABLE}: there is no group {word!r}; give all, none, or some of {','.join(GROUPS)}")
    return set(words)


def replace_targets() -> None:
    """Replace each target once, by all of its wrappers in the order of the table, and none if one is missing."""
    groups = chosen_groups()
    wrappers: dict[str, list[Callable[[Any], Any]]] = {}
    for patch in PATCHES:
        if patch.group in groups:
            wrappers.setdefault(patch.target, []).append(patch.wrapper)
    found = [(*place, target) for target in wrappers for place in _find(target)]
    for owner, name, target in found:
        if (owner, name) in ORIGINALS:
            continue
        original = ORIGINALS[owner, name] = getattr(owner, name)
        setattr(owner, name, functools.reduce(lambda inner, wrapper: wrapper(inner), wrappers[target], original))


def _find(target: str) -> list[tuple[Any, str]]:
    """The modules or classes that have the target, and its name there; none if it belongs to a command not loaded.

    Raises:
        InputError: it is missing.
    """
    path, _, name = target.rpartition(".")
    try:
        if path.startswith("fairseq_cli."):
            started = sys.modules["__main__"]  # by python -m, the command
            is_started = getattr(getattr(started, "__spec__", None), "name", None) == path
            owners = [*([started] if is_started else []), *([sys.modules[path]] if path in sys.modules else [])]
        else:
            owners = [pkgutil.resolve_name(path)]
        for owner in owners:
            getattr(owner, name)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"{target} is not there: this fairseq is another version than the one that the patches were made for; "
            f"install fairseq-fixed 0.12.3.1, or go without the patches by {VARIABLE}=none"
        ) from error
    return [(owner, name) for owner in owners]
