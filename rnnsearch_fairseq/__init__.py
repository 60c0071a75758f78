"""Attentional recurrent translation for fairseq: importing the package registers all of it, and does nothing else.

fairseq imports it through ``--user-dir rnnsearch_fairseq``; ``python -m rnnsearch_fairseq`` prints the path to give.
"""

from rnnsearch_fairseq import compat, faults, strangers

compat.apply()
strangers.guard()  # after compat, which remembers the typed lines that these guards let pass
faults.guard()

from rnnsearch_fairseq.criterions import blackout, summed_nll  # noqa: E402, F401
from rnnsearch_fairseq.models import rnnsearch, tree2seq  # noqa: E402, F401
from rnnsearch_fairseq.optim import adadelta  # noqa: E402, F401
from rnnsearch_fairseq.search import options  # noqa: E402, F401
from rnnsearch_fairseq.tasks import pooled_translation, tree_translation  # noqa: E402, F401

__version__ = "0.2.0"
