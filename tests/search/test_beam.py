"""FastBeamSearch against fairseq's search: the same hypotheses, in the same order, with the same scores."""

from typing import Any

import pytest
import torch
from fairseq.search import BeamSearch
from fairseq.sequence_generator import SequenceGenerator

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.models.rnnsearch import RNNsearchModel
from rnnsearch_fairseq.modules.fused.search_step import GROUP
from rnnsearch_fairseq.search.beam import FastBeamSearch
from tests.builders import EOS, UNK, make_dictionary, make_model, make_sample

WORDS = 150  # three groups, of which the last is not full
SOURCES = [[5, 6, 7, 8, 9, EOS], [7, EOS], [4, 4, 10, EOS], [EOS], [9, 8, 7, 6, 5, 4, 10, 11, EOS]]


def draw_model(arch: str = "bahdanau_gru", end: float = 2.0, **options: Any) -> RNNsearchModel:
    """A tiny model in which hypotheses end early and late."""
    model = make_model(arch, target_words=WORDS, **options).float()
    with torch.no_grad():
        model.decoder.to_vocabulary.bias[EOS] += end
    return model


def translate(generator: type, model: RNNsearchModel, sources: list[list[int]] = SOURCES, **options: Any) -> list[Any]:
    sample = make_sample(sources, [[EOS]] * len(sources), left=True)
    return generator([model], make_dictionary(WORDS), **options).generate([model], sample)


def assert_the_same(found: list[Any], expected: list[Any]) -> None:
    for hypotheses, others in zip(found, expected, strict=True):
        assert [h["tokens"].tolist() for h in hypotheses] == [h["tokens"].tolist() for h in others]
        for hypothesis, other in zip(hypotheses, others):
            for name in ("score", "positional_scores", "attention"):
                torch.testing.assert_close(hypothesis[name], other[name], rtol=0, atol=2e-5, check_dtype=False)


@pytest.mark.parametrize("arch", ["bahdanau_gru", "rnnencdec", "groundhog_search", "groundhog_encdec"])
@pytest.mark.parametrize("beam", [1, 2, 5, 12])
def test_the_hypotheses_are_fairseqs(arch: str, beam: int) -> None:
    model = draw_model(arch)
    options = {"beam_size": beam, "max_len_b": 30}
    expected = translate(SequenceGenerator, model, **options)
    assert len({len(h["tokens"]) for hypotheses in expected for h in hypotheses}) > 1 or beam < 5
    assert_the_same(translate(FastBeamSearch, model, **options), expected)


@pytest.mark.parametrize(
    "options",
    [
        {"len_penalty": 0.3},
        {"normalize_scores": False},
        {"unk_penalty": 3.0},
        {"unk_penalty": float("inf")},
        {"unk_penalty": -30.0},
        {"temperature": 2.5},
        {"min_len": 4},
        {"max_len_b": 2},
        {"max_len_a": 0.5, "max_len_b": 1},
        {"max_len_b": 1},
    ],
    ids=str,
)
def test_options_have_fairseqs_effect(options: dict[str, Any]) -> None:
    model = draw_model(readout_state="current")
    options = {"beam_size": 4, "max_len_b": 20, **options}
    assert_the_same(translate(FastBeamSearch, model, **options), translate(SequenceGenerator, model, **options))


def test_an_unknown_word_that_is_favoured_is_found_among_many_words() -> None:
    """Its score becomes the maximum of its group, and there are more groups than the search looks into."""
    words = 40 * GROUP
    model = make_model(target_words=words).float()
    sample = make_sample(SOURCES, [[EOS]] * len(SOURCES), left=True)
    found, expected = (
        generator([model], make_dictionary(words), beam_size=1, max_len_b=9, unk_penalty=-12.0).generate(
            [model], sample
        )
        for generator in (FastBeamSearch, SequenceGenerator)
    )
    unknown = [hypotheses[0]["tokens"].eq(UNK).sum().item() for hypotheses in expected]
    assert 0 < sum(unknown) < sum(len(hypotheses[0]["tokens"]) for hypotheses in expected)
    assert_the_same(found, expected)


def test_none_ends_before_the_last_step() -> None:
    model, options = draw_model(end=-50.0), {"beam_size": 3, "max_len_b": 6}
    found = translate(FastBeamSearch, model, **options)
    assert {len(h["tokens"]) for hypotheses in found for h in hypotheses} == {7}
    assert_the_same(found, translate(SequenceGenerator, model, **options))


