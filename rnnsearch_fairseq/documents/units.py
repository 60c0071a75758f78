"""What the readers of documents have in common."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """What is translated at a time: a message of PO or TS, a ``<trans-unit>``, ``<segment>`` or ``<mrk>`` of XLIFF."""

    name: str  # tells a reader where it is
    sources: list[str]  # its text, or its singular and its plural
    targets: list[str]  # its translations, empty where there are none
    finished: bool  # they are not marked as fuzzy or as in need of translation or review
    fill: Callable[[Sequence[str]], list[str]]  # write translations, marked for review; return what they do not keep
    has_format: bool = False  # it is marked as a format of a program, such as c-format
