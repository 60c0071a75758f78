"""GroundHog's search against a NumPy transcription of the original's, and against recorded translations."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils

from rnnsearch_fairseq.search import Hypothesis
from tests.builders import EOS, PAD, from_original, groundhog_model, make_sample
from tests.recipes.groundhog.builders import convert_recorded
from tests.reference import groundhog as reference
from tests.reference.groundhog import constant_model
from tests.reference.recorded import needs_recorded, recorded
from tests.search import builders

N_SOURCE, N_TARGET = 14, 12
LENGTHS = [6, 2, 9, 4, 3]  # with end-of-sentence
EXACT = {"rtol": 0, "atol": 1e-9}


def search(models: list[Any], sources: list[list[int]], **options: Any) -> list[list[Hypothesis]]:
    sample = make_sample(sources, [[EOS]] * len(sources), left=True)
    return builders.search(models, sample, search="groundhog", **{"unnormalized": True, **options})


# -- against the transcription --


@pytest.mark.parametrize("encdec", [False, True], ids=["search", "encdec"])
@pytest.mark.parametrize("ban", [False, True], ids=["", "banned"])
@pytest.mark.parametrize("beam", [1, 4, 10])
def test_all_hypotheses_of_a_batch(encdec: bool, ban: bool, beam: int) -> None:
    rng = np.random.default_rng(1)
    params = reference.random_arrays(n=6, m=5, n_source=N_SOURCE, n_target=N_TARGET, encdec=encdec)
    params["b_dec_deep_softmax"][-1] += 1  # otherwise few hypotheses end
    sources = [[*rng.integers(1, N_SOURCE - 1, size=length - 1).tolist(), N_SOURCE - 1] for length in LENGTHS]
    batch = [from_original(source, N_SOURCE) for source in sources]
    found = search([groundhog_model(params)], batch, beam=beam, unkpen=math.inf if ban else 0.0)
    for source, hypotheses in zip(sources, found, strict=True):
        expected = reference.beam_search(params, source, beam, eos=N_TARGET - 1, unk=1, ban_unknown=ban)
        assert [h.words for h in hypotheses] == [from_original(ids, N_TARGET) for ids, _ in expected]
        np.testing.assert_allclose([-h.score for h in hypotheses], [cost for _, cost in expected], **EXACT)


@pytest.mark.parametrize(
    "probabilities",
    [
        # unused, unknown, two words, end-of-sentence
        [0, 0.21, 0.37, 0.29, 0.13],
        # End-of-sentence is too unlikely for a narrow beam, which is doubled repeatedly.
        [0, 0.3, 0.35, 0.34, 0.01],
        # All words before the end are unknown; without them no hypothesis is left.
        [0, 0.9, 0, 0, 0.1],
        # Without unknown words, the other word is so likely that end-of-sentence never enters the beam.
        [0, 0.5, 0.5 - 1e-9, 0, 1e-9],
    ],
)
@pytest.mark.parametrize("ban", [False, True])
@pytest.mark.parametrize("beam", [1, 2, 5])
def test_limits_and_fallbacks(probabilities: list[float], ban: bool, beam: int) -> None:
    params = constant_model(probabilities)
    size, words = len(params["W_0_enc_approx_embdr"]), len(probabilities)
    sources = [[2] * (length - 1) + [size - 1] for length in (2, 5, 4)]
    batch = [from_original(source, size) for source in sources]
    found = search([groundhog_model(params)], batch, beam=beam, unkpen=math.inf if ban else 0.0)
    for source, hypotheses in zip(sources, found, strict=True):
        # Permutations of the same words cost the same: compare costs and lengths only.
        expected = reference.beam_search(params, source, beam, eos=words - 1, unk=1, ban_unknown=ban)
        np.testing.assert_allclose([-h.score for h in hypotheses], [cost for _, cost in expected], **EXACT)
        assert sorted(len(h.words) for h in hypotheses) == sorted(len(ids) for ids, _ in expected)


def test_fallbacks_and_failures_are_logged(warned: pytest.LogCaptureFixture) -> None:
    model = groundhog_model(constant_model([0, 0.9, 0, 0, 0.1]))
    found = search([model], [[5, EOS], [EOS], [5, 5, 5, EOS]], beam=2, unkpen=math.inf)
    assert "2 of 2 sentences have no finished hypothesis: unknown words are now allowed" in warned.text
    assert all(h.words[:-1] == [3] * (len(h.words) - 1) for hypotheses in found for h in hypotheses)
    model = groundhog_model(constant_model([0, 0.5, 0.3, 0.2, 0]))
    ((only,),) = search([model], [[5, EOS]], beam=300)
    assert (only.words, only.score, only.logprobs.tolist()) == ([EOS], -math.inf, [-math.inf])
    assert "the beam is doubled to 600" in warned.text
    assert "1 of 1 sentences have no finished hypothesis: the translation is empty" in warned.text


# -- against the original program --


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    folder = convert_recorded("search", tmp_path_factory.mktemp("converted"))
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(folder / "checkpoint.pt")], arg_overrides={"data": str(folder)}
    )
    return model.eval(), task


@pytest.mark.slow
@needs_recorded
@pytest.mark.parametrize(
    ("mode", "options"),
    [("raw", {}), ("normalized", {"unnormalized": False}), ("unknown_banned", {"unkpen": math.inf})],
)
def test_recorded_translations_word_for_word(converted: tuple[Any, Any], mode: str, options: dict[str, Any]) -> None:
    model, task = converted
    expected = recorded("search_translations_20.json")
    dictionary = task.target_dictionary
    sources = [task.source_dictionary.encode_line(line, add_if_not_exist=False).tolist() for line in expected["source"]]
    assert not any(PAD in source for source in sources)
    found = [best for best, *_ in search([model], sources, beam=10, **options)]
    texts = [dictionary.string(torch.tensor(h.words)).replace(dictionary.unk_word, "UNK") for h in found]
    assert texts == expected[mode]
    assert -sum(h.score for h in found) == pytest.approx(expected["total_cost"][mode], abs=1e-3)
