"""Attentional recurrent translation: ``load`` gives a translator; fairseq trains the models.

    model = rnnsearch_fairseq.load("recipes/docs_en_fr/model")
    model.translate(["Return the list of files."])
    model.align("Return the list of files.")  # words, ln p of each, and the attention

``help(rnnsearch_fairseq.load)`` and ``help(model)`` say more. fairseq imports this package through ``--user-dir``
(``rnnsearch user-dir`` prints the path) to know its models.
"""

import os
import sys
from typing import Any

from rnnsearch_fairseq.version import __version__

# PyTorch's idle threads spin by default; next to another busy program, everything then takes several times as long.
# PyTorch reads this when it is imported.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
__all__ = ["__version__", "load", "register"]


def register() -> None:
    """Patch fairseq, and register models, criterions, the task and optimizers; a second call changes nothing."""
    from rnnsearch_fairseq.plugin import patches

    patches.apply()

    from rnnsearch_fairseq.plugin import criterions, models, optim, tasks  # noqa: F401


def __getattr__(name: str) -> Any:
    if name == "load":
        from rnnsearch_fairseq.inference.translator import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


if "fairseq" in sys.modules:
    register()
