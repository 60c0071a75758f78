"""Three beam searches over one small interface: fairseq's default search, GroundHog's and tree2seq's."""

from functools import partial
from pathlib import Path

from rnnsearch_fairseq.search.beam import FairseqBeam
from rnnsearch_fairseq.search.groundhog import GroundhogBeam, GroundhogSearch
from rnnsearch_fairseq.search.length_statistics import LengthStatistics
from rnnsearch_fairseq.search.models import SearchModel, mean_attention, select_rows
from rnnsearch_fairseq.search.options import MAX_BEAM, SearchOptions
from rnnsearch_fairseq.search.steps import BeamSearch, Hypothesis, OnStep
from rnnsearch_fairseq.search.tree2seq import Tree2SeqBeam

__all__ = ["MAX_BEAM", "BeamSearch", "Hypothesis", "OnStep", "SearchModel", "SearchOptions"]
__all__ += ["make_search", "mean_attention", "select_rows"]


def make_search(options: SearchOptions) -> BeamSearch:
    if options.search == "groundhog":
        return GroundhogSearch(options, GroundhogBeam)
    if options.search == "fairseq":
        return BeamSearch(options, FairseqBeam)
    path = options.length_statistics
    statistics = None if path is None else LengthStatistics.read(Path(path))
    return BeamSearch(options, partial(Tree2SeqBeam, statistics=statistics))
