"""The fairseq model: search, batches, configuration, checkpoints, dropout and half precision."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from rnnsearch_fairseq.models.common import read_config
from rnnsearch_fairseq.models.rnnsearch import RNNsearchModel
from rnnsearch_fairseq.modules.rnnsearch import RNNsearchConfig
from tests.builders import EOS, PAD, make_dictionary, make_model, make_sample, pad, parse_training

EXACT = {"rtol": 0, "atol": 1e-12}
SINGLE = {"rtol": 0, "atol": 2e-5}  # fairseq takes the softmax, and sums scores, in float32
READOUTS = [{"readout_state": "previous"}, {"readout_state": "current"}]
FACTORS = [{"output_rank": 3}, {"output_rank": 0}]
ARCHS = {"bahdanau_gru": READOUTS, "rnnencdec": READOUTS, "groundhog_search": FACTORS, "groundhog_encdec": FACTORS}
MAX_LEN = 9


def draw(seed: int, lengths: list[int], words: int) -> list[list[int]]:
    """Sentences of ``lengths`` words and end-of-sentence."""
    rng = np.random.default_rng(seed)
    return [[*rng.integers(4, 4 + words, size=length).tolist(), EOS] for length in lengths]


SOURCES = draw(1, [6, 1, 9, 4], words=20)
TARGETS = draw(2, [3, 7, 1, 5], words=17)


@pytest.fixture(params=ARCHS)
def arch(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=[0, 1])
def model(request: pytest.FixtureRequest, arch: str) -> RNNsearchModel:
    return make_model(arch, **ARCHS[arch][request.param])


def forced(model: RNNsearchModel, source: list[int], previous: list[int]) -> tuple[Tensor, Tensor | None]:
    """Log-probabilities and attention of one sentence by itself, the words before each position given."""
    with torch.no_grad():
        logits, extra = model(torch.tensor([source]), torch.tensor([len(source)]), torch.tensor([previous]))
    (attn,) = extra["attn"]
    return torch.log_softmax(logits[0], dim=-1), None if attn is None else attn[0]


def positional(log_probs: Tensor, target: list[int]) -> Tensor:
    return log_probs[range(len(target)), target]


# -- batches --


@pytest.mark.parametrize("left", [False, True], ids=["right-padded", "left-padded"])
def test_score_depends_on_no_neighbour_and_on_no_padding(model: RNNsearchModel, left: bool) -> None:
    alone = [forced(model, source, [EOS, *target[:-1]]) for source, target in zip(SOURCES, TARGETS)]
    longer = [[5] * 15 + [EOS]]
    for sources, targets in ((SOURCES, TARGETS), (SOURCES + longer, TARGETS + longer)):
        logits, extra = model(**make_sample(sources, targets, left)["net_input"])
        for row, (source, target) in enumerate(zip(SOURCES, TARGETS)):
            expected, expected_attn = alone[row]
            log_probs = torch.log_softmax(logits[row, : len(target)], dim=-1)
            torch.testing.assert_close(log_probs, expected, **EXACT)
            if expected_attn is not None:
                attn = extra["attn"][0][row, : len(target)]
                words = pad(sources, left)[row] != PAD
                torch.testing.assert_close(attn[:, words], expected_attn, **EXACT)
                assert attn[:, ~words].eq(0).all()
                assert words.sum() == len(source)


# -- fairseq's generator --


def generator(models: list[RNNsearchModel], beam: int, **options: Any) -> SequenceGenerator:
    return SequenceGenerator(models, make_dictionary(17), beam_size=beam, max_len_b=MAX_LEN, **options)


def generate(
    models: list[RNNsearchModel], beam: int, sources: list[list[int]] = SOURCES, **options: Any
) -> list[list[dict[str, Tensor]]]:
    sample = make_sample(sources, [[EOS]] * len(sources), left=True)
    return generator(models, beam, **options).generate(models, sample)


def test_beam_scores_are_the_models_own_log_probabilities(model: RNNsearchModel) -> None:
    width = max(map(len, SOURCES))
    for source, hypotheses in zip(SOURCES, generate([model], beam=5)):
        assert len(hypotheses) == 5
        assert len({tuple(h["tokens"].tolist()) for h in hypotheses}) == 5
        assert all(better["score"] >= worse["score"] for better, worse in pairwise(hypotheses))
        for hypothesis in hypotheses:
            tokens = hypothesis["tokens"].tolist()
            log_probs, attn = forced(model, source, [EOS, *tokens[:-1]])
            expected = positional(log_probs, tokens)
            torch.testing.assert_close(hypothesis["positional_scores"].double(), expected, **SINGLE)
            assert hypothesis["score"].item() == pytest.approx(expected.sum().item() / len(tokens), abs=2e-5)
            if attn is not None:
                found = hypothesis["attention"].double().T  # the generator's is (src_len, tgt_len)
                torch.testing.assert_close(found[:, width - len(source) :], attn, **SINGLE)
                assert found[:, : width - len(source)].eq(0).all()


# -- configuration --


PAPER = {"embedding_size": 620, "hidden_size": 1000, "alignment_size": 1000, "maxout_size": 500, "maxout_pool": 2}
CODE = {"update_word": "current", "output_rank": 620, "readout_state": "previous"}
SMALL = {"embedding_size": 256, "hidden_size": 256, "alignment_size": 256, "maxout_size": 256, "maxout_pool": 2}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["bahdanau_gru"], {**PAPER, "context": "attention", "readout_state": "previous", "dropout": 0.0}),
        (["groundhog_search"], {**PAPER, **CODE, "context": "attention"}),
        (["bahdanau_gru_small", "--hidden-size", "64"], {**SMALL, "hidden_size": 64}),
        # An option that repeats the paper's value is still an option that was given.
        (["bahdanau_gru_small", "--embedding-size", "620"], {**SMALL, "embedding_size": 620}),
        (["rnnencdec", "--context", "attention", "--readout-state", "current"], {**PAPER, "context": "attention"}),
    ],
)
def test_architectures_of_the_command_line(words: list[str], expected: dict[str, Any]) -> None:
    cfg = read_config(parse_training("--arch", *words).model, RNNsearchConfig)
    assert {name: getattr(cfg, name) for name in expected} == expected


# -- dropout --


@pytest.mark.parametrize("rates", [{"dropout": 0.4}, {"readout_dropout": 0.4}])
def test_dropout_acts_in_training_only(arch: str, rates: dict[str, float]) -> None:
    net_input = make_sample(SOURCES, TARGETS)["net_input"]
    plain, model = make_model(arch), make_model(arch, **rates)
    expected = plain(**net_input)[0]
    assert torch.equal(model(**net_input)[0], expected), "dropout adds no parameters and does nothing in evaluation"
    model.train()
    torch.manual_seed(1)
    first, second = model(**net_input)[0], model(**net_input)[0]
    assert not torch.allclose(first, expected)
    assert not torch.allclose(first, second)
    torch.manual_seed(1)
    assert torch.equal(model(**net_input)[0], first)
