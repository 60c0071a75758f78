"""What this package changes in a parsed command line of fairseq, once ``--arch`` names one of its architectures."""

import argparse
import atexit
import logging
import os
import sys

import torch

logger = logging.getLogger(__name__)

# Section 4.2 and Appendix B.2 of Bahdanau et al.: for each option, the default of fairseq and the value of the paper.
PAPER_TRAINING = {
    "optimizer": (None, "adadelta"),
    "criterion": ("cross_entropy", "summed_nll"),
    "lr": ([0.25], [1.0]),
    "clip_norm": (0.0, 1.0),
}


def complete_options(args: argparse.Namespace, model: str) -> None:
    """Undo that --bf16 sets --tpu (options.py:201), and let the processes of torchrun train together on CPUs.

    RNNsearch without ``--optimizer``, which fairseq would refuse, is trained as in the paper.
    """
    args.tpu = "--tpu" in sys.argv
    if model == "rnnsearch" and getattr(args, "optimizer", "") is None:
        choose_paper_training(args)
    has_gpu = torch.cuda.is_available() and not getattr(args, "cpu", False)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1 and not has_gpu and args.distributed_init_method is None:
        join_cpu_processes(args)


def choose_paper_training(args: argparse.Namespace) -> None:
    """Set the options of ``PAPER_TRAINING`` that are not given, and 80 pairs an update where no size is given."""
    chosen = {name: paper for name, (default, paper) in PAPER_TRAINING.items() if getattr(args, name) == default}
    if args.batch_size is None and args.max_tokens is None:
        chosen |= {"batch_size": 80, "batch_size_valid": 80}
    vars(args).update(chosen)
    logger.warning(
        f"no --optimizer is given: trained as in the paper, {chosen}; --task rnnsearch --pool-batches 20 "
        "--max-words 50 gives its batches, too"
    )


def join_cpu_processes(args: argparse.Namespace) -> None:
    """Read what torchrun says; fairseq divides by the number of GPUs there (distributed/utils.py:91)."""
    args.distributed_init_method = "env://"
    args.distributed_world_size = int(os.environ["WORLD_SIZE"])
    args.distributed_rank = int(os.environ["RANK"])
    args.distributed_no_spawn = True
    args.distributed_backend, args.ddp_backend = "gloo", "legacy_ddp"
    # The threads of a group that is still open may abort Python at its end.
    atexit.register(lambda: torch.distributed.is_initialized() and torch.distributed.destroy_process_group())
