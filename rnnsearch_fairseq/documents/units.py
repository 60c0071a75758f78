"""What the readers of documents have in common."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    """What is translated at a time: a message of PO or TS, a ``<trans-unit>``, ``<segment>`` or ``<mrk>`` of XLIFF.

    ``name`` tells a reader where it is. ``sources`` are its text, or the singular and the plural of a message with
    plural forms. ``targets`` are its translations, empty where there are none, and ``finished`` unless they are marked
    as fuzzy or as in need of translation or review. ``fill`` puts translations of the ``sources`` into the document,
    marked for review, and returns what they could not keep there.
    """

    name: str
    sources: list[str]
    targets: list[str]
    finished: bool
    fill: Callable[[Sequence[str]], list[str]]
