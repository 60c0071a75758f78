"""The options of the networks: which values are refused, and what is filled in."""

from typing import Any

import pytest

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.modules.config import NetworkConfig
from rnnsearch_fairseq.modules.rnnsearch import RNNsearchConfig
from rnnsearch_fairseq.modules.tree2seq import Tree2SeqConfig


@pytest.mark.parametrize(
    ("kind", "values", "named"),
    [
        (RNNsearchConfig, {"hidden_size": 0}, "--hidden-size"),
        (RNNsearchConfig, {"output_rank": -1}, "--output-rank"),
        (Tree2SeqConfig, {"word_dropout": 1.0}, "--word-dropout"),
        (RNNsearchConfig, {"hidden_size": True}, "--hidden-size"),
        (RNNsearchConfig, {"share_all_embeddings": 1}, "--share-all-embeddings"),
        (RNNsearchConfig, {"context": "first"}, "--context"),
        (RNNsearchConfig, {"update_word": "current", "readout_state": "current"}, "--readout-state"),
        (Tree2SeqConfig, {"constituents": "phrases-only", "embedding_size": 3}, "--embedding-size"),
        (Tree2SeqConfig, {"reverse_source": True}, "--reverse-source"),
        (RNNsearchConfig, {"share_all_embeddings": True, "output_rank": 3}, "--output-rank"),
        (Tree2SeqConfig, {"share_decoder_input_output_embed": True, "hidden_size": 8}, "--hidden-size"),
    ],
)
def test_bad_values_are_refused(kind: type[NetworkConfig], values: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        kind.from_values(values)


def test_missing_values_are_the_papers_and_others_are_passed_over() -> None:
    values = {"hidden_size": 33, "readout_state": "current", "dropout": 0.5, "unrelated": "x"}
    config = RNNsearchConfig.from_values(values)
    assert (config.hidden_size, config.readout_state, config.dropout) == (33, "current", 0.5)
    assert (config.embedding_size, config.context, config.readout_dropout) == (620, "attention", 0.0)
