"""How a patch is written: as a function of the original function and of its arguments."""

import functools
from collections.abc import Callable
from typing import Any

Original = Callable[..., Any]


def around(replacement: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]:
    """Turn ``replacement(original, ...)`` into a function that gets the original, and returns what replaces it."""

    @functools.wraps(replacement)
    def wrapper(original: Any) -> Callable[..., Any]:
        @functools.wraps(original)
        def replaced(*args: Any, **kwargs: Any) -> Any:
            return replacement(original, *args, **kwargs)

        return replaced

    return wrapper
