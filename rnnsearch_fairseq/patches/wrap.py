"""Replace a function of fairseq's by one that calls it: how the cures and guards of this package are put in place."""

import functools
import sys
from collections.abc import Callable
from typing import Any


def wrap(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace the attribute by what `make` returns for it: once, and only if it is there."""
    original = getattr(owner, name, None)
    cures = getattr(original, "_cures", ())
    cure = f"{make.__module__}.{make.__qualname__}"
    if original is None or cure in cures:
        return
    wrapper = functools.wraps(original)(make(original))
    wrapper._cures = (*cures, cure)  # type: ignore[attr-defined]
    setattr(owner, name, wrapper)


def wrap_in_command(module: str, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """`wrap` in the module of a fairseq command, under its own name or, by ``python -m``, as the main module.

    Importing such a module would configure logging; where it is not loaded, the command is not under way.
    """
    if module in sys.modules:
        wrap(sys.modules[module], name, make)
    started = sys.modules["__main__"]
    if getattr(getattr(started, "__spec__", None), "name", None) == module:
        wrap(started, name, make)
