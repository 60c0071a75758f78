"""Reading what fairseq-generate prints, and alignments of pieces made alignments of words."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rnnsearch_fairseq.analysis.generate_output import (
    Translation,
    read_translations,
    translations_in_order,
    word_alignment,
    words_of,
)
from rnnsearch_fairseq.errors import InputError

# As fairseq-generate --nbest 2 --print-alignment soft prints it, with its log and its last line.
OUTPUT = """2024-05-01 10:00:00 | INFO | fairseq_cli.generate | loading model(s) from checkpoint_best.pt
S-12\tthe ca@@ t
T-12\tle chat d' ici
H-12\t-0.25\tle ch@@ at
D-12\t-0.25\tle chat
P-12\t-0.1 -0.2 -0.3 -0.4
A-12\t0.700000,0.100000,0.100000,0.100000 0.000000,0.500000,0.250000,0.250000 0.100000,0.300000,0.400000,0.200000 \
0.000000,0.000000,0.000000,1.000000
H-12\t-0.50\tun chat
D-12\t-0.50\tun chat
P-12\t-0.5 -0.5 -0.5
A-12\t1.000000,0.000000,0.000000,0.000000 0.000000,1.000000,0.000000,0.000000 0.000000,0.000000,0.000000,1.000000
S-3\thello
T-3\tbonjour
H-3\t-1.5e-01\tbonjour
D-3\t-1.5e-01\tbonjour
P-3\t-0.1 -0.2
A-3\t0.900000,0.100000 0.200000,0.800000
2024-05-01 10:00:01 | INFO | fairseq_cli.generate | Translated 2 sentences (7 tokens) in 0.1s
Generate test with beam=5: BLEU4 = 42.00, 80.0/60.0/40.0/20.0 (BP=1.000, ratio=1.000, syslen=7, reflen=7)
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "generate-test.txt"
    path.write_text(text, encoding="utf-8")
    return path


def translation(source: str, hypothesis: str, rows: list[list[float]] | None = None) -> Translation:
    alignment = None if rows is None else np.array(rows)
    return Translation(7, source.split(), hypothesis.split(), alignment=alignment)


def test_best_hypothesis_of_every_sentence_is_read(tmp_path: Path) -> None:
    translations = read_translations(write(tmp_path, OUTPUT))
    assert list(translations) == [12, 3]
    first, second = translations[12], translations[3]
    assert (first.number, first.score) == (12, -0.25)
    assert first.source == ["the", "ca@@", "t"]
    assert first.reference == ["le", "chat", "d'", "ici"]
    assert first.hypothesis == ["le", "ch@@", "at"]
    assert first.detokenised == "le chat"
    assert (second.source, second.hypothesis, second.score) == (["hello"], ["bonjour"], -0.15)
    np.testing.assert_array_equal(second.alignment, [[0.9, 0.1], [0.2, 0.8]])
    assert first.alignment is not None
    assert first.alignment.shape == (4, 4)
    assert first.alignment[0].tolist() == [0.7, 0.1, 0.1, 0.1]


def test_references_and_alignments_may_be_missing(tmp_path: Path) -> None:
    (found,) = read_translations(write(tmp_path, "S-0\ta b\nH-0\t-1.0\tc\nD-0\t-1.0\tc\nP-0\t-1.0 -1.0\n")).values()
    assert (found.source, found.hypothesis, found.reference, found.alignment) == (["a", "b"], ["c"], None, None)


def test_empty_sentences_are_read(tmp_path: Path) -> None:
    (found,) = read_translations(write(tmp_path, "S-0\t\nT-0\t\nH-0\t-1.0\t\nA-0\t1.000000\n")).values()
    assert (found.source, found.hypothesis, found.reference) == ([], [], [])
    source, target, weights = word_alignment(found)
    assert (source, target, weights.tolist()) == (["</s>"], ["</s>"], [[1.0]])


def test_unusual_characters_do_not_split_lines(tmp_path: Path) -> None:
    text = "S-0\ta\u2028b \x85 c\nH-0\t-1.0\tS-1\n"
    (found,) = read_translations(write(tmp_path, text)).values()
    assert "".join(found.source) == "abc"
    assert found.hypothesis == ["S-1"]


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.txt: cannot be read"):
        read_translations(tmp_path / "nothing.txt")


def test_undecodable_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "output.txt"
    path.write_bytes(b"S-0\tcaf\xe9\n")
    with pytest.raises(InputError, match=r"output\.txt: cannot be read"):
        read_translations(path)


@pytest.mark.parametrize("text", ["", "BLEU4 = 42.00\n", "S-total\tno number\nSome-0\tother\n"])
def test_output_without_translations_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"no translations.*without --quiet"):
        read_translations(write(tmp_path, text))


@pytest.mark.parametrize("alignment", ["0-0 1-1 2-2", "0.5,0.5 1.0", "0.5,x 0.5,0.5"])
def test_hard_and_ragged_alignments_are_refused_with_their_line(tmp_path: Path, alignment: str) -> None:
    path = write(tmp_path, f"S-0\ta b\nH-0\t-1.0\tc d\nA-0\t{alignment}\n")
    with pytest.raises(InputError, match=r"generate-test\.txt, line 3: .*--print-alignment soft"):
        read_translations(path)


