"""Data selection: against a computation by hand, with language models of the test's own."""

import math
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from recipes.wmt14_en_fr import selection
from recipes.wmt14_en_fr.selection import Scores, choose_best, select
from rnnsearch_fairseq.errors import InputError

LANGUAGES = ("en", "fr")


def write(prefix: Path, pairs: list[tuple[str, str]]) -> tuple[Path, Path]:
    paths = tuple(prefix.with_name(f"{prefix.name}.{language}") for language in LANGUAGES)
    for side, path in enumerate(paths):
        path.write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")
    return paths


def read(prefix: Path) -> list[tuple[str, str]]:
    sides = [prefix.with_name(f"{prefix.name}.{language}").read_text(encoding="utf-8") for language in LANGUAGES]
    return list(zip(*(side.splitlines() for side in sides), strict=True))


def unigrams(counts: Counter[str], words: int) -> Callable[[str], float]:
    """Add-one smoothing over ``words`` words; a sentence is its words and its end."""

    def score(sentence: str) -> float:
        tokens = [*sentence.split(), "</s>"]
        return sum(math.log10((counts[token] + 1) / (counts.total() + words)) for token in tokens)

    return score


def make_unigrams(text: Path, words: int) -> Callable[[str], float]:
    return unigrams(Counter(text.read_text(encoding="utf-8").replace("\n", " </s> ").split()), words)


@pytest.fixture
def small_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "make_language_model", make_unigrams)


# Scores


GENERAL = [("the cat", "le chat"), ("", "vide"), ("a stock rises", "une action monte"), ("the end", ""), ("b", "b")]
IN_DOMAIN = [("a stock", "une action"), ("stock a", "action une"), ("x </s>", "y </s>"), ("</s>", "</s>")]


def test_scores_are_those_of_a_computation_by_hand(tmp_path: Path, small_models: None) -> None:
    general, in_domain = write(tmp_path / "general", GENERAL), write(tmp_path / "in", IN_DOMAIN)
    scores, _ = select(general, in_domain, tuple(tmp_path / f"out.{x}" for x in LANGUAGES), max_words=3)
    *halves, _ = selection.draw_samples(GENERAL, 4)
    assert sorted(map(len, halves)) == [1, 2], "three pairs have words on both sides"
    expected = np.zeros(5)
    for side in (0, 1):
        # Twice or more in the in-domain text, and not a mark of the models': "a" and "stock".
        vocabulary = {pair[side].split()[k] for pair in IN_DOMAIN[:1] for k in (0, 1)}
        models = []
        for pairs in (IN_DOMAIN, *([GENERAL[i] for i in half] for half in halves)):
            tokens = Counter()
            for pair in pairs:
                tokens += Counter(w if w in vocabulary else "other" for w in pair[side].split())
                tokens["end"] += 1
            models.append(tokens)
        for i, pair in enumerate(GENERAL):
            words = [w if w in vocabulary else "other" for w in pair[side].split()] + ["end"]
            # a, stock, other, end-of-sentence and <unk>
            entropies = [
                -sum(math.log2((tokens[w] + 1) / (tokens.total() + 5)) for w in words) / len(words) for tokens in models
            ]
            expected[i] += entropies[0] - entropies[2 if i in halves[0] else 1]
    expected[[1, 3]] = np.inf
    np.testing.assert_allclose(scores.differences, expected, rtol=1e-12)
    assert scores.words.tolist() == [2, 1, 3, 0, 1]
    assert read(tmp_path / "out") == [GENERAL[expected.argmin()]]
    assert not list(tmp_path.glob(".*")), "temporary files are gone"


@pytest.mark.parametrize(
    ("words", "selected"),
    [(6, []), (15, [1, 2, 4, 5]), (14, [1, 2, 4]), (99, [0, 1, 2, 4, 5])],  # never the one of an empty side
)
def test_the_best_are_chosen_and_of_equals_the_first(words: int, selected: list[int]) -> None:
    scores = Scores(np.array([9.0, -1, -1, np.inf, -3, -1]), np.array([1, 3, 4, 0, 7, 1], dtype=np.int32))
    assert np.flatnonzero(choose_best(scores, words)).tolist() == selected


def test_the_command_writes_lines_as_they_are_and_spares_its_input(
    tmp_path: Path, small_models: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "general", GENERAL)
    write(tmp_path / "in", IN_DOMAIN)
    (tmp_path / "general.en").write_bytes(b"the cat\n\na stock  rises \r\nthe end\nb")
    words = [*(str(tmp_path / name) for name in ("general", "in", "out")), "-s", "en", "-t", "fr", "--words", "5"]
    monkeypatch.setattr(sys, "argv", ["selection", *words])
    selection.main()
    assert (tmp_path / "out.en").read_bytes() == b"a stock  rises \r\nb\n"
    assert (tmp_path / "out.fr").read_bytes() == b"une action monte\nb\n"
    sys.argv[3] = str(tmp_path / "in")
    with pytest.raises(InputError, match=r"in\.en"):
        selection.main()
    assert read(tmp_path / "in") == IN_DOMAIN
