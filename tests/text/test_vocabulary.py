"""The vocabulary has fairseq's ids and file format; pieces are joined to words."""

from pathlib import Path

import pytest
from fairseq.data import Dictionary

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.symbols import EOS, UNK
from rnnsearch_fairseq.text.codec import merge_pieces
from rnnsearch_fairseq.text.vocabulary import SPECIAL, Vocabulary

LINES = "the 9\ncafé 7\n\u3042\u00a0b 3\n▁x@@ 1\nmadeupword0000 0\n"


def test_symbols_have_fairseqs_ids_and_are_written_as_fairseq_reads_them(tmp_path: Path) -> None:
    path, copy = tmp_path / "dict.en.txt", tmp_path / "copy"
    path.write_text(LINES, encoding="utf-8")
    vocabulary = Vocabulary.read(path)
    vocabulary.write(copy)
    for file in (path, copy):
        dictionary = Dictionary.load(str(file))
        assert vocabulary.symbols == dictionary.symbols == Vocabulary.read(file).symbols
        for word in ("the", "café", "▁x@@", "madeupword0000", "gone", "<unk>"):
            assert vocabulary.encode([word]).tolist() == [dictionary.index(word), EOS]
    assert len(vocabulary) == 9
    assert vocabulary.words([0, 5, 4]) == ["<s>", "café", "the"]


def test_lines_of_text_end_with_end_of_sentence_and_special_symbols_in_them_are_unknown() -> None:
    vocabulary = Vocabulary([*SPECIAL, "a", "b"])
    assert vocabulary.encode(["b", "a", "<s>", "</s>", "<pad>", "<unk>", "c"]).tolist() == [5, 4, *[UNK] * 5, EOS]
    assert vocabulary.encode([]).tolist() == [EOS]
    assert "a" in vocabulary
    assert not any(word in vocabulary for word in (*SPECIAL, "c"))


def test_a_bad_line_is_refused_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "dict.en.txt"
    for content, message in (("a 1\nb\n", "line 2: not a word and"), ("a 1\na 2\n", "line 2: 'a' stands here again")):
        path.write_text(content)
        with pytest.raises(InputError, match=message):
            Vocabulary.read(path)


@pytest.mark.parametrize("symbol", ["", "a\n", "a\x85b", "\u2028", "a\udc80"])
def test_a_symbol_is_text_without_a_line_end(symbol: str) -> None:
    with pytest.raises(InputError, match="line end"):
        Vocabulary([*SPECIAL, "a", symbol])


@pytest.mark.parametrize(
    ("pieces", "words", "owner"),
    [
        ("a hel@@ l@@ o b", ["a", "hello", "b"], [0, 1, 1, 1, 2]),
        ("", [], []),
        ("@@@ -@@ @", ["@-@"], [0, 0, 0]),  # the dash of Moses, in pieces
        ("x @-@ y", ["x", "@-@", "y"], [0, 1, 2]),
        ("a@@ @", ["a@"], [0, 0]),
        ("▁the ▁ca t", ["the", "cat"], [0, 1, 1]),  # sentencepiece
        ("ca t ▁ sat ▁", ["cat", "sat", ""], [0, 0, 1, 1, 2]),
        ("le ch@@ </s>", ["le", "ch", "</s>"], [0, 1, 2]),  # a model may stop inside a word
        ("▁<unk>@@ ▁a", ["<unk>@@", "a"], [0, 1]),
    ],
)
def test_pieces_join_to_words(pieces: str, words: list[str], owner: list[int]) -> None:
    assert merge_pieces(pieces.split()) == (words, owner)
