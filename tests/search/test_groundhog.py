"""GroundhogSearch against a NumPy transcription of the original's search, and against recorded translations."""

import itertools
import logging
import math
from argparse import Namespace
from typing import Any

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import OmegaConf

from rnnsearch_fairseq.groundhog import convert
from rnnsearch_fairseq.models.rnnsearch import RNNsearchModel
from rnnsearch_fairseq.search.groundhog import GroundhogSearch, best_continuations
from tests.builders import EOS, PAD, from_original, groundhog_model, make_dictionary, make_model, make_sample, pad
from tests.reference import groundhog as reference
from tests.reference.groundhog import constant_model
from tests.reference.recorded import RECORDED, needs_recorded, recorded

N_SOURCE, N_TARGET = 14, 12
LENGTHS = [6, 2, 9, 1, 4, 3]  # with end-of-sentence
EXACT = {"rtol": 0, "atol": 1e-9}

Hypotheses = list[dict[str, Any]]


def draw_sources(seed: int) -> list[list[int]]:
    """Sentences in the original's ids."""
    rng = np.random.default_rng(seed)
    return [[*rng.integers(1, N_SOURCE - 1, size=length - 1).tolist(), N_SOURCE - 1] for length in LENGTHS]


def draw_model(encdec: bool, seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    params = reference.random_parameters(rng, n=6, m=5, n_source=N_SOURCE, n_target=N_TARGET, rank=5, encdec=encdec)
    params["b_dec_deep_softmax"][-1] += 1  # otherwise few hypotheses end
    return params


def search(
    models: list[Any],
    sources: list[list[int]],
    beam: int,
    left: bool = True,
    dictionary: int = N_TARGET - 3,
    **options: Any,
) -> list[Hypotheses]:
    sample = make_sample(sources, [[EOS]] * len(sources), left)
    generator = GroundhogSearch(models, make_dictionary(dictionary), beam_size=beam, **options)
    return generator.generate(models, sample)


def assert_as_in_the_original(
    found: Hypotheses, params: dict[str, np.ndarray], source: list[int], beam: int, ban: bool = False
) -> None:
    size = len(params["b_dec_deep_softmax"])
    expected = reference.beam_search(params, source, beam, eos=size - 1, unk=1, ban_unknown=ban)
    assert [h["tokens"].tolist() for h in found] == [from_original(ids, size) for ids, _ in expected]
    costs = [-h["score"].item() for h in found]
    np.testing.assert_allclose(costs, [cost for _, cost in expected], **EXACT)


class OnHost(torch.Tensor):
    """A tensor that was moved to the host; what is computed from it is there, too."""


@pytest.mark.parametrize("encdec", [False, True], ids=["search", "encdec"])
def test_the_hypotheses_that_end_together_come_to_the_host_together(
    encdec: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def item(tensor: torch.Tensor) -> object:
        assert isinstance(tensor, OnHost)  # or the host waits for a GPU
        return value(tensor)

    value = torch.Tensor.item
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: tensor.as_subclass(OnHost))
    monkeypatch.setattr(torch.Tensor, "item", item)
    params = draw_model(encdec)
    sources = [from_original(source, N_SOURCE) for source in draw_sources(1)]
    found = search([groundhog_model(params)], sources, 4)
    assert sum(map(len, found)) > 10
    assert all(isinstance(h[name], OnHost) for each in found for h in each for name in ("tokens", "score", "attention"))


# -- against the transcription --


@pytest.mark.parametrize("encdec", [False, True], ids=["search", "encdec"])
@pytest.mark.parametrize("left", [True, False], ids=["left-padded", "right-padded"])
@pytest.mark.parametrize("ban", [False, True], ids=["", "banned"])
@pytest.mark.parametrize("beam", [1, 4, 10])
def test_all_hypotheses_of_a_batch(encdec: bool, left: bool, ban: bool, beam: int) -> None:
    params, sources = draw_model(encdec), draw_sources(2)
    model = groundhog_model(params)
    batch = [from_original(source, N_SOURCE) for source in sources]
    options = {"normalize_scores": False, "unk_penalty": math.inf if ban else 0.0}
    for source, hypotheses in zip(sources, search([model], batch, beam, left, **options), strict=True):
        assert_as_in_the_original(hypotheses, params, source, beam, ban)


@pytest.mark.parametrize(
    ("probabilities", "ban"),
    [
        # unused, unknown, two words, end-of-sentence
        ([0, 0.21, 0.37, 0.29, 0.13], False),
        ([0, 0.21, 0.37, 0.29, 0.13], True),
        # End-of-sentence is too unlikely for a narrow beam, which is doubled repeatedly.
        ([0, 0.3, 0.35, 0.34, 0.01], False),
        ([0, 0.3, 0.35, 0.34, 0.01], True),
        # All words before the end are unknown; without them no hypothesis is left.
        ([0, 0.9, 0, 0, 0.1], False),
        ([0, 0.9, 0, 0, 0.1], True),
        # Without unknown words, the other word is so likely that end-of-sentence never enters the beam.
        ([0, 0.5, 0.5 - 1e-9, 0, 1e-9], True),
    ],
)
@pytest.mark.parametrize("beam", [1, 2, 5])
def test_limits_and_fallbacks(probabilities: list[float], ban: bool, beam: int) -> None:
    params = constant_model(probabilities)
    size = len(params["W_0_enc_approx_embdr"])
    sources = [[2] * (length - 1) + [size - 1] for length in (2, 5, 4)]
    batch = [from_original(source, size) for source in sources]
    options = {"normalize_scores": False, "unk_penalty": math.inf if ban else 0.0}
    found = search([groundhog_model(params)], batch, beam, dictionary=len(probabilities) - 3, **options)
    for source, hypotheses in zip(sources, found, strict=True):
        assert_same_up_to_ties(hypotheses, params, source, min(beam, len(probabilities)), ban)


def assert_same_up_to_ties(
    found: Hypotheses, params: dict[str, np.ndarray], source: list[int], beam: int, ban: bool
) -> None:
    """A constant model gives all permutations of the same words the same cost: compare costs and lengths only."""
    size = len(params["b_dec_deep_softmax"])
    expected = reference.beam_search(params, source, beam, eos=size - 1, unk=1, ban_unknown=ban)
    costs = [-h["score"].item() for h in found]
    np.testing.assert_allclose(costs, [cost for _, cost in expected], **EXACT)
    assert sorted(len(h["tokens"]) for h in found) == sorted(len(ids) for ids, _ in expected)


def test_words_without_a_number_are_impossible() -> None:
    """All continuations of a word with a NaN embedding are impossible, and take no place in the beam."""
    params, sources = draw_model(encdec=False), draw_sources(2)
    whole = groundhog_model(params)
    damaged = max(range(2, N_TARGET - 1), key=lambda word: params["b_dec_deep_softmax"][word])
    params["W_0_dec_approx_embdr"][damaged] = math.nan
    model = groundhog_model(params)
    batch = [from_original(source, N_SOURCE) for source in sources]
    options = {"beam": 4, "normalize_scores": False}
    assert any(damaged + 2 in h["tokens"] for hypotheses in search([whole], batch, **options) for h in hypotheses)
    for source, hypotheses in zip(sources, search([model], batch, **options), strict=True):
        assert_as_in_the_original(hypotheses, params, source, beam=4)
        assert all(damaged + 2 not in hypothesis["tokens"] for hypothesis in hypotheses)


@pytest.mark.parametrize("beam", [4, 7, 12])
def test_words_of_equal_probability_are_all_there(beam: int) -> None:
    """Of two words with equal parameters, either may be ranked first; everything else is determined."""
    params, sources = draw_model(encdec=False), draw_sources(2)
    one, other = 4, 5
    params["W_0_dec_approx_embdr"][other] = params["W_0_dec_approx_embdr"][one]
    for name in ("W2_dec_deep_softmax", "b_dec_deep_softmax"):
        params[name][..., other] = params[name][..., one]
    options = {"normalize_scores": False}
    batch = [from_original(source, N_SOURCE) for source in sources]
    found = search([groundhog_model(params)], batch, beam, **options)
    ties = 0
    for source, hypotheses in zip(sources, found, strict=True):
        expected = reference.beam_search(params, source, beam, eos=N_TARGET - 1, unk=1)
        np.testing.assert_allclose([-h["score"].item() for h in hypotheses], [cost for _, cost in expected], **EXACT)
        words = list(map(words_of, hypotheses))
        assert len(set(words)) == len(words)
        ties += len(words) - len({tuple(one + 2 if word == other + 2 else word for word in w) for w in words})
    assert ties > 0


def test_the_beam_is_filled_where_continuations_are_equal_or_impossible() -> None:
    totals, sentence = torch.tensor([-1.0, -1.0, -3.0]), torch.tensor([0, 0, 1])
    log_probs = torch.tensor([[-1.0, -1.0, -math.inf], [-1.0, -math.inf, -1.0], [-math.inf, -math.inf, -2.0]])
    parents, words = best_continuations(totals, log_probs, sentence, torch.tensor([3, 3]))
    found = list(zip(parents.tolist(), words.tolist()))
    assert len(set(found)) == 4
    assert set(found[:3]) < {(0, 0), (0, 1), (1, 0), (1, 2)}
    assert found[3] == (2, 2), "of the second sentence, only what is possible"


def test_fallbacks_are_taken_by_the_sentences_that_need_them_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    params = constant_model([0, 0.9, 0, 0, 0.1])
    sample = make_sample([[5, EOS], [5, 5, 5, EOS]], [[EOS]] * 2)
    sample["id"] = torch.tensor([7, 11])
    model = groundhog_model(params)
    generator = GroundhogSearch([model], make_dictionary(2), beam_size=2, unk_penalty=math.inf)
    with caplog.at_level(logging.WARNING):
        found = generator.generate([model], sample)
    assert "unknown words are now allowed: sentences [7, 11]" in caplog.text
    assert all(h["tokens"].tolist()[:-1] == [3] * (len(h["tokens"]) - 1) for hypotheses in found for h in hypotheses)


def test_a_sentence_without_an_ending_is_empty_and_named(caplog: pytest.LogCaptureFixture) -> None:
    params = constant_model([0, 0.5, 0.3, 0.2, 0])
    model = groundhog_model(params)
    with caplog.at_level(logging.WARNING):
        ((only,),) = search([model], [[5, EOS]], beam=300, dictionary=2, print_alignment="soft")
    assert only["tokens"].tolist() == [EOS]
    assert only["score"].item() == -math.inf
    assert only["positional_scores"].tolist() == [-math.inf]
    assert len(only["alignment"]) == 1
    assert "the translation is empty: sentences [0]" in caplog.text


def test_doubled_beams_take_no_more_memory_than_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    model = groundhog_model(constant_model([0, 0.3, 0.35, 0.34, 0.01]))
    rows = []
    decode = model.decoder.forward
    monkeypatch.setattr(
        model.decoder, "forward", lambda words, **given: rows.append(len(words)) or decode(words, **given)
    )
    search([model], [[5, 5, 5, EOS]] * 8, beam=4, dictionary=2)
    assert max(rows) == 8 * 4


# -- what fairseq expects of a hypothesis --


def test_scores_attention_and_order_are_those_of_forced_decoding() -> None:
    model = groundhog_model(draw_model(encdec=False))
    batch = [from_original(source, N_SOURCE) for source in draw_sources(3)]
    width = max(map(len, batch))
    for source, hypotheses in zip(batch, search([model], batch, beam=6)):
        scores = [h["score"].item() for h in hypotheses]
        assert scores == sorted(scores, reverse=True)
        for hypothesis in hypotheses:
            tokens = hypothesis["tokens"].tolist()
            sample = make_sample([source], [tokens])
            logits, extra = model(**sample["net_input"])
            forced = torch.log_softmax(logits[0], dim=-1)[range(len(tokens)), tokens]
            torch.testing.assert_close(hypothesis["positional_scores"], forced, **EXACT)
            assert hypothesis["score"].item() == pytest.approx(forced.mean().item(), abs=1e-9)
            weights = hypothesis["attention"].T[:, width - len(source) :]  # padded on the left
            torch.testing.assert_close(weights, extra["attn"][0][0], **EXACT)


def test_raw_and_mean_scores_rank_differently() -> None:
    model = groundhog_model(draw_model(encdec=False))
    batch = [from_original(source, N_SOURCE) for source in draw_sources(3)]
    raw, mean = (search([model], batch, beam=8, normalize_scores=normalize) for normalize in (False, True))
    assert [sorted(map(words_of, hypotheses)) for hypotheses in raw] == [sorted(map(words_of, h)) for h in mean]
    assert [words_of(hypotheses[0]) for hypotheses in raw] != [words_of(hypotheses[0]) for hypotheses in mean]


def words_of(hypothesis: dict[str, Any]) -> tuple[int, ...]:
    return tuple(hypothesis["tokens"].tolist())


def test_a_sentence_is_translated_as_alone() -> None:
    model = groundhog_model(draw_model(encdec=False))
    batch = [from_original(source, N_SOURCE) for source in draw_sources(4)]
    for source, together in zip(batch, search([model], batch, beam=5)):
        (alone,) = search([model], [source], beam=5)
        assert list(map(words_of, together)) == list(map(words_of, alone))


def test_alignments_as_fairseq_prints_them() -> None:
    model = groundhog_model(draw_model(encdec=False))
    batch = [from_original(source, N_SOURCE) for source in draw_sources(3)]
    soft = search([model], batch, beam=3, print_alignment="soft")
    hard = search([model], batch, beam=3, print_alignment="hard")
    for source, one, other in zip(batch, soft, hard):
        for words, links in zip(one, other):
            rows = np.array(words["alignment"], dtype=float)
            assert rows.shape == (len(words["tokens"]), len(source))
            np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-5)
            # End-of-sentence, the last on either side, is neither aligned nor aligned with.
            if len(source) > 1:
                best = rows[:-1, :-1].argmax(axis=1).tolist()
                assert links["alignment"] == [(column, row) for row, column in enumerate(best)]


