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
        while True:  # a signal before a long sleep would be seen only after it
            time.sleep(0.1)

cli.print_user_dir = write
cli.main()
"""


def test_a_signal_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", WRITE, "user-dir"]
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGHUP)
        assert process.wait(60) == 128 + signal.SIGHUP
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "file"]
    assert (tmp_path / "file").read_text() == "old"


def test_files_go_to_a_new_or_empty_folder_together_or_not_at_all(tmp_path: Path) -> None:
    out, empty = tmp_path / "new" / "out", tmp_path / "empty"
    empty.mkdir()
    for folder in (out, empty):
        with pytest.raises(KeyError), write_folder(folder) as new:
            (new / "a.txt").write_text("half")
            raise KeyError
    assert not out.exists() and not any(empty.iterdir())
    with write_folder(out) as new:
        (new / "raw").mkdir()
        (new / "raw" / "b.txt").write_text("whole")
        with (
            pytest.raises(InputError, match=r"out: is not empty \(\.new\); wait for .*, remove .*\.new"),
            write_folder(out),
        ):
            pass
    assert sorted(out.rglob("*")) == [out / "raw", out / "raw" / "b.txt"]
    with pytest.raises(InputError, match=r"out: is not empty \(raw\)"), write_folder(out):
        pass
    with pytest.raises(InputError, match=r"b\.txt: cannot be written"), write_folder(out / "raw" / "b.txt"):
        pass


def test_names_may_be_as_long_as_the_system_allows_and_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with open_output(tmp_path / ("é" * 127)) as file:
        file.write(b"a")
    for name, reason in (("a" * 256, "File name too long"), (f"{'é' * 127}/a", "Not a directory")):
        with pytest.raises(InputError, match=f"cannot be written .{reason}"), open_output(tmp_path / name):
            pass
    os.mkfifo(tmp_path / "fifo")
    with (tmp_path / "log").open("w") as log:
        for path in (tmp_path / "fifo", tmp_path, Path("/dev/null"), Path(f"/dev/fd/{log.fileno()}")):
            with pytest.raises(InputError, match=f"^{path}: not a file that can be written"), open_output(path):
                pass
    (tmp_path / "loop").symlink_to("loop")
    check_not_input(tmp_path / "loop", [tmp_path / "loop" / "a"])
