"""Reading what fairseq-generate prints."""

from pathlib import Path

import numpy as np
import pytest

from recipes.reproduce.generated import generated_in_order, read_generated
from rnnsearch_fairseq.errors import InputError
from tests.files.builders import OUTPUT


def write(folder: Path, text: str) -> Path:
    path = folder / "generate-test.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_best_hypothesis_of_every_sentence_is_read(tmp_path: Path) -> None:
    translations = read_generated(write(tmp_path, OUTPUT))
    assert list(translations) == [12, 3]
    first, second = translations[12], translations[3]
    assert first.number == 12
    assert first.source == ["the", "ca@@", "t", "</s>"]
    assert first.reference == ["le", "chat", "d'", "ici"]
    assert first.target == ["le", "ch@@", "at", "</s>"]
    assert first.detokenised == "le chat"
    assert (second.source, second.target) == (["hello", "</s>"], ["bonjour", "</s>"])
    np.testing.assert_array_equal(second.alignment, [[0.9, 0.1], [0.2, 0.8]])
    assert first.alignment is not None
    assert first.alignment.shape == (4, 4)
    assert first.alignment[0].tolist() == [0.7, 0.1, 0.1, 0.1]


def test_references_and_alignments_may_be_missing(tmp_path: Path) -> None:
    (found,) = read_generated(write(tmp_path, "S-0\ta b\nH-0\t-1.0\tc\nD-0\t-1.0\tc\nP-0\t-1.0 -1.0\n")).values()
    assert (found.source, found.target) == (["a", "b", "</s>"], ["c", "</s>"])
    assert found.reference is found.alignment is None


def test_empty_sentences_are_read(tmp_path: Path) -> None:
    (found,) = read_generated(write(tmp_path, "S-0\t\nT-0\t\nH-0\t-1.0\t\nA-0\t1.000000\n")).values()
    assert (found.source, found.target, found.reference) == (["</s>"], ["</s>"], [])
    assert found.alignment.tolist() == [[1.0]]


def test_unusual_characters_do_not_split_lines(tmp_path: Path) -> None:
    text = "S-0\ta\u2028b \x85 c\nH-0\t-1.0\tS-1\n"
    (found,) = read_generated(write(tmp_path, text)).values()
    assert "".join(found.source) == "abc</s>"
    assert found.target == ["S-1", "</s>"]


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.txt: cannot be read"):
        read_generated(tmp_path / "nothing.txt")


def test_undecodable_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "output.txt"
    path.write_bytes(b"H-0\t-1\tA\rB\nS-0\tcaf\xe9\n")
    with pytest.raises(InputError, match=r"output\.txt, line 2: byte 0xe9 at column 8 is not UTF-8"):
        read_generated(path)


@pytest.mark.parametrize("text", ["", "BLEU4 = 42.00\n", "S-total\tno number\nSome-0\tother\n"])
def test_output_without_translations_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"no translations.*without --quiet"):
        read_generated(write(tmp_path, text))


@pytest.mark.parametrize("alignment", ["0-0 1-1 2-2", "0.5,0.5 1.0", "0.5,x 0.5,0.5"])
def test_hard_and_ragged_alignments_are_refused_with_their_line(tmp_path: Path, alignment: str) -> None:
    path = write(tmp_path, f"S-0\ta b\nH-0\t-1.0\tc d\nA-0\t{alignment}\n")
    with pytest.raises(InputError, match=r"generate-test\.txt, line 3: .*--print-alignment soft"):
        read_generated(path)


@pytest.mark.parametrize("line", ["H-1", "H-1\t-0.5", "H-1\tun chat", "D-1\t-0.5"])
def test_lines_that_are_cut_short_are_refused(tmp_path: Path, line: str) -> None:
    path = write(tmp_path, f"S-0\ta\nH-0\t-1.0\tb\nS-1\tc\n{line}\n")
    with pytest.raises(InputError, match=r"generate-test\.txt, line 4: .*cut short"):
        read_generated(path)


def test_sentence_without_translation_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "S-0\ta\nH-0\t-1.0\tb\nS-1\tc\nT-1\td\n")
    with pytest.raises(InputError, match=r"generate-test\.txt: sentence 1 has no translation \(no line H-1\)"):
        read_generated(path)


def test_whole_test_sets_are_in_order(tmp_path: Path) -> None:
    lines = {number: f"S-{number}\ta\nH-{number}\t-1.0\th{number}\n" for number in range(12)}
    order = [11, 3, *(set(lines) - {11, 3})]
    path = write(tmp_path, "".join(lines[number] for number in order))
    assert [found.target for found in generated_in_order(path)] == [[f"h{number}", "</s>"] for number in range(12)]
    for missing in (0, 7, 10):
        path = write(tmp_path, "".join(lines[number] for number in order if number != missing))
        with pytest.raises(InputError, match=rf"no sentence {missing}, but later ones"):
            generated_in_order(path)
