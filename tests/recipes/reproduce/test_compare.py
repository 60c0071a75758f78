"""Systems compared over all their seeds, and how monotonic alignments are."""

from pathlib import Path

from recipes.reproduce import compare, monotony
from recipes.reproduce.bleu import bleu
from tests.recipes.reproduce.builders import broken, printed_by, record, reference, write

LENGTHS = [12] * 40


def test_seeds_of_a_system_stand_behind_one_name(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{wrong}", broken(LENGTHS, wrong, 0)) for wrong in (1, 2, 3)]
    scores = [bleu(broken(LENGTHS, wrong, 0), reference(LENGTHS)) for wrong in (1, 2, 3)]
    printed = printed_by(
        compare.main, write(tmp_path / "fr", reference(LENGTHS)), f"A={files[0]},{files[1]}", f"B={files[2]}"
    )
    assert f"| A | {scores[0]:.2f}, {scores[1]:.2f} |" in printed
    mean = sum(scores[:2]) / 2
    assert f"| A | B | {mean:.2f} | {scores[2]:.2f} | {mean - scores[2]:+.2f} | " in printed
    assert " | two seeds against one seed |" in printed


def test_steps_and_swaps_of_words(tmp_path: Path) -> None:
    # "le chat noir ." looks at "the", "cat", "black", "."; the last two words at the same one; the "ch@@ at" is a word.
    eye = [[float(i == k) for k in range(5)] for i in (0, 2, 2, 1, 3, 3, 4)]
    scores = write(tmp_path / "score.jsonl", [record(0, "the black cat .", "le ch@@ at noir . .", eye)])
    gold = write(tmp_path / "gold", ["0-0 2-1 1-2 3-3", "0-0 1-3"])
    rows = printed_by(monotony.main, f"A={scores}", f"gold={gold}").splitlines()[2:]
    assert rows == [
        "| A | 4 | 50.0 | 25.0 | 25.0 | 25.0 | black cat (1) |",
        "| gold | 4 | 75.0 | 0.0 | 25.0 | 25.0 | – |",
    ]
