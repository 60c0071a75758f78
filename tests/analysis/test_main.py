"""``python -m rnnsearch_fairseq.analysis``."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from rnnsearch_fairseq.analysis import __main__ as program

ROOT = Path(__file__).resolve().parents[2]


def test_commands_are_listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--help"]):
        monkeypatch.setattr(sys, "argv", ["analysis", *words])
        with pytest.raises(SystemExit) as stopped:
            program.main()
        assert stopped.value.code == 0
        out = capsys.readouterr().out
        assert all(f"\n  {name} " in out for name in program.COMMANDS)


def test_unknown_commands_are_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["analysis", "figures"])
    with pytest.raises(SystemExit) as stopped:
        program.main()
    assert stopped.value.code == 2
    assert "'figures'" in capsys.readouterr().err


@pytest.mark.parametrize("command", program.COMMANDS)
def test_commands_get_their_arguments(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["analysis", command, "--help"])
    with pytest.raises(SystemExit) as stopped:
        program.main()
    assert stopped.value.code == 0
    name = program.MODULES.get(command, command.replace("-", "_"))
    told = capsys.readouterr().out.splitlines()
    description = importlib.import_module(f"rnnsearch_fairseq.analysis.{name}").__doc__
    assert description.splitlines()[0] in told or description.split()[0] in " ".join(told)


@pytest.mark.slow
def test_errors_are_one_line(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "rnnsearch_fairseq.analysis", "by-length", f"A={tmp_path / 'nothing'}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"error: {tmp_path / 'nothing'}: cannot be read" in done.stderr
    assert "Traceback" not in done.stderr
