"""What training survives: kills, full disks, damaged checkpoints, dead workers, SIGTERM and Ctrl-C, NaN gradients.

``python -m recipes.fault_injection OUT`` shows it.
"""

from collections.abc import Callable
from typing import Any

from fairseq.trainer import Trainer

from rnnsearch_fairseq.patches.recovery import gradients, resuming, saving, stopping
from rnnsearch_fairseq.patches.wrap import wrap


def guard() -> None:
    """Put every guard in place around fairseq's training; a second call changes nothing."""
    saving.guard()
    resuming.guard()
    gradients.guard()
    stopping.guard()
    _guard_command()


def _guard_command() -> None:
    """Guard the functions of fairseq-train itself when a trainer is made: by then its module is sure to be loaded, in
    spawned processes, under Hydra and from Python, too.
    """

    def make(init: Callable[..., None]) -> Callable[..., None]:
        def init_in_command(self: Trainer, *args: Any, **kwargs: Any) -> None:
            gradients.guard_command()
            resuming.guard_command()
            stopping.guard_command()
            init(self, *args, **kwargs)

        return init_in_command

    wrap(Trainer, "__init__", make)
