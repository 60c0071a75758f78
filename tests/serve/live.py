"""The server as a process, as a user starts it, and what it takes of memory."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 60  # seconds after which what is waited for is taken not to come


def resident(pid: int) -> int:
    """Bytes of memory that a process holds."""
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@dataclass
class Live:
    """A running server."""

    url: str
    process: subprocess.Popen[str]

    @property
    def resident(self) -> int:
        """Bytes of memory that it holds."""
        return resident(self.process.pid)


@contextlib.contextmanager
def serving(checkpoint: Path, log: Path, *words: str, descriptors: int | None = None) -> Iterator[Live]:
    """``rnnsearch serve`` on a free port and one core; ended by Ctrl-C, with the status 0.

    It may open ``descriptors`` files and connections, or as many as this process.
    """
    command = [sys.executable, "-m", "rnnsearch_fairseq", "serve", "--path", str(checkpoint), "--port", "0", "--cpu"]
    if descriptors is not None:
        command = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *command]
    with log.open("w", encoding="utf-8") as messages:
        process = subprocess.Popen(
            [*command, *words],
            stdout=subprocess.PIPE,
            stderr=messages,
            encoding="utf-8",
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("http://"), log.read_text(encoding="utf-8")
        yield Live(line.split()[0], process)
        assert process.poll() is None, f"the server has stopped:\n{log.read_text(encoding='utf-8')}"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
