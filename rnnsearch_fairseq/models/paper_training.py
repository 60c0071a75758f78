"""The paper's training settings for a command line without ``--optimizer``, which fairseq would refuse."""

import argparse
import logging
from typing import Any

logger = logging.getLogger(__name__)


def choose_training(args: argparse.Namespace) -> None:
    """Choose the paper's training settings if the command line has no ``--optimizer``.

    An option with fairseq's default value counts as not given; all others keep their values. The choice is logged, with
    the paper's settings that are missing.
    """
    if getattr(args, "optimizer", "") is not None:
        return
    fairseq_and_paper = {"lr": ([0.25], [1.0]), "clip_norm": (0.0, 1.0), "criterion": ("cross_entropy", "summed_nll")}
    paper_settings: dict[str, Any] = {"optimizer": "adadelta"}
    paper_settings |= {
        name: paper for name, (default, paper) in fairseq_and_paper.items() if getattr(args, name) == default
    }
    if args.batch_size is None and args.max_tokens is None:
        paper_settings |= {"batch_size": 80, "batch_size_valid": args.batch_size_valid or 80}
    vars(args).update(paper_settings)
    paper = {"pool_batches": "pools of 20 batches", "max_words": "a length limit"}
    missing = " and ".join(words for name, words in paper.items() if getattr(args, name, None) is None)
    but = f", but without {missing}; give --task rnnsearch --pool-batches 20 --max-words 50" if missing else ""
    logger.warning("no --optimizer is given: training as in the paper, %s%s", paper_settings, but)
