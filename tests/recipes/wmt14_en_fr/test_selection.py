"""Data selection: against a computation by hand, with language models of the test's own."""

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from recipes.wmt14_en_fr import selection
from recipes.wmt14_en_fr.selection import choose_best, score_pairs
from tests.commands import printed_by
from tests.recipes.reproduce.builders import write

LANGUAGES = ("en", "fr")


def write_pairs(name: str, pairs: list[tuple[str, str]]) -> tuple[Path, Path]:
    return tuple(write(Path(f"{name}.{language}"), side) for language, side in zip(LANGUAGES, zip(*pairs)))


def make_unigrams(text: Path, words: int) -> Callable[[str], float]:
    """Add-one smoothing over ``words`` words; a sentence is its words and its end."""
    counts = Counter(text.read_text(encoding="utf-8").replace("\n", " </s> ").split())

    def score(sentence: str) -> float:
        tokens = [*sentence.split(), "</s>"]
        return sum(math.log10((counts[token] + 1) / (counts.total() + words)) for token in tokens)

    return score


@pytest.fixture(autouse=True)
def _small_models_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "make_language_model", make_unigrams)
    monkeypatch.chdir(tmp_path)


GENERAL = [("the cat", "le chat"), ("", "vide"), ("a stock rises", "une action monte"), ("the end", ""), ("b", "b")]
IN_DOMAIN = [("a stock", "une action"), ("stock a", "action une"), ("x </s>", "y </s>"), ("</s>", "</s>")]


def test_scores_are_those_of_a_computation_by_hand() -> None:
    general, in_domain = write_pairs("general", GENERAL), write_pairs("in", IN_DOMAIN)
    differences, words = score_pairs(general, in_domain, Path())
    sample = [pair for pair in GENERAL if all(pair)]  # three pairs only have words on both sides
    expected = np.zeros(5)
    for side in (0, 1):
        # Twice or more in the in-domain text, and not a mark of the models': "a" and "stock".
        vocabulary = {*IN_DOMAIN[0][side].split()}
        entropies = []
        for pairs in (IN_DOMAIN, sample):
            tokens = Counter(w if w in vocabulary else "other" for pair in pairs for w in pair[side].split())
            tokens["end"] = len(pairs)
            known = (*vocabulary, "other", "end")  # a, stock, other and end-of-sentence; the fifth is <unk>
            bits = {word: -math.log2((tokens[word] + 1) / (tokens.total() + 5)) for word in known}
            sentences = [[*(w if w in vocabulary else "other" for w in pair[side].split()), "end"] for pair in GENERAL]
            entropies.append(np.array([sum(bits[word] for word in words) / len(words) for words in sentences]))
        expected += entropies[0] - entropies[1]
    expected[[1, 3]] = np.inf
    np.testing.assert_allclose(differences, expected, rtol=1e-12)
    assert words.tolist() == [2, 1, 3, 0, 1]


def test_a_sample_has_pairs_with_words_on_both_sides() -> None:
    general = write_pairs("general", [("", "x"), *((f"s{n}", f"t{n}") for n in range(100))])
    sample = selection.draw_sample(general, 30)
    assert len(sample) == 30 and 0 not in sample and max(sample) > 50
    assert selection.draw_sample(general, 200) == {*range(1, 101)}


@pytest.mark.parametrize(
    ("words", "selected"),
    [(6, []), (15, [1, 2, 4, 5]), (14, [1, 2, 4]), (99, [0, 1, 2, 4, 5])],  # never the one of an empty side
)
def test_the_best_are_chosen_and_of_equals_the_first(words: int, selected: list[int]) -> None:
    differences, sizes = np.array([9.0, -1, -1, np.inf, -3, -1]), np.array([1, 3, 4, 0, 7, 1], dtype=np.int32)
    assert np.flatnonzero(choose_best(differences, sizes, words)).tolist() == selected


def test_the_command_writes_lines_as_they_are() -> None:
    write_pairs("general", GENERAL)
    write_pairs("in", IN_DOMAIN)
    Path("general.en").write_bytes(b"the cat\n\na stock  rises \r\nthe end\nb")
    printed_by(selection.main, "general", "in", "out", "-s", "en", "-t", "fr", "--words", "5")
    assert Path("out.en").read_bytes() == b"a stock  rises \r\nb\n"
    assert Path("out.fr").read_bytes() == b"une action monte\nb\n"
    assert not list(Path().glob(".*")), "temporary files are gone"
