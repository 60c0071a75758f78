"""The summed cost: its value, its divisor and what it logs."""

import math
from argparse import Namespace

import pytest
import torch
from fairseq.logging import metrics

from rnnsearch_fairseq.plugin.criterions import DIVIDE_BY_NOTHING, SummedNLL
from rnnsearch_fairseq.plugin.models import RNNsearchModel
from tests.builders import PAD, make_dictionary, make_model, make_sample, parse_training

SOURCES = [[7, 5, 9, 2], [4, 2], [11, 12, 2], [6, 6, 6, 6, 2]]
TARGETS = [[5, 2], [9, 8, 7, 6, 2], [4, 4, 2], [20, 2]]


def build(*words: str) -> SummedNLL:
    """As ``--criterion summed_nll`` with these options."""
    cfg = parse_training("--arch", "bahdanau_gru", "--criterion", "summed_nll", *words).criterion
    return SummedNLL.build_criterion(cfg, Namespace(target_dictionary=make_dictionary(17)))


@pytest.fixture
def criterion() -> SummedNLL:
    return build()


def nll_by_hand(model: RNNsearchModel, source: list[int], target: list[int]) -> list[float]:
    """-log p of every word of one sentence by itself."""
    logits, _ = model(**make_sample([source], [target])["net_input"])
    return [(row.exp().sum().log() - row[word]).item() for row, word in zip(logits[0], target)]


def test_loss_is_the_sum_over_all_words(criterion: SummedNLL) -> None:
    model = make_model()
    loss, _, log = criterion(model, make_sample(SOURCES, TARGETS))
    expected = [nll_by_hand(model, source, target) for source, target in zip(SOURCES, TARGETS)]
    assert loss.item() == pytest.approx(sum(map(sum, expected)), abs=1e-10)
    assert loss.requires_grad
    assert log["loss"] == loss.detach()
    assert not log["loss"].requires_grad
    assert (log["ntokens"], log["nsentences"]) == (12, 4)


@pytest.mark.parametrize(("words", "divisor"), [((), DIVIDE_BY_NOTHING), (("--sentence-avg",), len(SOURCES))])
def test_gradients_are_averaged_over_nothing_or_sentences(words: tuple[str, ...], divisor: int) -> None:
    _, sample_size, log = build(*words)(make_model(), make_sample(SOURCES, TARGETS))
    assert sample_size == log["sample_size"] == divisor


def test_half_precision_logits_are_summed_in_float32(criterion: SummedNLL) -> None:
    model = make_model().to(torch.bfloat16)
    sample = make_sample(SOURCES, TARGETS)
    loss, _, _ = criterion(model, sample)
    assert loss.dtype == torch.float32
    # Scores in half precision depend on how their product is cut into blocks: these are of the same words together.
    is_word = sample["target"].ne(PAD)
    features, _ = model(**sample["net_input"], features_only=True)
    logits = model.decoder.network.to_vocabulary(features[is_word]).double()
    expected = torch.nn.functional.cross_entropy(logits, sample["target"][is_word], reduction="sum")
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)


def test_logged_means_are_over_all_words_and_sentences() -> None:
    first = [
        {"loss": torch.tensor(30.0), "ntokens": 10, "nsentences": 2, "sample_size": 0},
        {"loss": torch.tensor(7.0), "ntokens": 1, "nsentences": 1, "sample_size": 0},
    ]
    second = [{"loss": torch.tensor(100.0), "ntokens": 20, "nsentences": 7, "sample_size": 0}]
    with metrics.aggregate(new_root=True) as logged:
        SummedNLL.reduce_metrics(first)
        SummedNLL.reduce_metrics(second)
    values = logged.get_smoothed_values()
    assert values["nll_sentence_nats"] == pytest.approx(137 / 10, abs=6e-4)
    assert values["nll_word_nats"] == pytest.approx(137 / 31, abs=6e-5)
    assert values["loss"] == pytest.approx(137 / 31 / math.log(2), abs=6e-4)  # bits
    assert values["ppl"] == pytest.approx(math.exp(137 / 31), rel=1e-3)
