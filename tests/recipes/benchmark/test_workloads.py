"""The work that is measured: random words, made-up dictionaries, memory, and what is refused."""

import pytest

from recipes.benchmark import marian
from recipes.benchmark.cases import Size
from recipes.benchmark.workloads import Training, Translation
from rnnsearch_fairseq.errors import InputError
from tests.recipes.benchmark.builders import TINY, TRAIN, WORDS

SIZE = Size(source=5, target=4, batch=2, vocabulary=20)


def test_a_training_has_the_sizes() -> None:
    training = Training([*TRAIN, *TINY, "-s", "en", "-t", "fr"], Size(5, 4, 2, vocabulary=37), 3)
    task = training.trainer.task
    assert [len(task.source_dictionary), len(task.target_dictionary)] == [37, 37]
    assert training.trainer.model.decoder.network.to_vocabulary.weight.shape == (37, 8)
    assert len(training.batches) == 3 and training.count == 3 * 2 * 4
    before = training.trainer.get_num_updates()
    training.work()
    assert training.trainer.get_num_updates() == before + 3


def test_random_words_have_no_trees() -> None:
    trees = [*TRAIN, "--task", "rnnsearch", "--tree-lang", "tree", "--arch", "tree2seq_small"]
    with pytest.raises(InputError, match="random words have no trees; time --task rnnsearch on data"):
        Training(trees, SIZE, 1)


@pytest.mark.parametrize("model", [WORDS, TINY], ids=["tree2seq", "rnnsearch"])
def test_a_random_model_writes_translations_of_the_length(model: list[str]) -> None:
    options = [*model, "--task", "translation", "--beam", "2", "--cpu"]
    translation = Translation(options, SIZE, 3)
    assert translation.count == 3 * 2
    found = [hypotheses for batch in translation.batches for hypotheses in translation.step(batch)]
    assert {len(hypothesis["tokens"]) for hypotheses in found for hypothesis in hypotheses} == {4}


def test_a_round_of_marian_leaves_out_start_and_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marian, "load", lambda: None)
    monkeypatch.setattr(marian, "clock", lambda work: (work(), (10.0 + done[-1], 5.0 + 0.5 * done[-1]))[1])
    training = marian.MarianTraining(["8"], SIZE, 4)
    done: list[int] = []
    monkeypatch.setattr(training, "step", done.append)
    assert training.round() == (4.0, 2.0) and sorted(done) == [1, 5]
