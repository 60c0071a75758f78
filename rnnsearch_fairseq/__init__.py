"""Attentional recurrent translation for fairseq; importing the package registers its models and patches fairseq.

fairseq imports it through ``--user-dir rnnsearch_fairseq``; ``rnnsearch user-dir`` prints that path.
"""

import sys
from pathlib import Path

__version__ = "0.2.0"


def register() -> None:
    """Patch fairseq, and register models, criterions, tasks, optimizer and searches; a second call changes nothing."""
    from rnnsearch_fairseq import patches

    patches.apply()

    from rnnsearch_fairseq.criterions import blackout, rdrop, summed_nll  # noqa: F401
    from rnnsearch_fairseq.inference import hub  # noqa: F401  (attaches from_pretrained to the models)
    from rnnsearch_fairseq.models import rnnsearch, tree2seq  # noqa: F401
    from rnnsearch_fairseq.optim import adadelta, halve_on_worse  # noqa: F401
    from rnnsearch_fairseq.tasks import pooled_translation, tree_translation  # noqa: F401


def _is_own_command() -> bool:
    """Whether this process is the command ``rnnsearch``, or ``python -m rnnsearch_fairseq``."""
    return Path(sys.argv[0]).name == "rnnsearch" or (sys.argv[0] == "-m" and __name__ in sys.orig_argv)


# PyTorch and fairseq take seconds to import, and --help needs neither, so the command registers only for subcommands.
if not _is_own_command():
    register()
