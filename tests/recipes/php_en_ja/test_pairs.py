"""Sentences of PHP's manual: cut, named, split into words, and kept apart."""

from pathlib import Path

import pytest

from tests.commands import printed_by
from tests.recipes.reproduce.builders import write

pytest.importorskip("MeCab", reason='pip install "sacrebleu[ja]"')

from recipes.php_en_ja import pairs

FIRST = "Returns the current value of ``$name`` as an unsigned integer."
NEAR = "Returns the current values of ``$name`` as an unsigned integer."
OTHER = "The directory is removed when nothing else in the program needs it."
JAPANESE = "``$name`` の値を返します。"


def test_parts_have_whole_sentences_and_training_no_copy_of_the_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        (f"{FIRST} Too short.", f"{JAPANESE}短い。"),  # the first of three blocks, for the test
        (FIRST.replace("the current", "only one"), "値を返します。"),  # markup on one side
        (OTHER.replace(". ", " "), "不要になると。ディレクトリは削除されます。"),  # one sentence and two
        (FIRST, JAPANESE),
        (NEAR, JAPANESE),
        (OTHER, "不要なディレクトリは削除されます。"),
    ]
    write(tmp_path / "table", ["\t".join(row) for row in rows])
    monkeypatch.setattr(pairs, "BLOCK", 3)
    printed = printed_by(pairs.main, tmp_path / "table", tmp_path / "out")
    assert "test: 1 pairs" in printed and "train: 1 pairs; left out as near copies: 1" in printed
    parts = {path.name: path.read_text(encoding="utf-8").splitlines() for path in (tmp_path / "out").iterdir()}
    assert parts["test.cased"] == ["Returns the current value of CODEA as an unsigned integer ."]
    assert parts["test.en"] == [parts["test.cased"][0].lower()]
    assert parts["test.ja"] == ["CODEA の 値 を 返し ます 。"]
    assert parts["train.cased"] == ["The directory is removed when nothing else in the program needs it ."]
    assert parts["valid.en"] == []
