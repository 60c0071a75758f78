"""The Python API: text in, translations, scores and alignments out."""

import math
import multiprocessing
import random
import weakref
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rnnsearch_fairseq
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.scoring import MAX_BATCH_SENTENCES
from rnnsearch_fairseq.inference.translator import Translator
from rnnsearch_fairseq.modules.symbols import UNK
from rnnsearch_fairseq.search import BeamSearch, Hypothesis
from rnnsearch_fairseq.text.piece import Piece
from rnnsearch_fairseq.text.terms import Terms
from tests.trained import PAIRS, PARSES, change_text, make_checkpoint

SOURCES = [source.replace(" &apos;", "'") for source in PAIRS]
TARGETS = [target.replace(" .", ".").replace("&apos; ", "'") for target in PAIRS.values()]
NOISE = [
    "",
    "   \t ",
    "\0",
    "a\0b\x01\x1b[31m \x7f",
    "\u2028\u2029\x85\x1c the",
    "\u202eكلب ينام\u202c",
    "<pad> <s> </s> <unk> <pad>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "🐕‍🦺" * 40,
    "the " * 500,
    "x" * 5000,
]


@pytest.fixture(scope="module")
def model(models: Path) -> Translator:
    return rnnsearch_fairseq.load(models / "bahdanau_gru")


@pytest.fixture(scope="module")
def tree_model(models: Path) -> Translator:
    return rnnsearch_fairseq.load(models / "tree2seq_small")


# Translating


def test_text_is_prepared_and_written_as_text(model: Translator) -> None:
    assert model.translate(["The black cat eats.", "It's a cat."]) == ["le chat noir mange.", "c'est un chat."]
    greedy = model.translate("The dog sleeps.", beam=np.int64(1), lenpen=np.float64(0.5))  # NumPy's are numbers, too
    assert model.translate("The dog sleeps.") == greedy == "le chien dort."


@pytest.mark.parametrize(
    "options", [{}, {"beam": 3, "lenpen": 0.5}, {"search": "groundhog", "beam": 4}, {"search": "tree2seq", "beam": 2}]
)
def test_translations_are_ranked_and_differ(model: Translator, options: dict[str, Any]) -> None:
    words = ["the", "dog", "cat", "black", "zebra", ".", "eats"]
    sentences = [" ".join(random.Random(n).choices(words, k=n % 9)) for n in range(90)]
    together = model.translations(sentences, nbest=2, **options)
    for translations in together:
        assert 1 <= len(translations) <= 2
        assert [one.score for one in translations] == sorted((one.score for one in translations), reverse=True)
        assert len({tuple(one.words) for one in translations}) == len(translations)
    assert model.translate(sentences, **options) == [best.text for best, *_ in together]


def test_an_ensemble_is_named_by_colons(models: Path) -> None:
    two = rnnsearch_fairseq.load(f"{models}/bahdanau_gru:{models}/rnnencdec/checkpoints/checkpoint_best.pt")
    assert len(two.networks) == 2
    assert two.translate(SOURCES) == TARGETS
    assert two.align(SOURCES[0]).weights.shape == (5, 5)


@pytest.mark.parametrize("arch", ["bahdanau_gru", "rnnencdec", "tree2seq_small"])
def test_long_texts_are_translated_sentence_by_sentence(models: Path, arch: str) -> None:
    translator = rnnsearch_fairseq.load(models / arch)
    text, expected = " ".join(map(str.capitalize, SOURCES * 4)), " ".join(TARGETS * 4)
    short, long = translator.translations([SOURCES[0], text], nbest=2)
    assert short[0].text == TARGETS[0] and long[0].text == expected and len(long) == 2
    assert long[0].target.count("</s>") == 4 * len(SOURCES) == long[0].source.count("</s>")
    if translator.has_attention:
        torch.testing.assert_close(long[0].weights.sum(dim=1), torch.ones(len(long[0].target)))


