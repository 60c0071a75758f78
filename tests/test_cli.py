"""The command ``rnnsearch``: its commands, mistakes, signals and standard streams."""

import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rnnsearch_fairseq
from rnnsearch_fairseq import cli
from rnnsearch_fairseq.command_line import make_parser
from tests import trained
from tests.corpus.builders import number_pairs, write_files
from tests.recipes.reproduce.builders import record, write

ROOT = Path(__file__).resolve().parents[1]
USER_DIR = ["-m", "rnnsearch_fairseq", "user-dir"]


def run(*words: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python in another process."""
    return subprocess.run([sys.executable, *words], **{"cwd": ROOT, "capture_output": True, "text": True, **options})


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int | str | None:
    """Run the command in this process; returns its exit status."""
    monkeypatch.setattr(sys, "argv", ["rnnsearch", *words])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code


def test_commands_are_listed_and_the_version_has_a_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([], ["--help"]):
        assert call(monkeypatch, *words) == 0
        out = capsys.readouterr().out
        assert all(f"\n  {name} " in out for name in cli.COMMANDS)
    assert call(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"rnnsearch-fairseq {rnnsearch_fairseq.__version__}\n"
    assert make_parser(None).description == "", "python -OO has no docstrings"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("transalte", "did you mean translate? rnnsearch --help says more"),
        ("translate --modle x", "did you mean --model? rnnsearch translate --help says more"),
        ("translate --model x --search=grondhog", "did you mean groundhog? rnnsearch translate --help says more"),
        ("figures", "rnnsearch --help says more"),
    ],
)
def test_an_unknown_word_is_answered_in_two_lines(
    words: str, hint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, *words.split()) == 2
    assert capsys.readouterr().err.splitlines()[1:] == [hint]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that the examples read: text, a model and its scores."""
    folder = trained.train(tmp_path_factory.mktemp("examples"))
    write_files(folder, number_pairs(600))
    (folder / "raw").mkdir()
    write_files(folder / "raw", [*trained.PAIRS.items()], "test")
    (folder / "docs.po").write_text('msgid "The dog sleeps."\nmsgstr ""\n')
    write(folder / "test.scores", [record(0, "a cat", "chat", [[0.2, 0.5, 0.1]] * 2)])
    return folder


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_ends_in_an_example_that_works(
    command: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, *command.split(), "--help") == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"usage: rnnsearch {command} ")
    examples = printed.rpartition("\nexample:\n")[2].splitlines()
    examples = [line.rpartition("| ")[2].strip() for line in examples]  # of a pipe, the last command
    assert examples and all(line.startswith(f"rnnsearch {command}") for line in examples)
    if command == "serve":  # any free port, and no waiting for requests
        server, uvicorn = map(pytest.importorskip, ("rnnsearch_fairseq.serve.server", "uvicorn"))
        monkeypatch.setattr(server, "open_socket", lambda host, port, open_=server.open_socket: open_(host, 0))
        monkeypatch.setattr(uvicorn.Server, "run", lambda *_, **__: None)
    monkeypatch.chdir(shutil.copytree(place, tmp_path / "place"))
    if command == "progress":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a line\n")))
        monkeypatch.setattr(signal, "signal", lambda *_: None)  # the tests' process keeps its own
    for example in examples:
        before = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
        monkeypatch.setattr(sys, "argv", shlex.split(example))
        assert not cli.main()
        after = {path: path.stat().st_mtime_ns for path in Path().rglob("*")}
        assert (after != before) == (command not in ("serve", "info", "user-dir"))


@pytest.mark.parametrize("words", ["--help", "user-dir"])
def test_help_imports_neither_pytorch_nor_fairseq(words: str) -> None:
    program = "import sys; sys.argv[:] = ['rnnsearch', sys.argv[1]]\nfrom rnnsearch_fairseq.cli import main\n"
    program += "try: main()\nfinally: print(sorted({'torch', 'fairseq', 'numpy'} & sys.modules.keys()))"
    done = run("-c", program, words)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


# Errors and standard streams


@pytest.mark.parametrize(
    ("command", "status", "out", "err"),
    [
        ("open('/no/model')", 1, b"", rb"error: /no/model: cannot be used \(No such file or directory\); [^\n]*\n"),
        ("print('\\udcff')", 0, b"\xff\n", b""),  # a name that is not UTF-8
    ],
)
def test_errors_are_one_line_and_names_are_printed_as_is(command: str, status: int, out: bytes, err: bytes) -> None:
    program = f"from rnnsearch_fairseq import cli; cli.print_user_dir = lambda: {command}; cli.main()"
    done = run("-c", program, "user-dir", text=False)
    assert (done.returncode, done.stdout) == (status, out) and re.fullmatch(err, done.stderr)


@pytest.mark.parametrize(("closing", "said"), [(">/dev/full", "No space left"), ("<&-", "is closed"), ("2>&-", "")])
def test_a_full_or_closed_standard_stream_is_an_error(closing: str, said: str) -> None:
    words = ["sh", "-c", f'exec "$@" {closing}', "sh", sys.executable, *USER_DIR]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, bool(said))
    assert said in done.stderr and not done.stdout


def test_a_reader_that_leaves_early_gets_no_error_message() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = run(*USER_DIR, env=environment, capture_output=False, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


# Stops the program at an import that ignores any exception.
STOP_AT_AN_IMPORT = """
import os, sys, time
class Stopping:
    def find_spec(self, name, *_):
        if name == os.environ["STOP_AT"]:
            try:
                print("stopped", flush=True)
                time.sleep(60)
            except BaseException: pass
sys.meta_path.insert(0, Stopping())
"""


@pytest.mark.parametrize(("command", "module"), [("translate", "torch"), ("serve", "fastapi")])
def test_a_signal_ends_a_command_during_its_imports(command: str, module: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(STOP_AT_AN_IMPORT)
    (tmp_path / "config.json").write_text("{}")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}", "STOP_AT": module}
    words = [sys.executable, "-m", "rnnsearch_fairseq", command, "--model", tmp_path]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"stopped\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
