"""fairseq-train that gets a signal: ``python -m tests.plugin.stopped STOP WORDS...``; STOP is JSON, for `stop`."""

import errno
import json
import os
import subprocess
import sys
from typing import Any

import torch
from fairseq.trainer import Trainer
from fairseq_cli.train import cli_main


def stop(update: int, number: int, everyone: bool = False, times: int = 1, saving: bool = False) -> None:
    """Send a signal after an update, or when half of its checkpoint is saved, to this process or to its whole group.

    After the signal 0, which does nothing, the disk is full.
    """
    train_step, save = Trainer.train_step, torch.save

    def step(trainer: Trainer, *args: Any, **kwargs: Any) -> Any:
        output = train_step(trainer, *args, **kwargs)
        if trainer.get_num_updates() == update:
            for _ in range(times):
                if everyone:  # another process, as timeout or a terminal, signals the workers, too
                    subprocess.run(["sh", "-c", f"kill -{number} 0"], check=False)
                else:
                    os.kill(os.getpid(), number)
        return output

    def save_half(state: Any, file: Any) -> None:
        save(state, file)
        if state["optimizer_history"][-1]["num_updates"] == update:
            file.truncate(file.tell() // 2)
            os.kill(os.getpid(), number)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # the number is 0

    if saving:
        torch.save = save_half
    else:
        Trainer.train_step = step


if __name__ == "__main__":
    stop(**json.loads(sys.argv.pop(1)))
    cli_main()
