"""Go on from the newest complete checkpoint, with the same numbers as without the stop."""

import copy
import logging
import os
from collections.abc import Callable
from typing import Any

import fairseq.file_io
import torch
from fairseq.logging import metrics
from fairseq.optim import FP16Optimizer
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.trainer import Trainer
from omegaconf import OmegaConf

from rnnsearch_fairseq.errors import InputError, option
from rnnsearch_fairseq.patches.recovery import stopping
from rnnsearch_fairseq.patches.recovery.integrity import find_damage, find_newest
from rnnsearch_fairseq.patches.recovery.saving import name_last_good

logger = logging.getLogger(__name__)

LAST = "checkpoint_last.pt"  # the default of --restore-file
# The parts of fairseq's configuration whose options are compared with a checkpoint's.
PARTS = ("common", "task", "model", "criterion", "optimizer", "lr_scheduler", "optimization", "dataset")
# The options on which the optimizer's state depends.
OF_STATE = ("optimizer", "criterion", "fp16", "bf16", "amp", "memory_efficient_fp16", "memory_efficient_bf16")
OF_STATE += ("share_decoder_input_output_embed", "share_all_embeddings")


def go_on(load_checkpoint: Callable[..., Any], cfg: Any, trainer: Trainer, **passthrough: Any) -> Any:
    """Load the newest complete checkpoint where the one to load is damaged or missing; from here on, hear signals.

    fairseq ends in a traceback there, or begins anew and overwrites what it has (checkpoint_utils.py:268,
    trainer.py:689). A training that has ended makes no update more; fairseq's makes one (fairseq_cli/train.py:389).

    Raises:
        InputError: none is complete, the checkpoint that was named is not, or its optimizer does not fit.
    """
    rates = trainer.cfg.optimization.lr
    if not all(rate >= 0 for rate in rates):
        raise InputError(f"--lr is {','.join(map(str, rates))}; give at least 0")
    if not trainer.is_fsdp and not fairseq.file_io.PathManager.path_requires_pathmanager(cfg.save_dir):
        cfg, path = _choose_checkpoint(cfg, trainer.checkpoint_suffix)
        if path is not None and os.path.isfile(path):
            _compare_options(path, cfg, trainer)
    state, epoch_itr = load_checkpoint(cfg, trainer, **passthrough)
    if state is not None and not cfg.reset_dataloader and state["train_iterator"].get("iterations_in_epoch") == 0:
        _begin_epoch(state, cfg, trainer)
    updates, most, patience = trainer.get_num_updates(), trainer.cfg.optimization.max_update, stopping.patience()
    if state is not None and updates > 0 and not cfg.reset_meters:
        patience.update(state.get("patience", {}))
    limits = [("max-update", updates, most), ("patience", patience.get("num_runs", 0), cfg.get("patience"))]
    for name, done, limit in limits:
        if isinstance(limit, int) and 0 < limit <= done:
            logger.info(f"nothing to do: {updates} updates are done, and --{name} {limit} allows no more")
            stopping.part()
            raise SystemExit(0)
    stopping.listen()
    return state, epoch_itr


def _begin_epoch(state: dict[str, Any], cfg: Any, trainer: Trainer) -> None:
    """Restore what fairseq forgets between epochs: the mean of the log's interval, and a fall of the learning rate.

    reduce_lr_on_plateau, and halve_on_worse, end an epoch only after its checkpoint is saved.
    """
    if not cfg.reset_meters and "train_inner" in state.get("metrics", {}):
        metrics.load_state_dict({"train_inner": state["metrics"]["train_inner"]})
    resets = cfg.reset_optimizer or cfg.reset_lr_scheduler
    if isinstance(trainer.lr_scheduler, ReduceLROnPlateauLRSchedule) and not resets:
        trainer.lr_step(state["train_iterator"]["epoch"] - 1, state.get("val_loss"))


def _compare_options(path: str, cfg: Any, trainer: Trainer) -> None:
    """Log the options that differ from the checkpoint's; an `InputError` if the optimizer's state is of others."""
    state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    configured = OmegaConf.to_container(trainer.cfg, resolve=True, enum_to_str=True)
    before, now = _options(state.get("cfg") or {}), _options(configured)
    others = {
        name: f"{option(name)} {now[name]} (before: {before[name]})"
        for name in sorted(before.keys() & now.keys())
        if before[name] != now[name]
    }
    if others:
        logger.info(f"the options differ from those of {path}: {', '.join(others.values())}")
    wrong = [others[name] for name in OF_STATE if name in others]
    if wrong and not cfg.reset_optimizer and "last_optimizer_state" in state:
        raise InputError(
            f"{path}: the optimizer's state in it is of other options: {', '.join(wrong)}; give those of before, or "
            "--reset-optimizer"
        )


def _options(cfg: dict[str, Any]) -> dict[str, Any]:
    """The options of a configuration by name; the name of the model, task and so on is an option, too."""
    parts = {part: cfg[part] for part in PARTS if isinstance(cfg.get(part), dict)}
    return {part if name == "_name" else name: value for part in parts for name, value in parts[part].items()}


def keep_float32(state_dict: Callable[..., Any], self: FP16Optimizer) -> dict[str, Any]:
    """Add the float32 parameters to the optimizer's state; fairseq saves rounded ones only (trainer.py:407)."""
    return {**state_dict(self), "float32": [parameter.detach() for parameter in self.fp32_optimizer.params]}


def restore_float32(load: Callable[..., Any], self: FP16Optimizer, state: dict[str, Any], *overrides: Any) -> None:
    """Go on from what `keep_float32` saved; fairseq's own checkpoints lack it."""
    load(self, state, *overrides)
    for parameter, saved in zip(self.fp32_optimizer.params, state.get("float32", ())):
        parameter.data.copy_(saved)


def _choose_checkpoint(cfg: Any, suffix: str) -> tuple[Any, str | None]:
    """fairseq's ``checkpoint`` section, with the newest complete one where need be, and the path to go on from."""
    last = os.path.join(cfg.save_dir, f"checkpoint_last{suffix}.pt")
    option, path = "--restore-file", last
    others = {"--continue-once": cfg.continue_once, "--finetune-from-model": cfg.finetune_from_model}
    if cfg.restore_file != LAST:
        path = cfg.restore_file.replace(".pt", f"{suffix}.pt")
    elif not os.path.exists(last) and any(others.values()):
        option, path = next((option, path) for option, path in others.items() if path)
    damage = None if fairseq.file_io.PathManager.path_requires_pathmanager(path) else find_damage(path)
    if damage is None:
        return cfg, path if option != "--finetune-from-model" else None
    if path != last:
        raise InputError(f"{option} {path} {damage}; name another: {name_last_good(cfg.save_dir)}")
    newest, damaged = find_newest(cfg.save_dir, suffix)
    if newest is None and not damaged:
        return cfg, None
    if newest is None:
        raise InputError(
            f"{last} {damage}, and no other checkpoint in {cfg.save_dir} is complete; put one back from a copy, or "
            "give another --save-dir to begin anew"
        )
    said = "".join(f"; {path.name} {find_damage(path)}" for path in damaged if str(path) != last)
    logger.warning(f"{last} {damage}{said}; training goes on from {newest}, the newest complete checkpoint")
    cfg = copy.deepcopy(cfg)
    cfg.restore_file = str(newest).removesuffix(f"{suffix}.pt") + ".pt"  # fairseq adds the suffix again
    cfg.finetune_from_model = None
    return cfg, str(newest)
