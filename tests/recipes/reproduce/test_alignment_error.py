"""``rnnsearch alignment-error``."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from recipes.reproduce.alignment_error import AlignmentError, alignment_error, links_of, main, read_gold
from rnnsearch_fairseq.errors import InputError

# Three source words and end-of-sentence across; of the first sentence, four target words and end-of-sentence down.
FIRST = [[0.7, 0.3, 0, 0], [0.1, 0.4, 0.4, 0.1], [0.2, 0.2, 0.25, 0.35], [0.1, 0.1, 0.8, 0], [0, 0, 0, 1.0]]
SECOND = [[0.9, 0.1], [1.0, 0.0]]
Run = Callable[..., list[str]]


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def record(number: int, source: str, target: str, alignment: list[list[float]] | None) -> str:
    words = {"source": [*source.split(), "</s>"], "target": [*target.split(), "</s>"]}
    return json.dumps({"id": number, **words, "logprob": -1.0, "word_logprobs": [], "alignment": alignment})


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    lines = [record(0, "a b c", "w x y z", FIRST), record(1, "d", "v", SECOND)]
    return write(tmp_path / "score.jsonl", *lines)


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    return write(tmp_path / "gold", "0-0 1-1 2-2 0?3 2?3", "0-0")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: object) -> list[str]:
        monkeypatch.setattr(sys, "argv", ["alignment-error", *map(str, words)])
        main()
        return capsys.readouterr().out.splitlines()

    return run


def test_words_are_linked_to_the_highest_weight_and_not_to_end_of_sentence() -> None:
    assert links_of(np.array(FIRST)) == {(0, 0), (1, 1), (2, 3)}
    assert links_of(np.array(FIRST), 0.25) == {(0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (2, 3)}
    assert links_of(np.array(FIRST), 0.81) == set()


def test_the_definition(scores: Path, gold: Path) -> None:
    # A = 0-0 1-1 2-3, and 0-0: of S are three, of P four; there are four sure links.
    found = alignment_error(scores, read_gold(gold), gold)
    assert found == AlignmentError(links=4, sure=4, links_sure=3, links_possible=4)
    assert (found.precision, found.recall, found.rate) == (1, 3 / 4, 1 - 7 / 8)


def test_no_links_are_no_error() -> None:
    assert AlignmentError(0, 0, 0, 0).rate == 0
    assert AlignmentError(0, 4, 0, 0).rate == 1


def test_the_command_prints_a_row_for_each_model(scores: Path, gold: Path, tmp_path: Path, run: Run) -> None:
    lines = [
        "| model | alignment error rate | precision | recall | links |",
        "| --- | --- | --- | --- | --- |",
        "| A | 12.50 | 100.00 | 75.00 | 4 |",
        "",
        "2 sentences, 4 sure links, 2 that are only possible",
    ]
    assert run(gold, f"A={scores}") == lines
    # A = 0-0 1-0 1-1 2-1 2-2 2-3, and 0-0
    loose = f"| B | {100 * (1 - (4 + 5) / (7 + 4)):.2f} | {500 / 7:.2f} | 100.00 | 7 |"
    assert run(gold, f"B={scores}", "--threshold", 0.25)[2] == loose
    assert run(gold, f"A={scores}", "--output", tmp_path / "table.md") == []
    assert (tmp_path / "table.md").read_text().splitlines() == lines


def test_kinds_of_links(tmp_path: Path) -> None:
    (sentence,) = read_gold(write(tmp_path / "gold", "1-2 3S1 3s2 2?2 1P1 4p4 1?2"), one_based=True)
    assert sentence.sure == {(0, 1), (2, 0), (2, 1)}
    assert sentence.possible == sentence.sure | {(1, 1), (0, 0), (3, 3)}
    possible = write(tmp_path / "possible", "0-1 2?0")
    (sentence,) = read_gold(write(tmp_path / "gold", "10-2"), possible)
    assert (sentence.sure, sentence.possible) == ({(10, 2)}, {(10, 2), (0, 1), (2, 0)})
    assert [links.sure for links in read_gold(write(tmp_path / "gold", "", "0-0"))] == [set(), {(0, 0)}]


def test_pieces_are_joined_before_links_are_compared(tmp_path: Path) -> None:
    # "bc" has 0.3 + 0.3 of "w"'s attention.
    weights = [[0.4, 0.3, 0.3, 0], [0.4, 0.3, 0.3, 0], [0, 0, 0, 1]]
    scores = write(tmp_path / "score.jsonl", record(0, "a b@@ c", "w@@ x", weights))
    gold = write(tmp_path / "gold", "1-0")
    assert alignment_error(scores, read_gold(gold), gold).rate == 0


def test_references_that_fairseq_generate_scored(tmp_path: Path, gold: Path) -> None:
    rows = [" ".join(",".join(map(str, row)) for row in matrix) for matrix in (FIRST, SECOND)]
    second = ["S-1\td", "T-1\tv", "H-1\t-1.0\tv", f"A-1\t{rows[1]}"]
    out = write(
        tmp_path / "out", *second, "S-0\ta b c", "T-0\tw x <<unk>> z", "H-0\t-1.0\tw x <unk> z", f"A-0\t{rows[0]}"
    )
    assert alignment_error(out, read_gold(gold), gold).rate == 1 - 7 / 8
    translated = write(tmp_path / "out", "S-0\td", "T-0\tv", "H-0\t-1.0\tu", f"A-0\t{rows[1]}")
    with pytest.raises(InputError, match=r"out: sentence 0 is not translated as its reference.*--score-reference"):
        alignment_error(translated, read_gold(gold), gold)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("0-0 1", r"gold, line 1: '1' is no link"),
        ("0-0 1-x", r"gold, line 1: '1-x' is no link"),
        ("3-0", r"gold, line 1: source word 3 and target word 0 \(from 0\).* has 3 and 4 words.*--one-based"),
        ("0?4", r"gold, line 1: source word 0 and target word 4"),
    ],
)
def test_bad_gold_is_refused(scores: Path, tmp_path: Path, run: Run, line: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        run(write(tmp_path / "gold", line, "0-0"), f"A={scores}")


def test_bad_input_is_refused(scores: Path, gold: Path, tmp_path: Path, run: Run) -> None:
    with pytest.raises(InputError, match=r"gold, line 1: '0-0' counts words from 0"):
        run(gold, f"A={scores}", "--one-based")
    for lines, (read, wanted) in ((["0-0"], (2, 1)), (["0-0"] * 3, (2, 3))):
        path = write(tmp_path / "other", *lines)
        with pytest.raises(InputError, match=rf"score\.jsonl has {read} sentences and .*other has {wanted}"):
            run(path, f"A={scores}")
    with pytest.raises(InputError, match=r"--threshold is 0; "):
        run(gold, f"A={scores}", "--threshold", 0)
    with pytest.raises(InputError, match=r"parallel files differ"):
        run(gold, f"A={scores}", "--possible", write(tmp_path / "possible", "0-0"))
    for path in (gold, scores):
        with pytest.raises(InputError, match=rf"--output .*{path.name}: it would replace an input"):
            run(gold, f"A={scores}", "--output", path)
    with pytest.raises(InputError, match=r"nothing: cannot be read"):
        run(gold, f"A={tmp_path / 'nothing'}")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (record(1, "d", "v", None), "no alignment"),
        (record(2, "d", "v", SECOND), "the score of sentence 2, not 1"),
        ('{"id": 1}', "not a score"),
        (record(1, "d", "v", SECOND)[:-9], "not a score"),
    ],
)
def test_bad_scores_are_refused(gold: Path, tmp_path: Path, line: str, said: str) -> None:
    path = write(tmp_path / "bad.jsonl", record(0, "a b c", "w x y z", FIRST), line)
    with pytest.raises(InputError, match=rf"bad\.jsonl, line 2: {said}"):
        alignment_error(path, read_gold(gold), gold)


def test_alignment_of_another_sentence_is_refused(gold: Path, tmp_path: Path) -> None:
    path = write(tmp_path / "bad.jsonl", record(0, "a b", "w x y z", FIRST), record(1, "d", "v", SECOND))
    with pytest.raises(InputError, match=r'bad\.jsonl, line 1: not a score \("alignment" has the shape \(5, 4\)'):
        alignment_error(path, read_gold(gold), gold)
