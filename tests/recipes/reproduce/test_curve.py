"""The pictures of ``reproduce.curve``."""

from pathlib import Path

from matplotlib.figure import Figure

from recipes.reproduce.curve import main
from tests.commands import printed_by
from tests.plugin.log_lines import inner_line, valid_line
from tests.recipes.reproduce.builders import write


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_logs_are_told_apart_in_grey_and_by_their_names(tmp_path: Path, figures: list[Figure]) -> None:
    lines = [inner_line(50, 90), inner_line(100, 45, 30), valid_line(1, 5)]
    logs = [write(tmp_path / name, lines) for name in ("a_$1$/train.log", "b/c/train.log")]
    picture = tmp_path / "curve.png"
    assert printed_by(main, *logs, "--output", picture) == f"learning curves -> {picture}\n"
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    axes = figures[0].axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_yscale()) == ("Updates", "Perplexity", "log")
    assert [list(map(list, line.get_data())) for line in axes.lines] == 2 * [[[50, 100], [90, 45]], [[100], [40.5]]]
    names = ["a_$1$/train.log, training", "a_$1$/train.log, development"]
    assert legend(figures[0]) == [*names, "c/train.log, training", "c/train.log, development"]
    assert len({(line.get_linestyle(), line.get_marker()) for line in axes.lines}) == 4


def test_bleu_against_training_time(tmp_path: Path, figures: list[Figure]) -> None:
    lines = [inner_line(50, 90, 5400), valid_line(1, 5, updates=50, bleu=20.5), inner_line(100, 9, 5400)]
    log = write(tmp_path / "train.log", [*lines, valid_line(1, 5, bleu=31.5)])
    printed_by(main, log, "--output", tmp_path / "curve.pdf", "--measure", "bleu", "--against", "time")
    axes = figures[0].axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Training time (hours)", "BLEU score")
    assert [list(map(list, line.get_data())) for line in axes.lines] == [[[1.5, 3], [20.5, 31.5]]]
    assert legend(figures[0]) == [f"{tmp_path.name}/train.log, development"]
