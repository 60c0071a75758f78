"""The searches in fairseq's commands and tasks."""

import math
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from fairseq.sequence_generator import SequenceGenerator
from fairseq.sequence_scorer import SequenceScorer

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.plugin.tasks import Generator, RNNsearchTask, RNNsearchTaskConfig
from tests.builders import EOS, make_dictionary, make_model, make_sample
from tests.plugin import builders as trees
from tests.search.builders import assert_close, search

SAMPLE = make_sample([[5, 6, 7, EOS], [EOS], [7, 8, EOS]], [[EOS]] * 3, left=True)


def make_task(**options: Any) -> RNNsearchTask:
    return RNNsearchTask(RNNsearchTaskConfig(**options), make_dictionary(20), make_dictionary(17))


@pytest.mark.parametrize("alignment", [None, "hard"])
@pytest.mark.parametrize("name", ["fairseq", "groundhog", "tree2seq"])
def test_hypotheses_have_fairseqs_form(name: str, alignment: str | None) -> None:
    model, task = make_model(), make_task(search=name)
    generator = task.build_generator([model], Namespace(beam=3, unkpen=2.0, print_alignment=alignment))
    found = task.inference_step(generator, [model], SAMPLE)
    expected = search([model], SAMPLE, search=name, beam=3, unkpen=2.0)
    for hypotheses, others in zip(found, expected, strict=True):
        assert [h["tokens"].tolist() for h in hypotheses] == [other.words for other in others]
        for h, other in zip(hypotheses, others):
            assert h["score"].item() == other.score
            assert_close(h["positional_scores"], other.logprobs)
            if other.weights is not None:
                assert_close(h["attention"], other.weights.T)
    rows = found[0][0]["alignment"]
    if alignment == "hard":
        best = found[0][0]["attention"][:-1, : len(found[0][0]["tokens"]) - 1].argmax(dim=0)
        assert rows == [(column, row) for row, column in enumerate(best.tolist())]
    assert list(found[1][0]["alignment"]) == []


def test_trees_reach_the_search(tmp_path: Path) -> None:
    model, sample = trees.make_model(), trees.make_batch(trees.SOURCES, trees.TARGETS, trees.TREES)
    make_dictionary(3).save(str(tmp_path / "dict.tree.txt"))
    task = make_task(data=str(tmp_path), tree_lang="tree", search="tree2seq")
    found = task.inference_step(task.build_generator([model] * 2, Namespace(beam=3, max_len_b=8)), [model] * 2, sample)
    expected = search([model], sample, search="tree2seq", beam=3, max_len_b=8)
    assert [[h["tokens"].tolist() for h in hs] for hs in found] == [[h.words for h in hs] for hs in expected]
    assert found[0][0]["attention"].shape[0] == sample["net_input"]["src_tokens"].size(1), "words only"


def test_a_validation_searches_with_the_parameters_of_now() -> None:
    model, other, task = make_model(), make_model(), make_task(eval_bleu=True)
    generator = task.sequence_generator = task.build_generator([model], Namespace())
    before = generator.generate([model], SAMPLE)
    for parameter in [*model.parameters(), *other.parameters()]:
        parameter.data.mul_(-0.7)
    task.begin_valid_epoch(1, model)
    after = generator.generate([model], SAMPLE)
    expected = task.build_generator([other], Namespace()).generate([], SAMPLE)
    scores, *others = ([h["score"].item() for h in found[0]] for found in (after, expected, before))
    assert scores == others[0] and scores != others[1]


def test_what_only_fairseq_does_is_left_to_fairseq() -> None:
    model, task = make_model(), make_task()
    assert isinstance(task.build_generator([model], Namespace(sampling=False)), Generator)
    for options in ({"sampling": True}, {"no_repeat_ngram_size": 2}, {"prefix_size": 1}, {"temperature": 0.5}):
        assert type(task.build_generator([model], Namespace(**options))) is SequenceGenerator
    assert type(task.build_generator([model], Namespace(score_reference=True))) is SequenceScorer


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ({"search": "groundhog"}, {"sampling": True}, "--sampling has no effect with --search groundhog; leave"),
        ({"search": "groundhog"}, {"max_len_b": 10}, "--max-len-b has no effect with --search groundhog"),
        ({"length_statistics": "file"}, {}, "--length-statistics has no effect with --search fairseq"),
        ({}, {"sampling": True, "unkpen": math.nan}, "--unkpen is nan; give a number from -1,000,000 to inf"),
        ({"search": "theano"}, {}, "--search is .theano.; give one of fairseq, groundhog, tree2seq"),
    ],
)
def test_options_without_effect_are_refused(task: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_task(**task).build_generator([make_model()], Namespace(**options))
