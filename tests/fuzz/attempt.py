"""Read one input, and check that the reader does nothing forbidden."""

import contextlib
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from rnnsearch_fairseq.errors import InputError

MOST_SECONDS = 20
MOST_MEGABYTES = 1500  # beyond the earlier peak; torch needs some itself
LONGEST_SENTENCE = 1000

# Audit events of the interpreter (PEP 578).
ACTIONS = ("os.", "subprocess.", "shutil.", "socket.connect", "socket.bind", "ctypes.dlopen", "webbrowser.", "ftplib.")
HARMLESS = (
    "os.scandir",
    "os.listdir",
    "os.walk",
    "os.fwalk",
    "os.putenv",
    "os.unsetenv",
    "os.getxattr",
    "os.listxattr",
)
GPU_LIBRARY = "libnvidia-ml.so.1"  # PyTorch builds with CUDA load it to look for a GPU
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Crash(Exception):
    """A reader did something forbidden."""


class _TooSlow(BaseException):
    pass


class Outcome(NamedTuple):
    """Whether an input was accepted; if not, why; CPU seconds; and megabytes beyond the earlier peak."""

    accepted: bool
    why: str
    seconds: float
    megabytes: float


class _Watch:
    """Records actions outside a folder inside the ``looking`` context."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.seen: list[str] = []
        self._listening = False

    @contextlib.contextmanager
    def looking(self, folder: Path) -> Iterator[None]:
        if not self._listening:
            sys.addaudithook(self._hear)
            self._listening = True
        self.folder, self.seen = folder, []
        try:
            yield
        finally:
            self.folder = None

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None or not event.startswith((*ACTIONS, "open")) or event in HARMLESS:
            return
        if (event, arguments) == ("ctypes.dlopen", (GPU_LIBRARY,)):
            return
        if event == "open":
            path, mode, flags = arguments
            writes = bool((flags or 0) & WRITES) if mode is None else any(letter in str(mode) for letter in "wax+")
            if isinstance(path, int) or path == os.devnull or not (writes or "canary" in str(path)):
                return
            paths = [path]
        else:
            paths = [argument for argument in arguments if isinstance(argument, (str, bytes, os.PathLike))]
        if event.startswith(("subprocess", "socket")) or not paths or any(not self._inside(path) for path in paths):
            self.seen.append(f"{event} {arguments}"[:300])

    def _inside(self, path: Any) -> bool:
        assert self.folder is not None
        return os.path.realpath(os.fsdecode(path)).startswith(os.path.realpath(self.folder))


WATCH = _Watch()


@contextlib.contextmanager
def _limited_time() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def attempt(read: Callable[[Path], None], folder: Path, names: list[str]) -> Outcome:
    """Read the files ``names`` in ``folder``.

    Raises:
        Crash: an error other than a sentence that names one of them, an action outside the folder, a partial file left
            in it, or too much time or memory.
    """
    peak, began, why = _peak(), time.process_time(), ""
    with WATCH.looking(folder):
        try:
            with _limited_time():
                read(folder)
        except InputError as error:
            why = str(error)
        except _TooSlow:
            raise Crash(f"more than {MOST_SECONDS} seconds") from None
        except Exception as error:
            raise Crash(f"{type(error).__name__}: {error}"[:300]) from error
    seconds, megabytes = time.process_time() - began, _peak() - peak
    if WATCH.seen:
        raise Crash(f"did {WATCH.seen[0]}")
    if why and not is_sentence(why, names):
        raise Crash(f"no sentence that names a file: {why[:300]!r}")
    if megabytes > MOST_MEGABYTES:
        raise Crash(f"{megabytes:,.0f} MB")
    if left := [path.name for path in folder.rglob("*") if path.name.endswith((".partial", ".tmp"))]:
        raise Crash(f"left {left[0]}")
    return Outcome(not why, why, seconds, megabytes)


def is_sentence(text: str, names: list[str]) -> bool:
    """Whether a message is one line of a decent length that names a file and does not end in a full stop."""
    # fairseq names the two files of binarized data by their common stem.
    stems = "|".join(re.escape(Path(name).stem) for name in names)
    named = any(name in text for name in names) or re.search(rf"(?<!\w)({stems})(?!\w)", text)
    return bool(named) and text.isprintable() and len(text) <= LONGEST_SENTENCE and not text.endswith(".")


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
