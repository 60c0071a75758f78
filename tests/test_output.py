"""Outputs: complete or absent, whatever their names are and whatever ends the program."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.output import check_not_input, open_output, write_folder

ROOT = Path(__file__).resolve().parents[1]
WRITE = """
import time
from pathlib import Path
from rnnsearch_fairseq import cli, output

def write():
    with output.open_output(Path("file")) as file, output.write_folder(Path("folder")) as new:
        file.write(b"new")
        (new / "a.txt").write_text("new")
        print("ready", flush=True)
        time.sleep(600)

cli.print_user_dir = write
cli.main()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_what_was_there(tmp_path: Path, number: int) -> None:
    (tmp_path / "file").write_text("old")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", WRITE, "user-dir"]
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "file"]
    assert (tmp_path / "file").read_text() == "old"


def test_files_go_to_a_folder_together_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with write_folder(out) as new:
        (new / "raw").mkdir()
        for name in ("a.txt", "raw/b.txt"):
            (new / name).write_text("old")
    (out / "z.txt").mkdir()
    inputs = [out / "a.txt", out / "raw" / "b.txt", out / "z.txt" / "input"]
    with pytest.raises(InputError, match=r"z\.txt: a folder"), write_folder(out, inputs) as new:
        for name in ("a.txt", "z.txt"):
            (new / name).write_text("new")
    with pytest.raises(InputError, match=r"out: is not empty \(z\.txt\)"), write_folder(out, inputs[:2]):
        pass
    files = {str(path.relative_to(out)): path for path in out.rglob("*")}
    assert sorted(files) == ["a.txt", "raw", "raw/b.txt", "z.txt"]
    assert {files[name].read_text() for name in ("a.txt", "raw/b.txt")} == {"old"}
    with pytest.raises(InputError, match=r"a\.txt: cannot be written"), write_folder(out / "a.txt"):
        pass


def test_names_may_be_as_long_as_the_system_allows_and_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with open_output(tmp_path / ("é" * 127)) as file:
        file.write(b"a")
    for name, reason in (("a" * 256, "File name too long"), (f"{'é' * 127}/a", "Not a directory")):
        with pytest.raises(InputError, match=f"cannot be written .{reason}"), open_output(tmp_path / name):
            pass
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, Path("/dev/null")):
        with pytest.raises(InputError, match=f"^{path}: "), open_output(path):
            pass
    with (tmp_path / "log").open("w") as log:
        log.write("before")
        log.flush()
        (tmp_path / "link").symlink_to(f"/dev/fd/{log.fileno()}")
        (tmp_path / "links").symlink_to("link")
        for path in (
            tmp_path / "link",
            tmp_path / "links",
            Path(f"/dev/fd/{log.fileno()}"),
            Path(f"/proc/self/fd/{log.fileno()}"),
        ):
            with pytest.raises(InputError, match=f"^{path}: not a file that can be written"), open_output(path):
                pass
    assert (tmp_path / "log").read_text() == "before"
    (tmp_path / "loop").symlink_to("loop")
    check_not_input(tmp_path / "loop", [tmp_path / "loop" / "a"])