@pytest.mark.parametrize("line", ["H-1", "H-1\t-0.5", "H-1\tun chat", "D-1\t-0.5"])
def test_lines_that_are_cut_short_are_refused(tmp_path: Path, line: str) -> None:
    path = write(tmp_path, f"S-0\ta\nH-0\t-1.0\tb\nS-1\tc\n{line}\n")
    with pytest.raises(InputError, match=r"generate-test\.txt, line 4: .*cut short"):
        read_translations(path)


def test_sentence_without_translation_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "S-0\ta\nH-0\t-1.0\tb\nS-1\tc\nT-1\td\n")
    with pytest.raises(InputError, match=r"generate-test\.txt: sentence 1 has no translation \(no line H-1\)"):
        read_translations(path)


def test_whole_test_sets_are_in_order(tmp_path: Path) -> None:
    lines = {number: f"S-{number}\ta\nH-{number}\t-1.0\th{number}\n" for number in range(12)}
    order = [11, 3, *(set(lines) - {11, 3})]
    path = write(tmp_path, "".join(lines[number] for number in order))
    assert [found.hypothesis for found in translations_in_order(path)] == [[f"h{number}"] for number in range(12)]
    for missing in (0, 7, 10):
        path = write(tmp_path, "".join(lines[number] for number in order if number != missing))
        with pytest.raises(InputError, match=rf"no sentence {missing}, but later ones"):
            translations_in_order(path)


# -- words --


@pytest.mark.parametrize(
    ("pieces", "words", "owner"),
    [
        ("hel@@ lo", ["hello"], [0, 0]),
        ("a hel@@ l@@ o b", ["a", "hello", "b"], [0, 1, 1, 1, 2]),
        ("a b", ["a", "b"], [0, 1]),
        ("", [], []),
        ("@@@ -@@ @", ["@-@"], [0, 0, 0]),  # the dash of Moses, in pieces
        ("x @-@ y", ["x", "@-@", "y"], [0, 1, 2]),
        ("a@@ @", ["a@"], [0, 0]),
        ("▁the ▁ca t", ["the", "cat"], [0, 1, 1]),  # sentencepiece
        ("ca t ▁ sat ▁", ["cat", "sat", ""], [0, 0, 1, 1, 2]),
        ("▁<unk>@@ ▁a", ["<unk>@@", "a"], [0, 1]),
    ],
)
def test_pieces_join_to_words(pieces: str, words: list[str], owner: list[int]) -> None:
    assert words_of(pieces.split()) == (words, owner)


@settings(deadline=None)
@given(words=st.lists(st.lists(st.text("abé'", min_size=1, max_size=4), min_size=1, max_size=4), max_size=8))
def test_every_piece_goes_into_its_word(words: list[list[str]]) -> None:
    pieces = [piece + "@@" * (k < len(word) - 1) for word in words for k, piece in enumerate(word)]
    joined, owner = words_of(pieces)
    assert joined == ["".join(word) for word in words]
    assert owner == [number for number, word in enumerate(words) for _ in word]


def test_pieces_of_a_source_word_are_added_and_of_a_target_word_averaged(tmp_path: Path) -> None:
    source, target, weights = word_alignment(read_translations(write(tmp_path, OUTPUT))[12])
    assert source == ["the", "cat", "</s>"]
    assert target == ["le", "chat", "</s>"]
    np.testing.assert_allclose(weights, [[0.7, 0.2, 0.1], [0.05, 0.725, 0.225], [0, 0, 1]], atol=1e-12)


@settings(deadline=None)
@given(
    source=st.lists(st.sampled_from(["a", "b@@"]), max_size=6).map(lambda pieces: [*pieces, "z"]),
    target=st.lists(st.sampled_from(["c", "d@@"]), max_size=6).map(lambda pieces: [*pieces, "z"]),
    seed=st.integers(0, 99),
)
def test_rows_of_words_sum_to_one(source: list[str], target: list[str], seed: int) -> None:
    alignment = np.random.default_rng(seed).dirichlet(np.ones(len(source) + 1), size=len(target) + 1)
    found_source, found_target, weights = word_alignment(Translation(0, source, target, alignment=alignment))
    assert weights.shape == (len(found_target), len(found_source))
    assert (found_source[-1], found_target[-1]) == ("</s>", "</s>")
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(weights[-1, -1], alignment[-1, -1], atol=1e-12)


def test_sentence_that_ends_inside_a_word_keeps_its_end_of_sentence() -> None:
    """A model may stop after a piece that wants another one: end-of-sentence is no part of that word."""
    alignment = [[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.0, 0.0, 1.0]]
    source, target, weights = word_alignment(translation("the cat", "le ch@@", alignment))
    assert source == ["the", "cat", "</s>"]
    assert target == ["le", "ch", "</s>"]
    np.testing.assert_array_equal(weights, alignment)


def test_translation_without_alignment_is_refused() -> None:
    with pytest.raises(InputError, match=r"entence 7 has no alignment.*--print-alignment soft"):
        word_alignment(translation("a b", "c"))


@pytest.mark.parametrize("rows", [[[0.5, 0.5]], [[1.0], [1.0]], [[0.2, 0.3, 0.5]] * 3, []])
def test_alignment_of_another_size_is_refused(rows: list[list[float]]) -> None:
    with pytest.raises(InputError, match=r"entence 7: .*\(2, 3\).*--remove-bpe"):
        word_alignment(translation("a b", "c", rows))
