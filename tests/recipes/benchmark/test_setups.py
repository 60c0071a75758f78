"""Setups: dictionaries that are made up, random words, and what is refused."""

from pathlib import Path

import pytest

from recipes.benchmark import Training
from recipes.benchmark.setups import base_size, configure, random_batch
from recipes.benchmark.sizes import Size
from rnnsearch_fairseq.errors import InputError
from tests.builders import make_dictionary
from tests.recipes.benchmark.builders import TINY, TRAIN, WORDS, make_setup


@pytest.mark.parametrize("lengths", [(4, 6), (1, 1)])
def test_random_batches_have_the_lengths(lengths: tuple[int, int]) -> None:
    dictionaries = (make_dictionary(9), make_dictionary(5))
    batch = random_batch(dictionaries, lengths, pairs=3)
    sides = (batch["net_input"]["src_tokens"], batch["target"])
    for side, length, dictionary in zip(sides, lengths, dictionaries):
        assert side.shape == (3, length)
        assert side[:, -1].eq(dictionary.eos()).all()
        assert side[:, :-1].ge(dictionary.nspecial).all()
    assert batch["ntokens"] == 3 * lengths[1]


@pytest.mark.parametrize("languages", [[], ["-s", "en", "-t", "fr"]])
def test_dictionaries_are_made_up_of_the_size(languages: list[str]) -> None:
    setup = make_setup(*TINY, *languages, vocabulary=37)
    assert [len(dictionary) for dictionary in setup.dictionaries] == [37, 37]
    assert setup.trainer.model.decoder.to_vocabulary.weight.shape == (37, 8)


def test_a_criterion_finds_the_words_that_it_counts() -> None:
    words = ["--criterion", "blackout", "--blackout-samples", "3", "--batch-size", "2"]
    training = Training("words", [*TRAIN, *WORDS, *words], 2, (5, 4), vocabulary=20)
    assert training.timing.count == 2 * 2 * 4
    log_proposal, _ = training.setup.trainer.criterion.distribution(training.setup.trainer.device)
    assert log_proposal.isfinite().sum() == 20 - 4 + 1  # every word, and end-of-sentence


def test_without_data_or_a_vocabulary_the_cure_is_named() -> None:
    with pytest.raises(InputError, match=r"^a: .*required: data; .* without --vocabulary N, a data folder is among"):
        configure("a", [*TRAIN, *TINY])
    with pytest.raises(InputError, match=r"^a: unrecognized arguments: bin; .* with --vocabulary N, no data folder"):
        configure("a", ["bin", *TRAIN, *TINY], vocabulary=20)
    with pytest.raises(InputError, match="unrecognized arguments: --hidden"):
        configure("a", [*TRAIN, "--arch", "lstm", "--hidden", "3"], vocabulary=20)


def test_random_words_have_no_trees(tmp_path: Path) -> None:
    trees = [*TRAIN, "--task", "tree_translation", "--arch", "tree2seq_small", "--batch-size", "2"]
    with pytest.raises(InputError, match="setup: random words have no trees; time --task tree_translation on data"):
        make_setup(*trees)
    dictionary = make_dictionary(5)
    for language in ("en", "fr", "tree"):
        dictionary.save(str(tmp_path / f"dict.{language}.txt"))
    with pytest.raises(InputError, match="a: random words have no trees"):
        Training("a", [str(tmp_path), "-s", "en", "-t", "fr", *trees], 1, (5, 4))


@pytest.mark.slow
def test_all_setups_grow_from_one_size() -> None:
    setups = {"a": [*TRAIN, *TINY, "--batch-size", "4"], "b": [*TRAIN, *WORDS, "--batch-size", "4"]}
    assert base_size(setups, (5, 4), 20) == Size((5, 4), 4, 20)
    with pytest.raises(InputError, match=r"--batch-size is 4 \(a\), 8 \(b\); give one"):
        base_size({**setups, "b": [*TRAIN, *WORDS, "--batch-size", "8"]}, (5, 4), 20)
    with pytest.raises(InputError, match="b: random batches have --batch-size pairs; give this option"):
        base_size({"b": [*TRAIN, *WORDS]}, (5, 4), 20)
