"""The work that is measured: random words, made-up dictionaries, memory."""

import pytest

from recipes.benchmark.workloads import Size, Training, Translation
from tests.recipes.benchmark.builders import TINY, TRAIN, WORDS


def test_a_training_has_the_sizes() -> None:
    training = Training([*TRAIN, *TINY, "-s", "en", "-t", "fr"], Size(updates=3, vocabulary=37, lengths=4, batch=2))
    task = training.trainer.task
    assert [len(task.source_dictionary), len(task.target_dictionary)] == [37, 37]
    assert training.trainer.model.decoder.network.to_vocabulary.weight.shape == (37, 8)
    assert len(training.batches) == 3 and training.count == 3 * 2 * 4
    for batch in training.batches:
        training.step(batch)
    assert training.trainer.get_num_updates() == 3
    assert training.peak() > 37 * 8 * 4, "the gradients of the output matrix, at least"


@pytest.mark.parametrize("model", [WORDS, TINY], ids=["tree2seq", "rnnsearch"])
def test_a_random_model_writes_translations_of_the_length(model: list[str]) -> None:
    options = [*model, "--task", "translation", "--beam", "2", "--cpu"]
    translation = Translation(options, Size(updates=3, vocabulary=20, lengths=4, batch=2))
    assert translation.count == 3 * 2
    found = [hypotheses for batch in translation.batches for hypotheses in translation.step(batch)]
    assert {len(hypothesis["tokens"]) for hypotheses in found for hypothesis in hypotheses} == {4}
