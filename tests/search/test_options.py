"""The generation options in fairseq's parsers, configurations and tasks."""

from argparse import Namespace
from typing import Any

import pytest
import torch
from fairseq.dataclass.configs import GenerationConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.options import get_generation_parser, get_interactive_generation_parser, parse_args_and_arch
from fairseq.sequence_generator import SequenceGenerator, SequenceGeneratorWithAlignment
from fairseq.sequence_scorer import SequenceScorer
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import DictConfig, OmegaConf

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.search.beam import FastBeamSearch
from rnnsearch_fairseq.search.delegating import MinimumLength
from rnnsearch_fairseq.search.groundhog import GroundhogSearch
from rnnsearch_fairseq.tasks.pooled_translation import PooledTranslationConfig, PooledTranslationTask
from tests.builders import make_dictionary, make_model, make_sample

# Hydra and fairseq warn of each other's age.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning")]


def parse(*words: str, interactive: bool = False) -> DictConfig:
    parser = get_interactive_generation_parser() if interactive else get_generation_parser()
    return convert_namespace_to_omegaconf(parse_args_and_arch(parser, ["data", "--path", "x.pt", *words])).generation


@pytest.fixture(params=["translation", "pooled_translation"])
def task(request: pytest.FixtureRequest) -> TranslationTask:
    source, target = make_dictionary(20), make_dictionary(17)
    if request.param == "translation":
        return TranslationTask(TranslationConfig(), source, target)
    return PooledTranslationTask(PooledTranslationConfig(), source, target)


def build(task: TranslationTask, args: Any) -> Any:
    return task.build_generator([make_model()], args)


# -- from the command line and from Python to the generator --


@pytest.mark.parametrize("interactive", [False, True])
def test_the_command_line_reaches_the_generator(task: TranslationTask, interactive: bool) -> None:
    words = ["--search", "groundhog", "--unkpen", "inf", "--unnormalized", "--beam", "7", "--min-len-a", "0.25"]
    generator = build(task, parse(*words, interactive=interactive))
    assert type(generator) is GroundhogSearch
    assert (generator.beam_size, generator.unk_penalty) == (7, float("inf"))
    assert (generator.normalize_scores, generator.min_len_a) == (False, 0.25)


def test_the_original_search_forbids_the_end_for_half_the_source(task: TranslationTask) -> None:
    assert build(task, parse("--search", "groundhog")).min_len_a == 0.5


@pytest.mark.parametrize("words", [[], ["--search", "fairseq"]])
def test_fairseqs_search_stays_the_default(task: TranslationTask, words: list[str]) -> None:
    generator = build(task, parse(*words))
    assert type(generator) is FastBeamSearch
    assert not generator.should_set_src_lengths
    assert generator.print_alignment is None
    assert build(task, parse(*words, "--print-alignment", "soft")).print_alignment == "soft"
    assert build(task, parse(*words, "--replace-unk")).print_alignment == "hard"


@pytest.mark.parametrize(
    "words",
    [
        ["--sampling"],
        ["--no-repeat-ngram-size", "2"],
        ["--match-source-len"],
        ["--beam", "9"],
        ["--diversity-rate", "1"],
    ],
    ids=str,
)
def test_what_ours_does_not_do_is_left_to_fairseqs(task: TranslationTask, words: list[str]) -> None:
    """A beam of nine needs 18 candidates, more than there are words."""
    assert type(build(task, parse(*words))) is SequenceGenerator
    assert type(build(task, parse(*words, "--print-alignment", "soft"))) is SequenceGeneratorWithAlignment


def test_several_models_are_left_to_fairseqs(task: TranslationTask) -> None:
    assert type(task.build_generator([make_model(), make_model()], parse())) is SequenceGenerator


def test_a_minimum_length_wraps_whatever_search_was_chosen(task: TranslationTask) -> None:
    for words, inner in ((["--min-len-a", "0.5"], "BeamSearch"), (["--min-len-a", "1", "--sampling"], "Sampling")):
        generator = build(task, parse(*words))
        assert type(generator.search) is MinimumLength
        assert type(generator.search.inner).__name__ == inner
        assert generator.should_set_src_lengths


def test_options_of_python_and_of_eval_bleu_args(task: TranslationTask) -> None:
    """`from_pretrained(...).translate(..., search=...)` sets them on a configuration that may lack them."""
    older = OmegaConf.structured(GenerationConfig)
    older = OmegaConf.create({key: older[key] for key in older if key not in ("search", "min_len_a")})
    assert type(build(task, older)) is FastBeamSearch
    older.search = "groundhog"
    assert type(build(task, older)) is GroundhogSearch
    assert type(build(task, Namespace(search="groundhog", beam=3))) is GroundhogSearch
    assert type(build(task, Namespace(beam=3))) is FastBeamSearch


def test_scoring_references_needs_no_search(task: TranslationTask) -> None:
    assert type(build(task, parse("--score-reference", "--search", "groundhog"))) is SequenceScorer


@pytest.mark.parametrize(("words", "alignment"), [([], None), (["--print-alignment", "soft"], "soft")])
def test_alignments_are_asked_of_the_original_search(
    task: TranslationTask, words: list[str], alignment: str | None
) -> None:
    assert build(task, parse("--search", "groundhog", *words)).print_alignment == alignment


def test_replacing_unknown_words_asks_for_hard_alignments(task: TranslationTask) -> None:
    assert build(task, parse("--search", "groundhog", "--replace-unk")).print_alignment == "hard"


# -- refusals --


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sampling"], "--sampling has no effect with --search groundhog"),
        (["--diverse-beam-groups", "2"], "--diverse-beam-groups has no effect"),
        (["--diversity-rate", "0.5"], "--diversity-rate has no effect"),
        (["--match-source-len"], "--match-source-len has no effect"),
        (["--constraints"], "--constraints has no effect"),
        (["--prefix-size", "1"], "--prefix-size has no effect"),
        (["--no-repeat-ngram-size", "2"], "--no-repeat-ngram-size has no effect"),
        (["--lm-path", "lm.pt"], "--lm-path has no effect"),
        (["--min-len", "2"], "--min-len has no effect .* --min-len-a; leave"),
        (["--max-len-a", "2"], "--max-len-a has no effect .* three words a source word"),
        (["--max-len-b", "10"], "--max-len-b has no effect .* three words a source word"),
        (["--min-len-a", "-1"], "--min-len-a is -1.0, but it must be 0 or a positive number"),
        (["--min-len-a", "inf"], "--min-len-a is inf"),
    ],
)
def test_what_the_original_search_would_ignore_is_refused(words: list[str], message: str) -> None:
    task = TranslationTask(TranslationConfig(), make_dictionary(20), make_dictionary(17))
    with pytest.raises(InputError, match=message):
        build(task, parse("--search", "groundhog", *words))


def test_an_unknown_search_is_refused() -> None:
    task = TranslationTask(TranslationConfig(), make_dictionary(20), make_dictionary(17))
    with pytest.raises(InputError, match="there is no search 'theano'; choose one of fairseq, groundhog, tree2seq"):
        build(task, Namespace(search="theano"))


def test_prefixes_given_from_python_are_refused() -> None:
    task = TranslationTask(TranslationConfig(), make_dictionary(20), make_dictionary(17))
    model = make_model()
    generator = task.build_generator([model], Namespace(search="groundhog"))
    with pytest.raises(InputError, match="this --search takes no prefix"):
        generator.generate([model], make_sample([[5, 2]], [[5, 2]]), prefix_tokens=torch.tensor([[5]]))
