"""MinimumLength around fairseq's searches."""

import math

import pytest
import torch
from fairseq.search import BeamSearch, Sampling
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import OmegaConf

from rnnsearch_fairseq.models.rnnsearch import RNNsearchModel
from rnnsearch_fairseq.search.delegating import MinimumLength
from tests.builders import EOS, make_dictionary, make_model, make_sample

LENGTHS = [1, 2, 5, 8, 3]  # with end-of-sentence


@pytest.fixture
def model() -> RNNsearchModel:
    """A model that prefers end-of-sentence at every step."""
    model = make_model()
    with torch.no_grad():
        model.decoder.translator.readout.to_vocabulary.bias[EOS] = 25
    return model


def translations(model: RNNsearchModel, **options: object) -> list[list[list[int]]]:
    task = TranslationTask(TranslationConfig(), make_dictionary(20), make_dictionary(17))
    sample = make_sample([[7] * (length - 1) + [EOS] for length in LENGTHS], [[EOS]] * len(LENGTHS), left=True)
    generator = task.build_generator([model], OmegaConf.create(options))
    return [[h["tokens"].tolist() for h in hypotheses] for hypotheses in generator.generate([model], sample)]


@pytest.mark.parametrize("sampling", [False, True])
@pytest.mark.parametrize("share", [0.5, 1.0, 1.7])
def test_no_translation_is_shorter_than_its_share_of_the_source(
    model: RNNsearchModel, share: float, sampling: bool
) -> None:
    torch.manual_seed(1)
    for length, hypotheses in zip(LENGTHS, translations(model, beam=3, min_len_a=share, sampling=sampling)):
        # The model ends as soon as the minimum allows.
        assert min(len(words) - 1 for words in hypotheses) == max(1, math.floor(share * length))


def test_without_it_the_model_ends_at_once(model: RNNsearchModel) -> None:
    assert all(len(hypotheses[0]) == 2 for hypotheses in translations(model, beam=3))


def test_sentences_do_not_change_one_anothers_minimum(model: RNNsearchModel) -> None:
    """Finished sentences leave the batch, so the lengths must leave with them."""
    together = translations(model, beam=2, min_len_a=1.0)
    assert [len(hypotheses[0]) - 1 for hypotheses in together] == LENGTHS


def test_the_longest_translation_bounds_the_shortest(model: RNNsearchModel) -> None:
    for hypotheses in translations(model, beam=2, min_len_a=3.0, max_len_b=4):
        assert all(len(words) <= 5 and words[-1] == EOS for words in hypotheses)


def test_it_has_the_attributes_of_the_wrapped_search() -> None:
    words = make_dictionary(5)
    for inner in (BeamSearch(words), Sampling(words)):
        wrapped = MinimumLength(words, inner, 0.5, 0, 200)
        assert wrapped.stop_on_max_len == inner.stop_on_max_len
        assert wrapped.supports_constraints == inner.supports_constraints
        wrapped.set_src_lengths(torch.tensor([4]))
        assert inner.src_lengths.tolist() == [4]
