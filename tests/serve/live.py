"""The server as a process, as a user starts it."""

import contextlib
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

PATIENCE = 60  # seconds after which what is waited for is taken not to come


@dataclass
class Live:
    """A running server."""

    url: str
    process: subprocess.Popen[str]
    ended: bool = False

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        place = urlsplit(self.url)
        return str(place.hostname), int(place.port)


@contextlib.contextmanager
def serving(model: Path, log: Path, *words: str, python: Path | None = None) -> Iterator[Live]:
    """``rnnsearch serve`` on a free port, ended by Ctrl-C, with the status 0, or by a test."""
    program = [python or shutil.which("python"), "-m", "rnnsearch_fairseq", "serve"]
    command = [*map(str, program), "--model", str(model), "--port", "0", *words]
    with log.open("w", encoding="utf-8") as messages:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=messages, encoding="utf-8")
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("http://"), log.read_text(encoding="utf-8")
        running = Live(line.split()[0], process)
        yield running
        if not running.ended:
            assert process.poll() is None, f"the server has stopped:\n{log.read_text(encoding='utf-8')}"
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
