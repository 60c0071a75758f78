"""The fault run sees what it claims to see."""

import signal
from pathlib import Path

import fairseq.checkpoint_utils
import pytest

from recipes.fault_injection import run
from recipes.fault_injection.run import FAULTS, FaultCounts, FaultRun, format_table, main, read_state
from rnnsearch_fairseq.errors import InputError
from tests.patches.recovery.training import train

pytestmark = [pytest.mark.slow, pytest.mark.train]


def test_a_short_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "UPDATES", 40)
    assert main([str(tmp_path / "out"), "--kills", "2"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("| fault | times | resumed exactly | checkpoints lost |\n| --- | --- | --- | --- |\n")
    for kind, times in zip(FAULTS, (2, 1, 1, 1, 1)):
        assert f"| {kind} | {times} | {times} | 0 |\n" in printed
    assert (tmp_path / "out/faults.md").read_text() == printed.partition("\n\n")[0] + "\n"
    with pytest.raises(InputError, match="exists already"):
        main([str(tmp_path / "out")])
    with pytest.raises(InputError, match="--kills is 0"):
        main([str(tmp_path / "new"), "--kills", "0"])
    check_that_it_notices(tmp_path / "out")


def check_that_it_notices(out: Path) -> None:
    """A reference that says otherwise, a checkpoint that is damaged and one that is missing."""
    judge = FaultRun(out, span=1, seed=1)
    assert judge.attempt("none") is False
    assert judge.table["none"] == FaultCounts(0, 0, 0)
    judge._to_resume = ["kill"]
    judge.table["kill"] = FaultCounts(1, 0, 0)
    judge.reference["7"]["loss"] = "0"
    judge.attempt("none")
    assert judge.table["kill"].exact == 0
    newest = sorted((out / "reference").glob("checkpoint_1_*.pt"))[0]
    judge.folder.mkdir()
    (judge.folder / newest.name).write_bytes(newest.read_bytes()[:-1])
    (out / "log").write_text("Saved checkpoint x (epoch 1 @ 10 updates)")
    assert judge._count_lost(out / "log", newest=5) == 2
    (judge.folder / newest.name).write_bytes(newest.read_bytes())
    assert judge._is_reference(judge.folder / newest.name)
    state = read_state(newest)
    next(iter(state["model"].values())).view(-1)[0] += 1e-6
    assert not run.is_equal(state, read_state(newest))


def test_an_attempt_may_be_killed_before_it_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("checkpoints", "reference", "logs"):
        (tmp_path / name).mkdir()
    (tmp_path / "reference.log").touch()
    monkeypatch.setattr(run, "_run", lambda *_: signal.pause())
    judge = FaultRun(tmp_path, span=0, seed=1)
    kill = next(iter(FAULTS))
    assert judge.attempt(kill) is True
    assert judge.table == {kill: FaultCounts(1, 0, 0)}


def test_an_attempt_knows_nothing_of_trainings_in_this_process(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fairseq.checkpoint_utils.save_checkpoint, "best", 0.0, raising=False)
    trained = train(data, tmp_path, "--max-update", "5")
    assert (trained.folder / "checkpoint_best.pt").exists()


def test_the_table_has_sums() -> None:
    assert format_table({"kill -9": FaultCounts(3, 2, 1), "none": FaultCounts(), "SIGTERM": FaultCounts(1, 1, 0)}) == (
        "| fault | times | resumed exactly | checkpoints lost |\n| --- | --- | --- | --- |\n"
        "| kill -9 | 3 | 2 | 1 |\n| SIGTERM | 1 | 1 | 0 |\n| all | 4 | 3 | 1 |\n"
    )
