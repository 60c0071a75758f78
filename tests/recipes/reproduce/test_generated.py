"""Reading the output of fairseq-generate."""

from pathlib import Path

import pytest

from recipes.reproduce.generated import read_generated
from rnnsearch_fairseq.errors import InputError

OUTPUT = """2026-11-21 10:00:00 | INFO | fairseq_cli.generate | S-0 is no line of a sentence
S-1\tthe ca@@ t
T-1\tle chat
H-1\t-0.5\tle ch@@ at
D-1\t-0.5\tle chat
A-1\t0.7,0.1,0.1,0.1 0.1,0.7,0.1,0.1 0.1,0.1,0.7,0.1 0.1,0.1,0.1,0.7
P-1\t-0.1 -0.2 -0.3 -0.4
H-1\t-0.9\tun chat
S-0\ta\u2028b \x85 c
H-0\t-1.0\tS-1
Generate test with beam=5: BLEU4 = 42.00
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "generate.out"
    path.write_text(text, encoding="utf-8")
    return path


def test_best_translations_are_read_in_the_order_of_the_sentences(tmp_path: Path) -> None:
    first, second = read_generated(write(tmp_path, OUTPUT))
    assert "".join(first.source) == "abc</s>" and first.target == ["S-1", "</s>"] and first.weights is None
    assert (second.number, second.source, second.target) == (
        1,
        ["the", "ca@@", "t", "</s>"],
        ["le", "ch@@", "at", "</s>"],
    )
    assert second.weights.shape == (4, 4) and second.weights[0].tolist() == [0.7, 0.1, 0.1, 0.1]
    (empty,) = read_generated(write(tmp_path, "S-0\t\nH-0\t-1.0\t\nA-0\t1.000000\n"))
    assert (empty.source, empty.target, empty.weights.tolist()) == (["</s>"], ["</s>"], [[1.0]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("BLEU4 = 42.00\nS-total\tno number\n", r"no translations.*without --quiet"),
        ("S-0\ta b\nH-0\t-1.0\tc d\nA-0\t0-0 1-1\n", r"line 3: .*--print-alignment soft"),
        ("S-0\ta b\nH-0\t-1.0\tc d\nA-0\t0.5,0.5 1.0\n", r"line 3: .*--print-alignment soft"),
        ("S-0\ta\nH-0\t-1.0\tb\nS-1\tc\nH-1\t-0.5\n", r"line 4: .*cut short"),
        ("S-0\ta\nH-0\t-1.0\tb\nS-1\tc\n", r"sentence 1 has no translation \(no line H-1\)"),
        ("S-1\ta\nH-1\t-1.0\tb\n", r"sentence 0 has no translation"),
    ],
)
def test_incomplete_output_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"generate\.out.*{message}"):
        read_generated(write(tmp_path, text))
