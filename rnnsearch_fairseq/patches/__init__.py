"""All that this package changes in fairseq, in one table; ``RNNSEARCH_PATCHES`` chooses groups from it.

The variable is ``all`` (the default), ``none``, or some of the groups with commas between them. Importing a command of
fairseq configures logging, so a command's functions are replaced only where its module is already loaded.
"""

import os
import pkgutil
import sys
from collections.abc import Callable
from typing import Any

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.patches import fixes, progress, speed, untrusted
from rnnsearch_fairseq.patches.around import Original, around
from rnnsearch_fairseq.patches.recovery import gradients, resuming, saving, stopping

VARIABLE = "RNNSEARCH_PATCHES"
Wrapper = Callable[[Any], Any]

# What was in the place of each replacement, by its module or class and its name there.
ORIGINALS: dict[tuple[Any, str], Any] = {}


@around
def patch_loaded_commands(init: Original, *args: Any, **kwargs: Any) -> None:
    """Spawned processes and Python callers load a command after this package; now the trainer has it patched."""
    replace_targets()
    init(*args, **kwargs)


# By group: the dotted name of each target, and its wrapper, a function of the target that returns the replacement.
# Several wrappers of one target are applied in this order, so the last one is the outermost. The first line of a
# wrapper's docstring says what fairseq does, and what it does now.
PATCHES: dict[str, tuple[tuple[str, Wrapper], ...]] = {
    "fixes": (
        ("fairseq.data.data_utils.batch_by_size", fixes.keep_every_sentence),
        ("fairseq.data.Dictionary.encode_line", fixes.read_symbols_as_unknown_words),
        ("fairseq.options.parse_args_and_arch", fixes.keep_bf16_off_the_tpu),
        ("fairseq.options.parse_args_and_arch", fixes.list_every_option_in_help),
        ("fairseq.trainer.Trainer.__init__", fixes.check_precision_on_a_cpu),
        ("fairseq.trainer._catalog_shared_params", fixes.report_only_shared_parameters),
        ("fairseq.checkpoint_utils.load_checkpoint", fixes.keep_preparation),
        ("fairseq.distributed.utils.call_main", fixes.set_up_processes),
        ("fairseq.tasks.setup_task", fixes.explain_missing_data),
        ("fairseq.tasks.translation.load_langpair_dataset", fixes.explain_missing_split),
        ("fairseq.tasks.translation.TranslationTask.inference_step", fixes.answer_blank_lines),
        ("fairseq.tasks.FairseqTask.build_tokenizer", fixes.build_preparation),
        ("fairseq.sequence_scorer.SequenceScorer.generate", fixes.align_references_softly),
        ("fairseq.utils.load_align_dict", fixes.read_no_dictionary_unless_named),
        ("fairseq.utils.replace_unk", fixes.replace_unknown_words),
        ("fairseq_cli.preprocess.main", fixes.check_before_preprocessing),
        ("fairseq_cli.generate.main", fixes.want_raw_data_for_unknown_words),
        ("fairseq_cli.interactive.main", fixes.print_soft_alignments),
        ("fairseq_cli.interactive.main", fixes.prepare_typed_lines),
        ("fairseq_cli.interactive.make_batches", fixes.remember_typed_words),
        ("fairseq_cli.hydra_train._hydra_main", fixes.explain_under_hydra),
    ),
    "untrusted": (
        ("fairseq.checkpoint_utils.load_checkpoint_to_cpu", untrusted.check_checkpoints),
        ("fairseq.checkpoint_utils.torch", untrusted.load_no_code),
        ("fairseq.checkpoint_utils.load_model_ensemble_and_task", untrusted.explain_models_that_do_not_fit),
        ("fairseq.tasks.setup_task", untrusted.check_task),
        ("fairseq.models.build_model", untrusted.try_model),
        ("fairseq.criterions.build_criterion", untrusted.check_criterion),
        ("fairseq.trainer.Trainer.load_checkpoint", untrusted.explain_training_that_does_not_fit),
        ("fairseq.data.indexed_dataset.infer_dataset_impl", untrusted.refuse_pipes),
        ("fairseq.data.indexed_dataset.make_dataset", untrusted.check_data),
        ("fairseq.data.Dictionary.add_from_file", untrusted.number_bad_lines),
        ("fairseq_cli.interactive.buffered_read", untrusted.read_every_line),
        ("fairseq_cli.interactive.make_batches", untrusted.pass_over_bad_lines),
    ),
    "recovery": (
        ("fairseq.checkpoint_utils.torch_persistent_save", saving.save_whole),
        ("fairseq.file_io.PathManager.copy", saving.copy_whole),
        ("fairseq.checkpoint_utils.verify_checkpoint_directory", saving.begin_alone),
        ("fairseq.checkpoint_utils.load_checkpoint", resuming.load_complete_checkpoints),
        ("fairseq.checkpoint_utils.save_checkpoint", stopping.note_what_is_saved),
        ("fairseq.tasks.FairseqTask.get_batch_iterator", resuming.batch_as_from_the_start),
        (f"{resuming.PLATEAU}.state_dict", resuming.save_plateau),
        (f"{resuming.PLATEAU}.load_state_dict", resuming.load_plateau),
        ("fairseq.optim.amp_optimizer.AMPOptimizer.clip_grad_norm", gradients.clip_without_a_scaler),
        ("fairseq.trainer.Trainer.__init__", patch_loaded_commands),
        ("fairseq.trainer.Trainer.clip_grad_norm", gradients.find_nonfinite_gradients),
        ("fairseq.trainer.Trainer._check_grad_norms", gradients.end_by_inconsistent_gradients),
        ("fairseq.trainer.Trainer.train_step", gradients.skip_updates),
        ("fairseq.trainer.Trainer._aggregate_logging_outputs", stopping.share_the_signal),
        ("fairseq.trainer.Trainer.save_checkpoint", resuming.save_counts),
        ("fairseq.trainer.Trainer.load_checkpoint", resuming.restore_what_fairseq_forgets),
        ("fairseq.data.iterators.EpochBatchIterator._get_iterator_for_epoch", stopping.keep_workers),
        ("fairseq.data.iterators.GroupedEpochBatchIterator._get_iterator_for_epoch", stopping.keep_workers),
        ("fairseq.data.iterators.StreamingEpochBatchIterator._get_iterator_for_epoch", stopping.keep_workers),
        ("fairseq.distributed.utils.call_main", stopping.end_well),
        ("fairseq_cli.train.train", resuming.train_if_any),
        ("fairseq_cli.train.train", stopping.listen_in_training),
        ("fairseq_cli.train.validate_and_save", gradients.validate_after_updates_only),
        ("fairseq_cli.train.validate_and_save", stopping.stop_after_validation),
    ),
    "speed": (
        (
            "fairseq.criterions.label_smoothed_cross_entropy.LabelSmoothedCrossEntropyCriterion.forward",
            speed.keep_scores_once,
        ),
    ),
    "progress": (("fairseq.logging.progress_bar.progress_bar", progress.write_lines_for_people),),
}
# Functions to call that replace no part of fairseq.
SETTINGS: dict[str, tuple[Callable[[], None], ...]] = {
    "fixes": (
        fixes.calm_the_root_logger,
        fixes.allow_checkpoint_classes,
        fixes.print_input_errors,
        fixes.ignore_warnings_about_libraries,
    ),
    "untrusted": (untrusted.evaluate_no_code,),
}


