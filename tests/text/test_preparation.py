"""The record of a preparation: written, read and found again, and refused where it is damaged."""

import json
from pathlib import Path
from typing import Any

import pytest

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.preparation import (
    RECORD,
    Preparation,
    find_preparations,
    read_preparations,
    write_preparations,
)

BPE = Preparation("moses", True, True, True, bpe="#version: 0.2\ne s</w>\né t\n")
PIECEWISE = Preparation(sentencepiece=bytes(range(256)))
OTHER_BPE = Preparation(bpe="#version: 0.2\na b\n")


@pytest.mark.parametrize(
    ("languages", "files"),
    [
        ({"en": BPE, "fr": BPE}, {"bpe.codes"}),
        ({"en": BPE, "ja": PIECEWISE}, {"bpe.codes", "sentencepiece.model"}),
        ({"en": BPE, "ja": OTHER_BPE}, {"bpe.en.codes", "bpe.ja.codes"}),
        ({"en": Preparation("moses"), "ja": Preparation()}, set()),
    ],
)
def test_what_is_written_is_read(tmp_path: Path, languages: dict[str, Preparation], files: set[str]) -> None:
    write_preparations(tmp_path, languages)
    assert {path.name for path in tmp_path.iterdir()} == {RECORD, *files}
    assert read_preparations(tmp_path) == languages


def test_a_training_looks_beside_its_data_and_then_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "bin"
    data.mkdir()
    assert find_preparations(data, ["en", "fr"]) is None
    write_preparations(tmp_path, {"en": BPE, "fr": Preparation()})
    monkeypatch.chdir(data)
    assert find_preparations(Path("."), ["fr", "en"]) == (Preparation(), BPE)
    with pytest.raises(InputError, match="does not say how the text in de was prepared"):
        find_preparations(data, ["en", "de"])
    write_preparations(data, {"en": OTHER_BPE, "de": OTHER_BPE})
    assert find_preparations(data, ["en", "de"]) == (OTHER_BPE, OTHER_BPE)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"", RECORD),
        (b"[]", RECORD),
        ({"en": []}, RECORD),
        ({"en": {"tokenizer": "nltk"}}, "'nltk'"),
        ({"en": {"lowercase": "yes"}}, "'yes'"),
        ({"en": {"subwords": "bpe"}}, "'subwords'"),
        ({"en": {"bpe": "bpe.codes"}}, "bpe.codes"),
    ],
)
def test_a_damaged_record_is_refused_in_one_sentence(tmp_path: Path, content: Any, named: str) -> None:
    (tmp_path / RECORD).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(InputError, match=named):
        read_preparations(tmp_path)