def test_an_element_that_is_lost_in_its_sentence_is_translated_apart(
    model: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Piece, "find_faults", lambda piece, text: (["lacks <b>"] * ("<b>" in piece.text), []))
    apart, alone = model.translations(["The <b>black</b> cat eats.", "The <b>Black</b> cat eats."], 1)
    assert apart[0].faults == alone[0].faults == [] and apart[0].source[-2:] == ["black", "</s>"]


def test_unknown_words_are_replaced_in_each_sentence_of_a_long_text(models: Path) -> None:
    translator = rnnsearch_fairseq.load(models / "bahdanau_gru", max_len_b=3)
    translator.networks[0].decoder.readout.to_vocabulary.bias.data[UNK] = 1e3
    translator.dictionary = {"dog": "chien"}
    (copied,) = translator.translations("The dog sleeps. " * 20, 1)
    assert copied.source.count("</s>") == 20
    assert all(copied.target_unknown[:3]) and "<unk>" not in copied.text
    assert {*copied.words} <= {"the", "chien", "sleeps", ".", "</s>"}


# Scores and alignments


def test_beams_of_one_batch_at_a_time_are_in_memory(model: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    search, living = BeamSearch.search, weakref.WeakSet[Hypothesis]()
    most = []

    def watched(*arguments: Any) -> list[list[Hypothesis]]:
        most.append(len(living))
        hypotheses = search(*arguments)
        living.update(one for several in hypotheses for one in several)
        return hypotheses

    monkeypatch.setattr(BeamSearch, "search", watched)
    batches = 4
    model.translate([f"the dog {'sleeps ' * (number % 9)}." for number in range(batches * MAX_BATCH_SENTENCES)])
    assert len(most) >= batches
    assert max(most) <= model.options.beam * MAX_BATCH_SENTENCES


def test_alignments_have_the_words_of_both_sides(model: Translator) -> None:
    alignment = model.align("It's a Zebra", "c'est un zèbre")
    assert alignment.source == ["it", "&apos;s", "a", "zebra", "</s>"]
    assert alignment.target == ["c&apos;", "est", "un", "zèbre", "</s>"]
    assert alignment.source_unknown == alignment.target_unknown == [False, False, False, True, False]
    torch.testing.assert_close(alignment.weights.sum(dim=1), torch.ones(5))
    assert alignment.phrases is alignment.phrase_weights is None
    assert model.score("It's a Zebra", "c'est un zèbre") == pytest.approx(alignment.logprobs.sum().item())


def test_a_model_without_attention_scores_and_does_not_align(models: Path) -> None:
    encdec = rnnsearch_fairseq.load(models / "rnnencdec")
    assert encdec.score(SOURCES[0], TARGETS[0]) > -0.5
    with pytest.raises(InputError, match="the model has no alignment"):
        encdec.align(SOURCES[:1])


# Trees


@pytest.mark.parametrize("tree", ["(S (NP The (X black cat)) eats .)", "S S S R R S S R R"])
def test_phrases_are_those_of_the_parse(tree_model: Translator, tree: str) -> None:
    (alignment,) = tree_model.align(["The black cat eats."], trees=[tree])
    assert alignment.phrases == [(0, 5), (0, 3), (1, 3), (3, 5)]
    assert alignment.phrase_weights.shape == (len(alignment.target), 4)
    both = alignment.weights.sum(dim=1) + alignment.phrase_weights.sum(dim=1)
    torch.testing.assert_close(both, torch.ones(len(alignment.target)))


def test_sentences_with_and_without_parse_are_translated_together(tree_model: Translator) -> None:
    trees = [None if number % 2 else parse for number, parse in enumerate(PARSES)]
    assert tree_model.translate(SOURCES, trees=trees) == tree_model.translate(SOURCES) == TARGETS
    assert tree_model.translate(SOURCES[0], trees=PARSES[0]) == tree_model.translate(SOURCES[0], trees="") == TARGETS[0]
    assert tree_model.align(SOURCES, trees=trees)[1].phrases == []


@pytest.mark.parametrize(
    "tree", ["(S (NP The dog) sleeps", "(S (NP the cat) sleeps .)", "S S", "S S R S R S R S R S R"]
)
def test_a_parse_that_is_not_the_sentences_is_refused(tree_model: Translator, tree: Any) -> None:
    with pytest.raises(InputError, match="sentence 2"):
        tree_model.translate(["the cat .", "The dog sleeps."], trees=[None, tree])


# Hostile text


def test_every_noise_is_answered(model: Translator, tree_model: Translator) -> None:
    for each in (model, tree_model):
        assert each.translate([*NOISE, "The cat sleeps."], max_len_b=10)[len(NOISE) :] == ["le chat dort."]
        assert all(math.isfinite(score) for score in each.score(NOISE, NOISE[::-1]))
        (blank,) = each.translations("", nbest=3)
        assert (blank.text, blank.words, blank.score) == ("", [], 0)


def test_a_sentence_without_a_letter_is_its_own_translation(model: Translator) -> None:
    sentences = ["3.14", "  <br/> ", "— 5 % —", "https://example.org/dog"]
    assert model.translate(sentences) == sentences
    plural = "{n, plural, one {# file} other {# files}}"
    (pair,) = model.translations(plural, 1)
    assert (pair.text, pair.faults) == (plural, ["is missing for its plural or select"])
    (copy,) = model.align(["3 . 5"])
    assert copy.words == copy.source[:-1] and copy.weights.equal(torch.eye(len(copy.source))) and copy.score == 0


# Loading


def test_without_a_preparation_text_is_words_and_the_model_is_in_no_ensemble_with_others(
    models: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = make_checkpoint()
    change_text(state, preparations=None)
    torch.save(state, tmp_path / "words.pt")
    words = rnnsearch_fairseq.load(tmp_path / "words.pt")
    assert caplog.text.count("it is read as words separated by spaces") == 1
    assert words.translate("it &apos;s a cat .") == "c&apos; est un chat ."
    change_text(state, languages=["en", "de"])
    torch.save(state, tmp_path / "german.pt")
    for other in (models / "bahdanau_gru", tmp_path / "german.pt"):
        with pytest.raises(InputError, match="the models differ"):
            rnnsearch_fairseq.load(f"{other}:{tmp_path / 'words.pt'}")


@pytest.mark.parametrize(
    ("call", "named"),
    [
        *(
            (lambda model, given=given: model.translate(given), "sentences")
            for given in (None, [None], b"a", [b"a"], 5, iter(["a"]), {"a": "b"})
        ),
        *((lambda model, given=given: model.translations("a", given), "nbest") for given in (0, None, 1.5)),
        (lambda model: model.translate(["a"], trees=[]), "trees"),
        (lambda model: model.translate("a", trees=["a"]), "trees"),
        (lambda model: model.translate(["the dog"], trees=["(S the dog)"]), "sentence 1: the model reads no trees"),
        (lambda model: model.score(["a"], ["b", "c"]), "targets"),
        (lambda model: model.score(["a"], None), "targets"),
        (lambda model: model.align(["a", "b"], "cd"), "targets"),
        (lambda model: model.translate(["the dog", "a" * 10**6]), "sentence 2"),
        (lambda model: model.translate("a", beam=None), "--beam"),
        (lambda model: model.translate("a", beam=True), "--beam"),
    ],
)
def test_a_wrong_argument_is_named(model: Translator, call: Any, named: str) -> None:
    with pytest.raises(InputError, match=named):
        call(model)


def test_a_gpu_is_taken_if_there_is_one_and_wrong_devices_are_named(models: Path) -> None:
    load = partial(rnnsearch_fairseq.load, models / "bahdanau_gru")
    assert load("auto").device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    for device in (None, "meta", "x", "cuda:99"):
        with pytest.raises(InputError, match="device"):
            load(device)


def test_a_forked_process_gets_a_model_and_has_one_thread(model: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's other threads are not forked. The model is pickled for the process, with the user's terms."""
    monkeypatch.setattr(model, "reader", replace(model.reader, terms=Terms({"dog": "cat"})))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert pool.apply(torch.get_num_threads) == 1
            assert pool.apply(model.translate, ("The dog sleeps.",)) == "le chat dort."
    finally:
        torch.set_num_threads(before)
