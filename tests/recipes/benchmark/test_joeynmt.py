"""JoeyNMT beside our models. What runs it is skipped where it is not installed."""

import sys
from typing import Any

import pytest
import torch

from recipes.benchmark import speed
from recipes.benchmark.arguments import parse_arguments
from recipes.benchmark.joeynmt import JoeyNMT, load
from rnnsearch_fairseq.errors import InputError
from tests.recipes.benchmark.builders import TINY, TRAIN, make_setup

LENGTHS, PAIRS, VOCABULARY, WIDTH = (5, 4), 3, 20, 8


@pytest.fixture
def toolkit() -> JoeyNMT:
    pytest.importorskip("joeynmt", reason="JoeyNMT is not installed")
    setup = make_setup(*TINY)
    torch.manual_seed(1)
    return JoeyNMT(WIDTH, setup.dictionaries, setup.random_batches(2, LENGTHS, PAIRS), torch.device("cpu"))


def test_the_cure_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joeynmt", None)
    monkeypatch.setitem(sys.modules, "joeynmt.model", None)
    with pytest.raises(InputError, match=r"--joeynmt: JoeyNMT cannot be imported .*; install it by pip install"):
        load("model")


def test_it_reads_the_same_words(toolkit: JoeyNMT) -> None:
    source, target = toolkit.words[0]
    batch: Any = toolkit.make_batch(source, target)
    texts = toolkit.model.src_vocab.arrays_to_sentences(batch.src.numpy())
    dictionary = make_setup(*TINY).dictionaries[0]
    assert texts == [[dictionary[number] for number in row] for row in source.tolist()]
    assert batch.trg.ne(toolkit.model.pad_index).all() and batch.ntokens == PAIRS * LENGTHS[1]
    assert toolkit.model.trg_vocab.arrays_to_sentences(batch.trg.numpy())[1][-1] == "</s>"
    assert batch.trg_input[:, 0].eq(toolkit.model.bos_index).all()
    assert batch.trg_input[:, 1:].tolist() == batch.trg[:, :-1].tolist()


def test_it_is_of_the_same_sizes_and_trains(toolkit: JoeyNMT) -> None:
    model = toolkit.model
    assert model.src_embed.lut.weight.shape == model.trg_embed.lut.weight.shape == (VOCABULARY, WIDTH)
    assert model.encoder.rnn.bidirectional and type(model.encoder.rnn).__name__ == "GRU"
    assert model.encoder.rnn.hidden_size == model.decoder.rnn.hidden_size == WIDTH
    assert type(model.decoder.attention).__name__ == "BahdanauAttention"
    assert type(toolkit.optimizer).__name__ == "Adam" and model.training
    costs = [toolkit.update(*toolkit.words[0]) for _ in range(60)]
    assert costs[-1] < costs[0] - 0.5
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None] or [torch.zeros(1)])
    assert norm == 0  # gradients are gone after an update


def test_it_trains_in_turns_with_ours(toolkit: JoeyNMT, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "ours: " + " ".join(TINY), "--lengths", "5,4", "--vocabulary", "20", "--joeynmt", "8"]
    words += ["--rounds", "2", "--updates", "2", "--", *TRAIN, "--batch-size", "3"]
    ours, theirs, machine = speed.train(parse_arguments(words))
    assert ours["count"] == theirs["count"] == 2 * PAIRS * LENGTHS[1]
    assert theirs["name"].startswith("JoeyNMT 2") and theirs["operations"] > 0
    assert [len(timing["wall"]) for timing in (ours, theirs, machine)] == [2, 2, 2]
    assert "| JoeyNMT 2" in capsys.readouterr().out
