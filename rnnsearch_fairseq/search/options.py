"""The options of a search."""

import math
from dataclasses import dataclass, fields

from rnnsearch_fairseq.command_line import option
from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.modules.config import described

SEARCHES = ("fairseq", "groundhog", "tree2seq")
# Options that a search has no use for.
WITHOUT_EFFECT = {
    "fairseq": ("length_statistics",),
    "groundhog": ("max_len_a", "max_len_b", "min_len", "length_statistics"),
    "tree2seq": ("lenpen", "min_len", "unnormalized"),
}
MAX_VALUE = 1_000_000
# The bounds of the options that are numbers, where they are not 0 and MAX_VALUE.
BOUNDS = {"beam": (1, 1000), "unkpen": (-MAX_VALUE, math.inf), "lenpen": (-10, 10)}


@dataclass(frozen=True)
class SearchOptions:
    """The options of a search, with the names and defaults of fairseq-generate.

    Raises:
        InputError: a value is not possible, or the search has no use for the option.
    """

    search: str = described(
        "fairseq",
        "'fairseq': fairseq's beam search; 'groundhog': the first paper's, where each finished hypothesis shrinks the "
        "beam by one (Table 1: add --unnormalized; its No-UNK column: also --unkpen inf); 'tree2seq': the second "
        "paper's, in which finished hypotheses keep their places in the beam and scores are not normalised",
        choices=SEARCHES,
    )
    beam: int = described(5, "hypotheses that are continued in each step")
    lenpen: float = described(
        1.0, "power of the length by which scores are divided: below 1 favours shorter translations"
    )
    unkpen: float = described(0.0, "penalty for an unknown word; inf forbids them")
    unnormalized: bool = described(False, "do not divide scores by the length")
    max_len_a: float = described(
        0.0, "translations have at most a · x + b words, x being the source's length; this is a"
    )
    max_len_b: int = described(200, "b in the limit of the length")
    min_len: int = described(1, "words that a translation has at least")
    length_statistics: str | None = described(
        None,
        "file that python -m recipes.trees.lengths wrote; adds log p(target length | source length) to the score "
        "(tree2seq only)",
    )

    def __post_init__(self) -> None:
        if self.search not in SEARCHES:
            raise InputError(f"there is no search {quote(repr(self.search))}; choose one of {', '.join(SEARCHES)}")
        for field in fields(self):
            name, value = option(field.name), getattr(self, field.name)
            if field.type in (int, float):
                least, most = BOUNDS.get(field.name, (0, MAX_VALUE))
                if isinstance(value, bool) or not isinstance(value, (int, field.type)) or not least <= value <= most:
                    raise InputError(f"{name} is {quote(repr(value))}; give a number from {least:,} to {most:,}")
            elif not isinstance(value, field.type):
                kind = "true or false" if field.type is bool else "text"
                raise InputError(f"{name} cannot be {quote(repr(value))}: give {kind}")
            if field.name in WITHOUT_EFFECT[self.search] and value != field.default:
                raise InputError(f"{name} has no effect with --search {self.search}; leave one of them out")
