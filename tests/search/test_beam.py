"""Our default search against fairseq's: the same hypotheses, in the same order, with the same scores."""

from typing import Any
from unittest.mock import Mock

import pytest
import torch

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.plugin.models import RNNsearchModel
from rnnsearch_fairseq.search.steps import GROUP, best_continuations
from tests.builders import EOS, UNK, make_model, make_sample
from tests.plugin import builders as trees
from tests.search.builders import assert_as_by_fairseq, assert_close, search

WORDS = 150  # three groups, of which the last is not full
SOURCES = [[5, 6, 7, 8, 9, EOS], [7, EOS], [4, 4, 10, EOS], [9, 8, 7, 6, 5, 4, 10, 11, EOS]]


def draw_model(arch: str = "bahdanau_gru", end: float = 2.0, **options: Any) -> RNNsearchModel:
    """A tiny model in which hypotheses end early and late."""
    model = make_model(arch, target_words=WORDS, **options).float()
    with torch.no_grad():
        model.decoder.network.to_vocabulary.bias[EOS] += end
    return model


def batch(sources: list[list[int]] = SOURCES, left: bool = True) -> dict[str, Any]:
    return make_sample(sources, [[EOS]] * len(sources), left)


@pytest.mark.parametrize("arch", ["bahdanau_gru", "rnnencdec", "groundhog_search", "groundhog_encdec"])
@pytest.mark.parametrize("beam", [1, 2, 5, 12])
@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
def test_the_hypotheses_are_fairseqs(arch: str, beam: int, left: bool) -> None:
    found = assert_as_by_fairseq([draw_model(arch)], batch(left=left), beam=beam, max_len_b=30)
    assert len({len(h.words) for hypotheses in found for h in hypotheses}) > 1 or beam < 5


@pytest.mark.parametrize(
    "options",
    [
        {"lenpen": 0.3},
        {"unnormalized": True},
        {"unkpen": 3.0},
        {"unkpen": float("inf")},
        {"unkpen": -30.0},
        {"min_len": 4},
        {"max_len_b": 2},
        {"max_len_b": 1},
        {"beam": 80},  # more candidates than words
    ],
    ids=str,
)
def test_options_have_fairseqs_effect(options: dict[str, Any]) -> None:
    assert_as_by_fairseq([draw_model(readout_state="current")], batch(), **{"beam": 4, "max_len_b": 20, **options})


def test_the_limit_of_length_is_the_sentences_own() -> None:
    model, options = draw_model(end=-50.0), {"beam": 3, "max_len_a": 0.5, "max_len_b": 1}
    for source, together in zip(SOURCES, search([model], batch(), **options)):
        alone = assert_as_by_fairseq([model], batch([source]), **options)[0]
        assert [h.words for h in together] == [h.words for h in alone]
        assert {len(h.words) for h in together} == {len(source) // 2 + 2}


def test_an_unknown_word_that_is_favoured_is_found_among_many_words() -> None:
    """Its score becomes the maximum of its group, and there are more groups than the search looks into."""
    model = make_model(target_words=40 * GROUP).float()
    found = assert_as_by_fairseq([model], batch(), beam=1, max_len_b=9, unkpen=-12.0)
    words = [word for hypotheses in found for word in hypotheses[0].words]
    assert 0 < words.count(UNK) < len(words)


def test_an_ensemble() -> None:
    models = [draw_model(), draw_model("groundhog_search")]
    assert_as_by_fairseq(models, batch(), beam=4, max_len_b=30)
    models[0] = draw_model("rnnencdec")  # which has no attention to average
    for best, *_ in search(models, batch(), beam=4, max_len_b=30):
        assert_close(best.weights.sum(dim=1), torch.ones(len(best.words)), atol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"constituents": "words", "reverse_source": True}], ids=["tree2seq", "anmt"])
@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
def test_tree2seq(settings: dict[str, Any], left: bool) -> None:
    models = [trees.make_model(hidden_size=size, **settings).float() for size in (6, 9)]
    sample = trees.make_batch(trees.SOURCES, trees.TARGETS, trees.TREES, left)
    for chosen in (models[:1], models):
        found = assert_as_by_fairseq(chosen, sample, beam=3, max_len_b=12)
    columns = sample["net_input"]["src_tokens"].size(1) + (0 if settings else 3)
    assert found[0][0].weights.shape == (len(found[0][0].words), columns)
    assert_close(found[0][0].weights.sum(dim=1), torch.ones(len(found[0][0].words)), atol=1e-5)


@pytest.mark.parametrize("search_name", ["fairseq", "groundhog", "tree2seq"])
def test_a_batch_gives_what_its_sentences_give_and_nothing_for_no_words(search_name: str) -> None:
    model, options = draw_model(), {"search": search_name, "beam": 5, "unnormalized": search_name != "tree2seq"}
    sources = [[EOS], *SOURCES, [EOS]]
    together = search([model], batch(sources), **options)
    for source, hypotheses in zip(sources, together):
        (alone,) = search([model], batch([source]), **options)
        assert [h.words for h in hypotheses] == [h.words for h in alone]
        for ours, other in zip(hypotheses, alone):
            assert ours.score == pytest.approx(other.score, abs=1e-4)
            if len(source) > 1:
                assert_close(ours.weights[:, -len(source) :], other.weights, atol=1e-5)  # padded on the left
    for (only,) in (together[0], together[-1]):
        assert (only.words, only.score, only.logprobs.tolist(), only.weights) == ([EOS], 0.0, [0.0], None)


@pytest.mark.parametrize("search_name", ["fairseq", "groundhog", "tree2seq"])
def test_an_exception_after_a_step_ends_the_search(search_name: str) -> None:
    with pytest.raises(ZeroDivisionError):
        search([draw_model()], batch(), Mock(side_effect=[None, ZeroDivisionError]), search=search_name)


def test_of_a_least_length_above_the_greatest_the_greatest_is_taken() -> None:
    for best, *_ in search([draw_model()], batch(), min_len=5, max_len_b=4):
        assert len(best.words) == 5 and best.words[-1] == EOS


def test_scores_that_are_not_numbers_are_refused() -> None:
    model = draw_model()
    model.decoder.network.to_vocabulary.weight.data[7] = float("nan")
    with pytest.raises(InputError, match="not numbers"):
        search([model], batch())


def test_the_best_continuations_are_the_best() -> None:
    generator, words = torch.Generator().manual_seed(6), 3 * GROUP - 5
    for sizes in ([2, 2, 2], [3, 1, 2], [1], [1, 4]):
        log_probs = torch.randn(sum(sizes), words, generator=generator, dtype=torch.float64)
        log_probs[torch.rand(log_probs.shape, generator=generator) < 0.9] = -torch.inf
        totals = torch.randn(sum(sizes), generator=generator, dtype=torch.float64)
        sums = (log_probs + totals.unsqueeze(1)).tolist()
        for count in (1, 5, 40, 500):
            rows = iter(range(len(sums)))
            for size, found in zip(sizes, best_continuations(log_probs.clone(), totals, sizes, count), strict=True):
                chosen = [next(rows) for _ in range(size)]
                of_sentence = [(sums[row][word], row, word) for row in chosen for word in range(words)]
                expected = sorted((c for c in of_sentence if c[0] > -torch.inf), reverse=True)[:count]
                assert found == expected