def test_rnnencdec_has_no_attention_to_show() -> None:
    for hypotheses in search([make_model("groundhog_encdec")], [[5, 6, EOS]], beam=3, dictionary=17):
        assert all(hypothesis["attention"].numel() == 0 for hypothesis in hypotheses)


def test_an_ensemble_averages_probabilities() -> None:
    models = [groundhog_model(draw_model(encdec=False, seed=seed)) for seed in (1, 2)]
    source = from_original(draw_sources(3)[0], N_SOURCE)
    ((best, *_),) = search(models, [source], beam=4)
    tokens = best["tokens"].tolist()
    sample = make_sample([source], [tokens])
    probabilities = [torch.softmax(model(**sample["net_input"])[0][0], dim=-1) for model in models]
    mean = torch.stack(probabilities).mean(dim=0)[range(len(tokens)), tokens].log()
    torch.testing.assert_close(best["positional_scores"], mean, **EXACT)


def test_a_transformer_is_searched_too() -> None:
    source_words, target_words = make_dictionary(20), make_dictionary(9)
    task = TranslationTask(TranslationConfig(), source_words, target_words)
    sizes = {"embed_dim": 8, "ffn_embed_dim": 8, "layers": 1, "attention_heads": 2}
    args = Namespace(**{f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in sizes.items()})
    base_architecture(args)
    torch.manual_seed(1)
    model = TransformerModel.build_model(args, task).eval()
    batch = [[5, 6, 7, EOS], [8, EOS]]
    for source, hypotheses in zip(batch, search([model], batch, beam=4, dictionary=9), strict=True):
        for hypothesis in hypotheses:
            tokens = hypothesis["tokens"].tolist()
            logits, _ = model(**make_sample([source], [tokens])["net_input"])
            forced = torch.log_softmax(logits[0], dim=-1)[range(len(tokens)), tokens]
            torch.testing.assert_close(hypothesis["positional_scores"], forced, rtol=0, atol=1e-5)


