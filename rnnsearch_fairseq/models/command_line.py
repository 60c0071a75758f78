"""What this package changes in a parsed command line of fairseq, once ``--arch`` names one of its architectures."""

import argparse
import atexit
import os
import sys

import torch


def complete_options(args: argparse.Namespace) -> None:
    """Undo that --bf16 sets --tpu (options.py:201), and let the processes of torchrun train together on CPUs."""
    args.tpu = "--tpu" in sys.argv
    has_gpu = torch.cuda.is_available() and not getattr(args, "cpu", False)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1 and not has_gpu and args.distributed_init_method is None:
        join_cpu_processes(args)


def join_cpu_processes(args: argparse.Namespace) -> None:
    """Read what torchrun says; fairseq divides by the number of GPUs there (distributed/utils.py:91)."""
    args.distributed_init_method = "env://"
    args.distributed_world_size = int(os.environ["WORLD_SIZE"])
    args.distributed_rank = int(os.environ["RANK"])
    args.distributed_no_spawn = True
    args.distributed_backend, args.ddp_backend = "gloo", "legacy_ddp"
    # The threads of a group that is still open may abort Python at its end.
    atexit.register(lambda: torch.distributed.is_initialized() and torch.distributed.destroy_process_group())