def apply() -> None:
    """Apply the patches of the chosen groups; a second call changes only commands that were loaded since.

    Raises:
        InputError: ``RNNSEARCH_PATCHES`` names another group, or a target is not in this fairseq.
    """
    for group in chosen_groups():
        for setting in SETTINGS.get(group, ()):
            setting()
    replace_targets()


def chosen_groups() -> list[str]:
    """The groups that ``RNNSEARCH_PATCHES`` names, in the order of the table.

    Raises:
        InputError: it names another.
    """
    words = os.environ.get(VARIABLE, "all").split(",")
    if words in (["all"], ["none"]):
        return list(PATCHES) if words == ["all"] else []
    for word in words:
        if word not in PATCHES:
            raise InputError(f"{VARIABLE}: there is no group {word!r}; give all, none, or some of {','.join(PATCHES)}")
    return [group for group in PATCHES if group in words]


def replace_targets() -> None:
    """Replace each target once, by all of its wrappers.

    Raises:
        InputError: a target is missing; then none is replaced.
    """
    wrappers: dict[str, list[Wrapper]] = {}
    for group in chosen_groups():
        for target, wrapper in PATCHES[group]:
            wrappers.setdefault(target, []).append(wrapper)
    found = [(owner, name, wrappers[target]) for target in wrappers for owner, name in _find(target)]
    for owner, name, chosen in found:
        if (owner, name) not in ORIGINALS:
            ORIGINALS[owner, name] = replacement = getattr(owner, name)
            for wrapper in chosen:
                replacement = wrapper(replacement)
            setattr(owner, name, replacement)


def _find(target: str) -> list[tuple[Any, str]]:
    """The modules or classes that have the target, and its name there; none if it belongs to a command not loaded."""
    path, _, name = target.rpartition(".")
    try:
        if path.startswith("fairseq_cli."):
            owners = [module for module in (sys.modules["__main__"], sys.modules.get(path)) if _is_module(module, path)]
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


def _is_module(module: Any, path: str) -> bool:
    """Whether this is the module ``path``; a command that ``python -m`` started has the name ``__main__``."""
    spec = getattr(module, "__spec__", None)
    return path in (getattr(module, "__name__", None), getattr(spec, "name", None))