def test_a_batch_gives_what_its_sentences_give() -> None:
    model, options = draw_model(), {"beam_size": 5, "max_len_b": 30}
    found = translate(FastBeamSearch, model, **options)
    for source, hypotheses in zip(SOURCES, found):
        alone = translate(FastBeamSearch, model, [source], **options)
        for hypothesis in hypotheses:  # the batch is padded on the left
            hypothesis["attention"] = hypothesis["attention"][-len(source) :]
        assert_the_same([hypotheses], alone)


def test_callers_may_change_the_hypotheses() -> None:
    """PyTorch forbids it for tensors of its inference mode, in which the steps are computed."""
    for hypotheses in translate(FastBeamSearch, draw_model(), beam_size=2, max_len_b=9):
        for hypothesis in hypotheses:
            assert not any(part.is_inference() for part in hypothesis.values())


def test_a_prefix_is_left_to_fairseq() -> None:
    model, prefix = draw_model(), torch.tensor([[20], [21], [22], [23], [24]])
    sample = make_sample(SOURCES, [[EOS]] * len(SOURCES), left=True)
    found, expected = (
        generator([model], make_dictionary(WORDS), beam_size=3, max_len_b=9).generate(
            [model], sample, prefix_tokens=prefix
        )
        for generator in (FastBeamSearch, SequenceGenerator)
    )
    assert [hypotheses[0]["tokens"][0].item() for hypotheses in found] == prefix.flatten().tolist()
    assert_the_same(found, expected)


def test_another_strategy_is_left_to_fairseq() -> None:
    class Banning(BeamSearch):
        def step(self, step: int, lprobs: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            lprobs[:, :, banned] = -torch.inf
            return super().step(step, lprobs, *args, **kwargs)

    model, options = draw_model(end=-50.0), {"beam_size": 2, "max_len_b": 4}
    banned = translate(FastBeamSearch, model, **options)[0][0]["tokens"][0].item()
    found = translate(FastBeamSearch, model, search_strategy=Banning(make_dictionary(WORDS)), **options)
    assert banned not in torch.cat([hypothesis["tokens"] for hypotheses in found for hypothesis in hypotheses])


@pytest.mark.parametrize("change", ["train", "load", "move"])
def test_it_follows_the_parameters(change: str) -> None:
    model, other = draw_model(), draw_model()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(-0.7)
    translate(FastBeamSearch, model, max_len_b=20)
    if change == "load":
        model.load_state_dict(other.state_dict())
    else:
        if change == "train":
            model.train()
        for parameter, wanted in zip(model.parameters(), other.parameters()):
            parameter.data.copy_(wanted)
        model = model.eval() if change == "train" else model.double().float()
    found, expected = translate(FastBeamSearch, model, max_len_b=20), translate(SequenceGenerator, other, max_len_b=20)
    assert_the_same(found, expected)


def test_scores_that_are_not_numbers_are_refused() -> None:
    model = draw_model()
    with torch.no_grad():
        model.decoder.to_vocabulary.weight[7] = float("nan")
    with pytest.raises(InputError, match="not numbers"):
        translate(FastBeamSearch, model)


def test_a_least_length_above_the_greatest_is_refused() -> None:
    with pytest.raises(InputError, match="--min-len is 5, but no translation may be longer than 4"):
        translate(FastBeamSearch, draw_model(), min_len=5, max_len_b=4)


def test_it_reports_the_best_of_each_step() -> None:
    """With a beam of one, each report is the beginning of the translation that is found in the end."""
    model, shown = draw_model(), []
    search = FastBeamSearch([model], make_dictionary(WORDS), beam_size=1, max_len_b=20)
    search.on_step = lambda best: shown.append({name: words.tolist() for name, words in best.items()})
    sample = make_sample(SOURCES, [[EOS]] * len(SOURCES), left=True)
    found = search.generate([model], sample)
    for name, hypotheses in zip(sample["id"].tolist() if "id" in sample else range(len(SOURCES)), found):
        words = hypotheses[0]["tokens"].tolist()[:-1]
        steps = [best[name] for best in shown if name in best]
        assert steps == [words[: number + 1] for number in range(len(words))][: len(steps)]
        assert len(steps) >= len(words) - 1
