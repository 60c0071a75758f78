"""Outputs: complete or absent, whatever their names are and whatever ends the program."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rnnsearch_fairseq import cli
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.output import check_not_input, open_output, write_folder

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, "-m", "rnnsearch_fairseq", "user-dir"]
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


def run(*words: str, **streams: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(words, **{"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_what_was_there(tmp_path: Path, number: int) -> None:
    (tmp_path / "file").write_text("old")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", WRITE, "user-dir"]
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "file", tmp_path / "folder"]
    assert (tmp_path / "file").read_text() == "old"


def test_files_go_to_a_folder_together_or_not_at_all(tmp_path: Path) -> None:
    for text in ("old", "new"):
        with write_folder(tmp_path / "out") as new:
            (new / "raw").mkdir()
            for name in ("a.txt", "raw/b.txt"):
                (new / name).write_text(text)
    (tmp_path / "out" / "z.txt").mkdir()
    with pytest.raises(InputError, match=r"z\.txt: a folder"), write_folder(tmp_path / "out") as new:
        for name in ("a.txt", "z.txt"):
            (new / name).write_text("newer")
    found = {str(path.relative_to(tmp_path / "out")): path for path in (tmp_path / "out").rglob("*")}
    assert sorted(found) == ["a.txt", "raw", "raw/b.txt", "z.txt"]
    assert {found[name].read_text() for name in ("a.txt", "raw/b.txt")} == {"new"}
    with pytest.raises(InputError, match=r"a\.txt: cannot be written"), write_folder(tmp_path / "out" / "a.txt"):
        pass


def test_names_may_be_as_long_as_the_system_allows(tmp_path: Path) -> None:
    with open_output(tmp_path / ("é" * 127)) as file:
        file.write(b"a")
    for name, reason in (("a" * 256, "File name too long"), (f"{'é' * 127}/a", "Not a directory")):
        with pytest.raises(InputError, match=f"cannot be written .{reason}"), open_output(tmp_path / name):
            pass


def test_what_is_no_file_is_refused_by_its_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, Path("/dev/null")):
        with pytest.raises(InputError, match=f"^{path}: "), open_output(path):
            pass
    (tmp_path / "loop").symlink_to("loop")
    check_not_input(tmp_path / "loop", [tmp_path / "loop" / "a"])


@pytest.mark.parametrize(
    ("closing", "status", "said"),
    [(">/dev/full", 1, b"No space left"), (">&-", 1, b"Bad file descriptor"), ("<&-", 0, b""), ("2>&-", 0, b"")],
)
def test_standard_streams_may_be_full_or_closed(closing: str, status: int, said: bytes) -> None:
    done = run("sh", "-c", f'exec "$@" {closing}', "sh", *COMMAND)
    assert (done.returncode, len(done.stderr.splitlines())) == (status, status)
    assert said in done.stderr and (status == 1 or done.stdout)


def test_what_the_system_refuses_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise PermissionError(13, "Permission denied", "secret/model")

    monkeypatch.setattr(cli, "print_user_dir", refuse)
    monkeypatch.setattr(sys, "argv", ["rnnsearch", "user-dir"])
    with pytest.raises(InputError, match=r"^secret/model: cannot be used \(Permission denied\); give another"):
        cli.main()


def test_a_name_that_is_not_utf8_is_printed_as_it_is() -> None:
    program = "from rnnsearch_fairseq import cli; cli.print_user_dir = lambda: print('\\udcff'); cli.main()"
    assert run(sys.executable, "-c", program, "user-dir").stdout == b"\xff\n"


def test_commands_work_without_docstrings() -> None:
    done = run(sys.executable, "-OO", "-m", "rnnsearch_fairseq", "info", "--help")
    assert (done.returncode, done.stderr) == (0, b"")
