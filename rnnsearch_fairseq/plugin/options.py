"""Changes to a parsed command line of fairseq whose ``--arch`` is an architecture of this package."""

import argparse
import atexit
import logging
import os
import sys

import torch

logger = logging.getLogger(__name__)

# For each option, fairseq's default and the value of the paper (Bahdanau et al., Section 4.2 and Appendix B.2).
PAPER_TRAINING = {
    "optimizer": (None, "adadelta"),
    "criterion": ("cross_entropy", "summed_nll"),
    "lr": ([0.25], [1.0]),
    "clip_norm": (0.0, 1.0),
}


def complete_options(args: argparse.Namespace, model: str) -> None:
    """Unset --tpu, which --bf16 sets (options.py:201), and let the processes of torchrun train together on CPUs.

    fairseq refuses a command without ``--optimizer``; RNNsearch is then trained as in the paper.
    """
    args.tpu = "--tpu" in sys.argv
    if model == "rnnsearch" and getattr(args, "optimizer", "") is None:
        choose_paper_training(args)
    has_gpu = torch.cuda.is_available() and not getattr(args, "cpu", False)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1 and not has_gpu and args.distributed_init_method is None:
        join_cpu_processes(args)


def choose_paper_training(args: argparse.Namespace) -> None:
    """Give options that still have fairseq's defaults the values of ``PAPER_TRAINING``, and 80 pairs an update."""
    chosen = {name: paper for name, (default, paper) in PAPER_TRAINING.items() if getattr(args, name) == default}
    if args.batch_size is None and args.max_tokens is None:
        chosen |= {"batch_size": 80, "batch_size_valid": 80}
    vars(args).update(chosen)
    logger.warning(
        f"there is no --optimizer, so the model is trained as in the paper, {chosen}; --task rnnsearch --pool-batches "
        "20 --max-words 50 also gives the paper's batches"
    )


def join_cpu_processes(args: argparse.Namespace) -> None:
    """Read torchrun's variables, since fairseq would divide by the number of GPUs, 0 (distributed/utils.py:91)."""
    args.distributed_init_method = "env://"
    args.distributed_world_size = int(os.environ["WORLD_SIZE"])
    args.distributed_rank = int(os.environ["RANK"])
    args.distributed_no_spawn = True
    args.distributed_backend, args.ddp_backend = "gloo", "legacy_ddp"
    # The threads of an open group may abort Python when it ends.
    atexit.register(lambda: torch.distributed.is_initialized() and torch.distributed.destroy_process_group())
