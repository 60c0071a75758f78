"""The options of the networks: which values are refused, and what is filled in."""

from typing import Any

import pytest

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.config import NetworkConfig
from rnnsearch_fairseq.modules.rnnsearch import ARCHITECTURES, RNNsearchConfig
from rnnsearch_fairseq.modules.tree2seq import Tree2SeqConfig

ALL, OUTPUT = {"share_all_embeddings": True}, {"share_decoder_input_output_embed": True}
WIDE = {"embedding_size": 6, "maxout_size": 6, "output_rank": 0}


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (RNNsearchConfig, {"hidden_size": 0}, "--hidden-size is 0, but a size must be at least 1"),
        (RNNsearchConfig, {"maxout_pool": -1}, "--maxout-pool is -1, but a size must be at least 1"),
        (RNNsearchConfig, {"output_rank": -1}, "--output-rank is -1, but it must be a size, or 0"),
        (RNNsearchConfig, {"dropout": 1.0}, r"--dropout is 1\.0, but it must be at least 0 and below 1"),
        (RNNsearchConfig, {"readout_dropout": -0.1}, r"--readout-dropout is -0\.1, but it must be"),
        (Tree2SeqConfig, {"word_dropout": 7}, r"--word-dropout is 7\.0, but it must be"),
        (RNNsearchConfig, {"dropout": float("nan")}, "--dropout cannot be nan"),
        (RNNsearchConfig, {"dropout": "none"}, "--dropout cannot be 'none'"),
        (RNNsearchConfig, {"hidden_size": True}, "--hidden-size cannot be True"),
        (RNNsearchConfig, {"hidden_size": 6.0}, r"--hidden-size cannot be 6\.0"),
        (RNNsearchConfig, {"context": "first"}, "--context cannot be 'first'"),
        (Tree2SeqConfig, {"constituents": "letters"}, "--constituents cannot be 'letters'"),
        (RNNsearchConfig, {"update_word": "current", "readout_state": "current"}, "exclude each other"),
        (Tree2SeqConfig, {"constituents": "phrases-only", "embedding_size": 3}, "must be equal"),
        (Tree2SeqConfig, {"reverse_source": True}, "--reverse-source needs --constituents words"),
        (RNNsearchConfig, {**WIDE, **ALL, "maxout_size": 5}, "--maxout-size is 5 and --embedding-size is 6"),
        (RNNsearchConfig, {**WIDE, **OUTPUT, "output_rank": 3}, "--output-rank is 3 and --embedding-size is 6"),
        (Tree2SeqConfig, {**OUTPUT, "hidden_size": 8}, "--hidden-size is 8 and --embedding-size is 512"),
    ],
)
def test_bad_values_are_refused(kind: type[NetworkConfig], values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        kind.of(values)


def test_missing_values_are_the_papers_and_others_are_passed_over() -> None:
    config = RNNsearchConfig.of({"hidden_size": 33, "readout_state": "current", "dropout": 0.5, "unrelated": "x"})
    assert (config.hidden_size, config.readout_state, config.dropout) == (33, "current", 0.5)
    assert (config.embedding_size, config.context, config.readout_dropout) == (620, "attention", 0.0)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_plain_values_make_the_same_configuration(arch: str) -> None:
    config = RNNsearchConfig.of(ARCHITECTURES[arch])
    values = config.values()
    assert {type(value) for value in values.values()} <= {str, int, float, bool}
    assert RNNsearchConfig.of(values) == config
