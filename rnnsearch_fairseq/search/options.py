"""The options of a search."""

import math
from dataclasses import dataclass, fields

from rnnsearch_fairseq.command_line import MAX_VALUE, check_fields, described, option
from rnnsearch_fairseq.errors import InputError

SEARCHES = ("fairseq", "groundhog", "tree2seq")
MAX_BEAM = 1000
# Options that a search has no use for.
WITHOUT_EFFECT = {
    "fairseq": ("length_statistics",),
    "groundhog": ("max_len_a", "max_len_b", "min_len", "length_statistics"),
    "tree2seq": ("lenpen", "min_len", "unnormalized"),
}


@dataclass(frozen=True)
class SearchOptions:
    """The options of a search, with the names and defaults of fairseq-generate.

    Raises:
        InputError: a value is not possible, or the search has no use for the option.
    """

    search: str = described(
        "fairseq",
        "'fairseq': fairseq's beam search; 'groundhog': that of Bahdanau et al. (2015), in which each finished "
        "hypothesis narrows the beam by one (for Table 1 add --unnormalized, for its column No UNK also --unkpen inf); "
        "'tree2seq': that of Eriguchi et al. (2016), in which finished hypotheses keep their places in the beam and "
        "scores are not normalised",
        choices=SEARCHES,
    )
    beam: int = described(5, "number of hypotheses kept at each step", least=1, most=MAX_BEAM)
    lenpen: float = described(
        1.0, "power of the length by which scores are divided: below 1 favours shorter translations", least=-10, most=10
    )
    unkpen: float = described(0.0, "penalty for each unknown word; inf forbids them", least=-MAX_VALUE, most=math.inf)
    unnormalized: bool = described(False, "do not divide scores by the length")
    max_len_a: float = described(
        0.0, "a in the maximum length a · x + b of a translation, where x is the source's length"
    )
    max_len_b: int = described(200, "b in the maximum length a · x + b")
    min_len: int = described(1, "minimum number of words in a translation")
    length_statistics: str | None = described(
        None,
        "file that python -m recipes.trees.lengths wrote; adds log p(target length | source length) to the score "
        "(tree2seq only)",
    )

    def __post_init__(self) -> None:
        check_fields(self)
        for known in fields(self):
            if known.name in WITHOUT_EFFECT[self.search] and getattr(self, known.name) != known.default:
                name = option(known.name)
                raise InputError(f"{name} has no effect with --search {self.search}; leave one of them out")