def test_the_best_continuations_are_the_best() -> None:
    rng = np.random.default_rng(6)
    for _ in range(50):
        rows = rng.integers(0, 4, size=5)  # live hypotheses of each of five sentences
        if rows.sum() == 0:
            continue
        room = torch.from_numpy(rng.integers(0, 5, size=5))
        sentence = torch.from_numpy(np.repeat(np.arange(5), rows))
        totals = torch.from_numpy(rng.normal(size=len(sentence)))
        log_probs = torch.from_numpy(rng.normal(size=(len(sentence), 3)))
        log_probs[torch.from_numpy(rng.random((len(sentence), 3)) < 0.2)] = -math.inf
        if room.max() == 0:
            continue
        parent, words = best_continuations(totals, log_probs, sentence, room)
        found = list(zip(sentence[parent].tolist(), parent.tolist(), words.tolist()))
        expected = []
        for number in range(5):
            options = [
                (-(totals[row] + log_probs[row, word]).item(), row, word)
                for row, word in itertools.product(np.flatnonzero(sentence == number), range(3))
            ]
            options = sorted(option for option in options if option[0] < math.inf)[: room[number]]
            expected += [(number, row, word) for _, row, word in options]
        assert found == expected


# -- against the original program --


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> tuple[RNNsearchModel, TranslationTask]:
    folder = tmp_path_factory.mktemp("converted")
    files = (RECORDED / f"vocab.{language}.pkl" for language in ("en", "fr"))
    convert.convert(RECORDED / "search_model.npz", RECORDED / "search_state.pkl", tuple(files), ("en", "fr"), folder)
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(folder / "checkpoint.pt")], arg_overrides={"data": str(folder)}
    )
    return model.eval(), task


