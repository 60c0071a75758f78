"""The record of a preparation: written and read again, copied, and refused where it is damaged."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from rnnsearch_fairseq import grammar
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.text import TextEncoder, configure
from rnnsearch_fairseq.text import preparation
from rnnsearch_fairseq.text.preparation import PLAIN_MOSES, RECORD, Preparation, copy_record, read_record, write_record

EVERYTHING = Preparation("moses", True, True, True, "bpe.codes")
SUBWORDS = {"en": EVERYTHING, "ja": Preparation(sentencepiece_model="ja.model")}


def write_files(folder: Path) -> Path:
    folder.mkdir()
    (folder / "bpe.codes").write_text("#version: 0.2\ne s</w>\n", encoding="utf-8")
    (folder / "ja.model").write_bytes(bytes(range(256)))
    write_record(folder, SUBWORDS)
    return folder


def test_what_is_written_is_read_and_copied_with_its_files(tmp_path: Path) -> None:
    text = write_files(tmp_path / "text")
    assert read_record(text) == SUBWORDS
    (tmp_path / "bin").mkdir()
    copy_record(text, tmp_path / "bin")
    assert read_record(tmp_path / "bin") == SUBWORDS
    for name in ("bpe.codes", "ja.model", RECORD):
        assert (tmp_path / "bin" / name).read_bytes() == (text / name).read_bytes()
    written = (tmp_path / "bin" / RECORD).stat()
    copy_record(text, tmp_path / "bin")
    copy_record(text, text)
    assert (tmp_path / "bin" / RECORD).stat() == written, "the same is written again"
    (text / RECORD).unlink()
    copy_record(text, tmp_path / "bin")
    assert read_record(tmp_path / "bin") == SUBWORDS
    assert read_record(text) is None


def test_the_command_adds_a_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = write_files(tmp_path / "text")
    options = ["--tokenizer", "moses", "--moses-no-escape", "--lowercase", "--bpe-codes", "bpe.codes"]
    monkeypatch.setattr(sys, "argv", ["preparation", str(text), "fr", *options])
    preparation.main()
    assert read_record(text) == {**SUBWORDS, "fr": Preparation("moses", True, False, True, "bpe.codes")}
    monkeypatch.setattr(sys, "argv", ["preparation", str(text), "fr", "--bpe-codes", "other"])
    with pytest.raises(InputError, match="names other, and there is no such file beside it"):
        preparation.main()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a record of a preparation"),
        (b"[]", "it holds no object"),
        (b"\xff{}", "not a record of a preparation"),
        (b"[" * 90_000, "not a record of a preparation"),
        (b" " * 200_000, "more than 100,000 bytes"),
        ({"en": []}, "'en' is no object of"),
        ({"en": {"tokeniser": "moses"}}, "'en' is no object of"),
        ({"en": {"tokenizer": "nltk"}}, "the tokenizer of 'en' is 'nltk'"),
        ({"en": {"tokenizer": ["moses"]}}, "the tokenizer of 'en' is"),
        ({"en": {"lowercase": 1}}, "lowercase of 'en' is 1, not true or false"),
        ({"en": {"bpe_codes": "../secret"}}, "'../secret' is no plain file name"),
        ({"en": {"bpe_codes": "/etc/passwd"}}, "'/etc/passwd' is no plain file name"),
        ({"en": {"bpe_codes": ".."}}, "names .., and there is no such file"),
        ({"en": {"bpe_codes": ""}}, "and there is no such file"),
        ({"en": {"bpe_codes": "a\0"}}, "is no plain file name"),
        ({"en": {"bpe_codes": 7}}, "7 is no plain file name"),
        ({"en": {"sentencepiece_model": "gone"}}, "names gone, and there is no such file beside it"),
        ({"en": {"sentencepiece_model": RECORD, "bpe_codes": RECORD}}, "both bpe_codes and a sentencepiece_model"),
    ],
)
def test_a_damaged_record_is_refused_in_one_sentence(tmp_path: Path, content: Any, message: str) -> None:
    (tmp_path / "secret").write_text("")
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / RECORD).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    for read in (read_record, lambda folder: copy_record(folder, tmp_path)):
        with pytest.raises(InputError, match=message) as error:
            read(folder)
        assert str(error.value).startswith(str(folder / RECORD))
        assert "\n" not in str(error.value)
    assert not (tmp_path / RECORD).exists()


@pytest.mark.parametrize(("name", "option"), [("subword_nmt", "bpe_codes"), ("sentencepiece", "sentencepiece_model")])
@pytest.mark.parametrize("content", [b"", b"#version: 0.2\na b c\n", b"\xff\0", b"\n\n \n", bytes(range(256)) * 20])
def test_damaged_subwords_are_refused_in_one_sentence(
    tmp_path: Path, name: str, option: str, content: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_bytes(content)
    cfg = configure({"bpe": name, option: str(tmp_path / "file")})
    try:
        encoder = TextEncoder(cfg, "en")
    except InputError as error:
        assert str(error).startswith(f"{tmp_path}/file: cannot split words (")
    else:
        assert encoder.encode("abc") is not None


def test_what_is_no_plain_file_is_no_record(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / RECORD)
    with pytest.raises(InputError, match=r"preparation\.json: not a plain file"):
        read_record(tmp_path)


def typed(words: list[str], language: str) -> str:
    """A sentence of the grammar as people write it."""
    text = " ".join(words)
    for sign in (".", ",", "?"):
        text = text.replace(f" {sign}", sign)
    text = text.replace(" '", "'") if language == "en" else text.replace("' ", "'")
    return text[0].upper() + text[1:]


def test_typed_sentences_of_the_grammar_become_its_words(tmp_path: Path) -> None:
    pairs = grammar.write_corpus(tmp_path, {"train": 800}, seed=3)["train"]
    assert read_record(tmp_path) == {"en": PLAIN_MOSES, "fr": PLAIN_MOSES}
    for language, side in (("en", "source"), ("fr", "target")):
        encoder = TextEncoder(configure(PLAIN_MOSES.options(tmp_path)), language)
        for pair in pairs:
            words = getattr(pair, side)
            text = encoder.encode(typed(words, language))
            assert text[0].lower() + text[1:] == " ".join([words[0][0].lower() + words[0][1:], *words[1:]])
