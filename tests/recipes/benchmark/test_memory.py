"""The peak memory of an update."""

import json

import pytest
import torch

from recipes.benchmark import memory
from recipes.benchmark.arguments import parse_arguments
from recipes.benchmark.memory import peak_bytes, update_peak
from tests.recipes.benchmark.builders import TINY, TRAIN, WORDS, make_setup

CPU = torch.device("cpu")
N = 64  # units of the alignment model


def test_the_peak_is_what_lives_at_once() -> None:
    before = torch.zeros(5000)

    def work() -> None:
        first = torch.zeros(1000)
        second = first.double()  # 12,000 bytes live
        del first
        third = torch.zeros(2000)  # 16,000
        third += before[:2000]
        del second
        torch.zeros(500)

    assert peak_bytes(work, CPU) == 16_000
    assert peak_bytes(lambda: before.relu_(), CPU) == 0


def test_gradients_count_and_what_stays_does_not() -> None:
    setup = make_setup(*TINY)
    (batch,) = setup.random_batches(1, (5, 4), 2)
    peaks = [update_peak(setup.trainer, batch) for _ in range(3)]
    gradients = sum(4 * parameter.numel() for parameter in setup.trainer.model.parameters())
    # Adam's two averages, as long as the parameters, are made in the first update.
    assert peaks[0] == peaks[1] == peaks[2] >= gradients


def test_attention_keeps_no_units_for_each_pair_of_words(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--along", "lengths=8,16,32", "--along", "batch=2,4", "--lengths", "6,5", "--vocabulary", "20"]
    setups = ["fused: --scan fused", "reference: --scan reference"]
    words = [*TRAIN, *TINY, "--batch-size", "4", "--alignment-size", str(N)]
    found = memory.run(parse_arguments(["memory", *setups, *sizes, "--", *words]))
    json.dumps(found)
    by_name = {(line["setup"], line["along"]): line for line in found}
    assert [*by_name] == [(name, axis) for axis in ("lengths", "batch") for name in ("fused", "reference")]
    fused, reference = (by_name[name, "lengths"] for name in ("fused", "reference"))
    assert 6 * N > reference["bytes_of_a_word_pair"] > 4 * N > fused["bytes_of_a_word_pair"] > 0
    assert reference["exponent"] > fused["exponent"] > 0
    assert [len(line["bytes"]) for line in found] == [3, 3, 2, 2]
    assert fused["base"] == {"lengths": (6, 5), "batch": 4, "vocabulary": 20, "processes": 1}
    grown = by_name["reference", "batch"]["bytes"]
    assert grown[0] < grown[1] < 2 * grown[0]
    printed = capsys.readouterr().out
    assert "MB by both lengths; batches of 4, a vocabulary of 20\n" in printed
    assert "MB by batch size; 6 source words, 5 target words, a vocabulary of 20\n" in printed
    assert printed.count("| reference |") == 2


def test_each_vocabulary_has_its_model() -> None:
    words = ["memory", "a: ", "--along", "vocabulary=20,2020", "--vocabulary", "20", "--lengths", "3,3"]
    (line,) = memory.run(parse_arguments([*words, "--", *TRAIN, *WORDS, "--batch-size", "2"]))
    # Two embeddings of 8 and a softmax of 8 and a bias, and their gradients.
    assert line["bytes"][1] - line["bytes"][0] > 2000 * (8 + 8 + 8 + 1) * 4