@pytest.mark.slow
@needs_recorded
@pytest.mark.parametrize("together", [True, False], ids=["batched", "alone"])
@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("raw", {"unnormalized": True}),
        ("normalized", {}),
        ("unknown_banned", {"unnormalized": True, "unkpen": math.inf}),
    ],
)
def test_recorded_translations_word_for_word(
    converted: tuple[RNNsearchModel, TranslationTask], mode: str, options: dict[str, Any], together: bool
) -> None:
    model, task = converted
    expected = recorded("search_translations_20.json")
    dictionary = task.target_dictionary
    sources = [task.source_dictionary.encode_line(line, add_if_not_exist=False).tolist() for line in expected["source"]]
    assert not any(PAD in source for source in sources)
    generator = task.build_generator([model], OmegaConf.create({"search": "groundhog", "beam": 10, **options}))
    batches = [sources] if together else [[source] for source in sources]
    found = [
        hypotheses[0]
        for batch in batches
        for hypotheses in generator.generate([model], {"net_input": {"src_tokens": pad(batch, left=True)}})
    ]
    texts = [dictionary.string(hypothesis["tokens"]).replace(dictionary.unk_word, "UNK") for hypothesis in found]
    assert texts == expected[mode]
    total = -sum(hypothesis["score"].item() for hypothesis in found)
    assert total == pytest.approx(expected["total_cost"][mode], abs=1e-3)
