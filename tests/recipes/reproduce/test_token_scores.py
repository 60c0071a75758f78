"""``rnnsearch token-scores``."""

import sys
from pathlib import Path

import pytest

from recipes.reproduce.token_scores import main, score_tokens
from rnnsearch_fairseq.errors import InputError

REFERENCE = "a b c d f\n"


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> None:
    monkeypatch.setattr(sys, "argv", ["token_scores", *map(str, words)])
    main()


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_each_file_has_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = write(tmp_path / "dev.ja", REFERENCE)
    one, same = write(tmp_path / "one", "a b c d e\n"), write(tmp_path / "same", REFERENCE)
    run(monkeypatch, reference, one, same)
    # Of one: precisions 4/5, 3/4, 2/3, 1/2; four of its five words are aligned, all in order.
    bleu, ribes = 100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25, 100 * (4 / 5) ** 0.25
    expected = [f"{one}\tBLEU {bleu:.2f}\tRIBES {ribes:.2f}", f"{same}\tBLEU 100.00\tRIBES 100.00"]
    assert capsys.readouterr().out.splitlines() == expected


def test_tokens_and_case_are_taken_as_they_are() -> None:
    line = 'He said , " it \'s 3.5 % . "'
    assert score_tokens([line], [line]).bleu == pytest.approx(100)
    assert score_tokens(["a b c d,"], ["a b c d ,"]).bleu < 99
    assert score_tokens(["a b c d"], ["a b c D"]).bleu < 99
    assert score_tokens(["a b c d"], ["a b c D"]).ribes < 99


def test_lengths_are_those_of_all_tokens() -> None:
    scores = score_tokens(["a b c d", "e f g h"], ["a b c d", "e f"])
    assert scores.length_ratio == pytest.approx(6 / 8)
    assert scores.brevity_penalty == pytest.approx(2.718281828 ** (1 - 8 / 6))


def test_an_empty_translation_counts_as_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = write(tmp_path / "ja", "a b c d\ne f g h\n\n")
    run(monkeypatch, reference, write(tmp_path / "some", "a b c d\n\n\n"), write(tmp_path / "none", "\n\n\n"))
    some, none = capsys.readouterr().out.splitlines()
    assert some.endswith("RIBES 33.33")
    assert none.endswith("BLEU 0.00\tRIBES 0.00")


def test_only_line_feeds_end_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reference, same = "a\u2028b\x85c\x0cd\nf g h i", "a b c d\r\nf g h i\n"
    run(monkeypatch, write(tmp_path / "ja", reference), write(tmp_path / "same", same))
    assert "BLEU 100.00\tRIBES 100.00" in capsys.readouterr().out


def test_files_of_different_lengths_are_refused_before_anything_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reference, good, short = (
        write(tmp_path / name, text) for name, text in (("ja", "a\nb\n"), ("good", "a\nb\n"), ("short", "a\n"))
    )
    with pytest.raises(InputError, match=rf"{reference} has 2, .*{short} has 1"):
        run(monkeypatch, reference, good, short)
    with pytest.raises(InputError, match="nothing: cannot be read"):
        run(monkeypatch, reference, tmp_path / "nothing")
    assert capsys.readouterr().out == ""
