"""The fairseq model: configuration and dropout."""

from typing import Any

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from rnnsearch_fairseq.modules.rnnsearch import RNNsearchConfig
from rnnsearch_fairseq.plugin.models import read_config
from tests.builders import EOS, make_model, make_sample, parse_training

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


SOURCES, TARGETS = [[5, 9, 7, 4, EOS], [8, EOS]], [[7, 8, EOS], [5, 4, 6, 9, EOS]]


@pytest.mark.parametrize("arch", ["bahdanau_gru", "rnnencdec", "groundhog_search"])
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


def test_fairseqs_own_search_computes_the_keys_of_the_source_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls = make_model("bahdanau_gru"), []
    attention = model.decoder.network.attention
    monkeypatch.setattr(
        attention, "encode_keys", lambda *args, keys=attention.encode_keys: calls.append(args) or keys(*args)
    )
    SequenceGenerator([model], model.decoder.dictionary, beam_size=2).generate([model], make_sample(SOURCES, TARGETS))
    assert len(calls) == 1
