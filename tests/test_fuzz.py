"""Every reader on some damaged inputs; ``python -m tests.fuzz`` is the long version."""

import contextlib
import logging
import os
import resource
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rnnsearch_fairseq.errors import InputError
from tests.fuzz.__main__ import inputs, run
from tests.fuzz.attempt import Crash, Outcome, attempt
from tests.fuzz.readers import READERS

pytestmark = pytest.mark.filterwarnings("ignore")

SOME = 200
SLOW = {
    "checkpoint, to translate": 60,
    "checkpoint, to validate": 30,
    "checkpoint, of options alone": 30,
    "text to prepare": 50,
    "GroundHog .npz": 100,
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(before)


@pytest.mark.parametrize("name", READERS)
def test_what_is_damaged_was_good_before(name: str, tmp_path: Path) -> None:
    for number, files in enumerate(READERS[name].seeds()):
        folder = tmp_path / str(number)
        folder.mkdir()
        for file, content in files.items():
            (folder / file).write_bytes(content)
        assert attempt(READERS[name].read, folder, list(files)).why == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_damaged_input_is_read_or_refused(name: str) -> None:
    outcomes = list(run(name, SLOW.get(name, SOME), float("inf"), seed=1))
    crashes = [outcome for outcome in outcomes if not isinstance(outcome, Outcome)]
    assert crashes == []
    if name not in ("typed lines", "trees, of link-parser"):  # which say no in other ways
        assert 0 < sum(outcome.accepted for outcome in outcomes) < len(outcomes), "some are good, and some are not"


def bind_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(path))  # which must be short


SPECIAL = {
    "a pipe": os.mkfifo,
    "/dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a folder": os.mkdir,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a socket": bind_socket,
}
# Texts that are read once may come from a pipe: whoever names one waits for what comes.
READ_ONCE = {
    *[("typed lines", "a"), ("text to tokenise", "a"), ("WMT's SGML", "a.sgm"), ("ASPEC", "train-train-1.txt")],
    *[("scores", "scores.jsonl"), ("scores and their text", "scores.jsonl"), ("length statistics", "lengths")],
    *[("translations", "generated"), ("systems' translations", "generated"), ("training log", "train.log")],
    *[("gold alignments", "gold"), ("gold alignments", "more"), ("dictionary of unknown words", "dictionary")],
}
OF_NO_FILE = ("trees, of link-parser",)  # the test itself reads the file


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """Of time, in a call that waits, and of memory."""

    def stop(number: int, frame: Any) -> None:
        raise TimeoutError("still waiting")

    before, (soft, hard) = signal.signal(signal.SIGALRM, stop), resource.getrlimit(resource.RLIMIT_AS)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    signal.alarm(60)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + (2 << 30), hard))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.parametrize("special", SPECIAL)
@pytest.mark.parametrize("name", [name for name in READERS if name not in OF_NO_FILE])
def test_what_is_no_file_is_refused(name: str, special: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = READERS[name].seeds()[0]
    for number, hostile in enumerate(file for file in READERS[name].hostile if file in files):
        waits = (name, hostile) in READ_ONCE and special in ("a pipe", "/dev/zero")
        is_missing = special.startswith("a link") and hostile.endswith((".idx", ".bin"))  # as fairseq sees it
        if waits or is_missing:
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        for file, content in files.items():
            (folder / file).write_bytes(content)
        (folder / hostile).unlink()
        SPECIAL[special](folder / hostile)
        with limits():
            outcome = attempt(READERS[name].read, folder, [hostile])
        assert not outcome.accepted, hostile


def test_inputs_follow_from_the_seed() -> None:
    some = inputs("text", READERS["text"], 1), inputs("text", READERS["text"], 1), inputs("text", READERS["text"], 2)
    first, again, other = ([next(stream) for _ in range(20)] for stream in some)
    assert first == again != other


def write_outside(folder: Path) -> None:
    (folder.parent / "outside").write_text("x")


def write_half(folder: Path) -> None:
    (folder / ".out.1.partial").write_text("x")
    raise InputError("a.txt: bad; mend it")


def raise_other(folder: Path) -> None:
    raise KeyError("a")


def refuse(message: str) -> None:
    raise InputError(message)


def compute(folder: Path) -> None:
    while True:
        pass


def take_memory(folder: Path) -> None:
    bytearray(1_200 << 20)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("read", "message"),
    [
        (write_outside, "did open"),
        (lambda folder: os.system("true"), "did os.system"),
        (lambda folder: (folder.parent / "made").mkdir(), "did os.mkdir"),
        (lambda folder: (folder.parent / "canary").exists() or open("canary"), "did open|FileNotFoundError"),
        (write_half, "left .out.1.partial"),
        (raise_other, "KeyError"),
        (lambda folder: refuse("bad; mend it"), "no sentence"),
        (lambda folder: refuse("a.txt: bad."), "no sentence"),
        (compute, r"more than 2 seconds"),
        (take_memory, "MB"),
    ],
)
def test_what_a_reader_must_not_do_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Any, message: str
) -> None:
    monkeypatch.setattr("tests.fuzz.attempt.MOST_SECONDS", 2)
    monkeypatch.setattr("tests.fuzz.attempt.MOST_MEGABYTES", 100)
    (tmp_path / "in").mkdir()
    with pytest.raises(Crash, match=message):
        attempt(read, tmp_path / "in", ["a.txt"])


def test_what_a_reader_may_do_is_no_crash(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write: Any = lambda folder: (folder / "out").write_text("x")  # noqa: E731
    assert attempt(write, tmp_path / "in", ["a.txt"]).accepted
    refused = attempt(lambda folder: refuse("a.txt, line 1: bad; mend it"), tmp_path / "in", ["a.txt"])
    assert (refused.accepted, refused.why) == (False, "a.txt, line 1: bad; mend it")
