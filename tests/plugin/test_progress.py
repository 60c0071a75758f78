"""``rnnsearch progress``."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from rnnsearch_fairseq.plugin.progress import Progress
from tests.plugin.log_lines import LINES, inner_line, train_line, valid_line

ROOT = Path(__file__).resolve().parents[2]
LOG = "2026-11-27 13:13:44 |"
STOPPED = "SIGINT: training stops after update 24; the same command goes on from ck/checkpoint_last.pt"
# Lines of trainings that end too early, and what is to be seen of them.
NEWS = {
    f"{LOG} INFO | rnnsearch_fairseq.plugin.patches | {STOPPED}": STOPPED,
    f"{LOG} WARNING | rnnsearch_fairseq.plugin.patches | other options: | --lr": "other options: | --lr",
    f"{LOG} INFO | fairseq.trainer | Loaded checkpoint ck/checkpoint_last.pt (epoch 1 @ 24 updates)": (
        "Loaded checkpoint ck/checkpoint_last.pt (epoch 1 @ 24 updates)"
    ),
    f"{LOG} ERROR | fairseq.nan_detector | NaN": "NaN",
    "error: bin/dict.fr.txt: not here; give another": "error: bin/dict.fr.txt: not here; give another",
    "fairseq-train: error: unrecognized arguments: --lrr": "error: unrecognized arguments: --lrr",
    "FloatingPointError: gradients are Nan/Inf": "FloatingPointError: gradients are Nan/Inf",
    "torch.OutOfMemoryError: CUDA": "torch.OutOfMemoryError: CUDA",
}


def test_a_line_says_how_far_and_how_long_at_the_mean_speed_of_late() -> None:
    progress = Progress(8850, "model: ")
    at = {0: (100, 1.475), 9: (110, 2), 10: (150, 5), 19: (190, 2)}  # seconds: updates, and updates a second
    lines = [progress.show(inner_line(updates, 9.5, ups=ups), now) for now, (updates, ups) in at.items()]
    assert lines == [
        "  model: update 100 of 8,850 | perplexity 9.50 | about 1:38:52 left",
        None,
        "  model: update 150 of 8,850 | perplexity 9.50 | about 1:20:19 left",
        None,
    ]
    validated = progress.show(valid_line(1, 5, updates=200, bleu=30.25), 20)
    assert validated == (
        "  model: update 200 of 8,850 | development perplexity 40.50 | development BLEU 30.25 | about 1:18:18 left"
    )
    assert progress.show(train_line(2), 40) is None
    assert progress.show(inner_line(8840, 9, ups=50), 40).endswith("| about 0:00:04 left")
    assert progress.show(inner_line(8850, 9, ups=50), 60) == "  model: update 8,850 of 8,850 | perplexity 9.00"


def test_the_first_speed_after_a_checkpoint_is_not_believed() -> None:
    progress = Progress(600)
    progress.show(next(line for line in NEWS if "Loaded" in line), 0)
    assert progress.show(inner_line(100, 9, ups=0.1), 1) == "  update 100 of 600 | perplexity 9.00"
    assert progress.show(inner_line(200, 9, ups=4), 31).endswith("| about 0:01:40 left")


@pytest.mark.parametrize("line", NEWS, ids=NEWS.get)
def test_what_ends_a_training_is_shown_at_once(line: str) -> None:
    progress = Progress(885)
    progress.show(inner_line(800, 9), 0)
    assert progress.show(line, 1) == f"  {NEWS[line]}"


def test_the_log_is_kept_whole_also_after_ctrl_c(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("before\n")
    words = ["python", "-m", "rnnsearch_fairseq", "progress", log, "363"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    first, rest = "\n".join(LINES).encode() + b"\n\xff\n", b"error: no room\nunfinished"
    process.stdin.write(first)
    process.stdin.flush()
    shown = process.stdout.readline()  # from here on, signals leave it alone
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGHUP)
    process.stdin.write(rest)
    process.stdin.close()
    shown += process.stdout.read()
    process.wait()
    assert process.returncode == 0
    assert shown.decode().splitlines() == [
        "  update 100 of 363 | perplexity 548.70 | about 0:01:49 left",
        "  update 363 of 363 | development perplexity 40.50",
        "  error: no room",
    ]
    assert log.read_bytes() == b"before\n" + first + rest
