"""Three beam searches over one small interface: fairseq's default one, GroundHog's and tree2seq's; without fairseq.

May import errors and modules.
"""

from rnnsearch_fairseq.search.beam import FairseqSearch
from rnnsearch_fairseq.search.groundhog import GroundhogSearch
from rnnsearch_fairseq.search.interface import Hypothesis, OnStep, SearchModel
from rnnsearch_fairseq.search.models import mean_attention, search_model
from rnnsearch_fairseq.search.options import SearchOptions
from rnnsearch_fairseq.search.steps import BeamSearch
from rnnsearch_fairseq.search.tree2seq import Tree2SeqSearch

__all__ = ["BeamSearch", "Hypothesis", "OnStep", "SearchModel", "SearchOptions"]
__all__ += ["make_search", "mean_attention", "search_model"]

_SEARCHES = {"fairseq": FairseqSearch, "groundhog": GroundhogSearch, "tree2seq": Tree2SeqSearch}


def make_search(options: SearchOptions) -> BeamSearch:
    """The search that the options describe."""
    return _SEARCHES[options.search](options)
