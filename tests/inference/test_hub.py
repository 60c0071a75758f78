"""The Python API: text in, translations, scores and alignments out; against fairseq's own and the scoring command."""

import dataclasses
import doctest
import math
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary
from fairseq.hub_utils import GeneratorHubInterface

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference import hub
from rnnsearch_fairseq.inference import text as text_module
from rnnsearch_fairseq.inference.hub import TranslationHub
from rnnsearch_fairseq.inference.loading import find_data, load_models
from rnnsearch_fairseq.inference.record import Preparation
from rnnsearch_fairseq.inference.scoring import BATCH_SIZE, MAX_TOKENS, score_pairs
from rnnsearch_fairseq.inference.text import Found, TextEncoder, configure, guess_preparation
from rnnsearch_fairseq.models.rnnsearch import RNNsearchModel
from rnnsearch_fairseq.models.tree2seq import Tree2SeqModel
from rnnsearch_fairseq.text.subwords import learn_codes, learn_pieces
from tests.trained import PAIRS, PARSES, train

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

SOURCES, TARGETS = list(PAIRS), list(PAIRS.values())
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
    "." * 2000,
    "x" * 5000,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("plain") / "run")


@pytest.fixture(scope="module")
def tree_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("tree") / "run", "tree2seq_small")


@pytest.fixture(scope="module")
def model(folder: Path) -> TranslationHub:
    return RNNsearchModel.from_pretrained(folder)


@pytest.fixture(scope="module")
def tokens(folder: Path) -> TranslationHub:
    """The same model, for text that is split already."""
    return RNNsearchModel.from_pretrained(folder, tokenizer=None)


@pytest.fixture(scope="module")
def tree_model(tree_folder: Path) -> TranslationHub:
    return Tree2SeqModel.from_pretrained(tree_folder)


def test_the_docstrings_examples_are_true(folder: Path) -> None:
    results = doctest.testmod(hub, extraglobs={"folder": folder}, optionflags=doctest.ELLIPSIS)
    assert results.attempted >= 8
    assert results.failed == 0


# Translating


def test_text_is_tokenised_lowercased_and_written_as_text(model: TranslationHub) -> None:
    assert model.translate(["The black cat eats.", "It's a cat."]) == ["le chat noir mange.", "c'est un chat."]
    assert model.translate("The dog sleeps.") == "le chien dort."


def test_text_that_is_split_is_left_as_it_is(tokens: TranslationHub) -> None:
    assert tokens.translate(SOURCES) == TARGETS


@pytest.mark.parametrize(
    "options", [{}, {"beam": 3, "lenpen": 0.5}, {"search": "groundhog", "beam": 4}, {"search": "tree2seq", "beam": 2}]
)
def test_translations_are_those_of_fairseqs_hub(tokens: TranslationHub, options: dict[str, Any]) -> None:
    words = ["the", "dog", "cat", "black", "zebra", ".", "eats"]
    sentences = [" ".join(random.Random(n).choices(words, k=n % 9)) for n in range(90)]
    ours = tokens.translations(sentences, nbest=2, **options)
    theirs = GeneratorHubInterface(tokens.cfg, tokens.task, list(tokens.models))
    theirs._build_batches = tokens._build_batches
    for found, expected in zip(ours, theirs.generate([theirs.encode(line) for line in sentences], **options)):
        for translation, hypothesis in zip(found, expected, strict=False):
            assert translation.text == theirs.decode(hypothesis["tokens"])
            assert translation.score == pytest.approx(hypothesis["score"].item(), abs=1e-6)
    assert tokens.translate(sentences, **options) == [best.text for best, *_ in ours]
    # In batches or alone, in any order.
    assert [tokens.translate(line, **options) for line in sentences[::13]] == [best.text for best, *_ in ours[::13]]


def test_nbest_are_ranked_and_no_more_than_asked_for(model: TranslationHub) -> None:
    for found in model.translations(["the dog eats.", "a cat."], beam=4, nbest=3):
        assert 1 <= len(found) <= 3
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        assert len({tuple(one.words) for one in found}) == len(found)


def test_batches_are_of_similar_lengths_and_bounded(tokens: TranslationHub) -> None:
    generator = random.Random(2)
    lengths = [generator.choice([1, 5, 30, 900, 2000]) for _ in range(150)]
    ids = [torch.full((length,), 5) for length in lengths]
    for skips in (False, True):
        batches = list(tokens._build_batches(ids, skips))
        shapes = [tuple(batch["net_input"]["src_tokens"].shape) for batch in batches]
        assert all(rows <= BATCH_SIZE and rows * columns <= MAX_TOKENS for rows, columns in shapes)
        expected = {number for number, length in enumerate(lengths) if length < 2000 or not skips}
        assert {number for batch in batches for number in batch["id"].tolist()} == expected


def test_no_sentences_have_no_translations(model: TranslationHub) -> None:
    assert model.translate([]) == model.score([], []) == model.align([]) == []


@pytest.mark.parametrize(
    "options", [{}, {"sampling": True}, {"min_len_a": 0.5}, {"search": "groundhog"}, {"search": "tree2seq"}]
)
def test_the_search_shows_what_it_has_found_so_far(tokens: TranslationHub, options: dict[str, Any]) -> None:
    steps: list[dict[int, str]] = []
    sources = tokens.read_sources([*SOURCES[:3], "cat"])
    generator = tokens.build_generator(beam=3, **options)
    torch.manual_seed(1)
    silent = tokens.search(sources, generator, 2)
    torch.manual_seed(1)
    watched = tokens.search(
        sources, generator, 2, lambda best: steps.append({n: tokens.decode(y) for n, y in best.items()})
    )
    texts = [[one.text for one in found] for found in silent]
    assert [[one.text for one in found] for found in watched] == texts
    assert {number for step in steps for number in step} >= {0, 1, 2}
    shown = [step[2] for step in steps if 2 in step]
    assert [len(text.split()) for text in shown] == sorted(len(text.split()) for text in shown)
    if "sampling" not in options:
        assert "le chat noir" in shown
    torch.manual_seed(1)
    again = tokens.search(sources, generator, 2)  # nobody watches any more
    count = len(steps)
    assert [found[0].words for found in again] == [found[0].words for found in silent]
    assert len(steps) == count


def test_what_the_watcher_raises_ends_the_search(model: TranslationHub) -> None:
    def stop(best: dict[int, torch.Tensor]) -> None:
        raise TimeoutError

    generator = model.build_generator()
    with pytest.raises(TimeoutError):
        model.search(model.read_sources(SOURCES), generator, 1, stop)
    assert model.translate("the dog sleeps .") == "le chien dort."


# Scores and alignments


def test_scores_are_those_of_the_command(folder: Path, tokens: TranslationHub) -> None:
    targets = [*TARGETS[1:], "le xyzzy"]
    data, checkpoint = folder / "bin", folder / "checkpoints" / "checkpoint_best.pt"
    pairs = list(zip(SOURCES, targets))
    expected = list(score_pairs(*load_models([str(checkpoint)], str(data), cpu=True), pairs))
    np.testing.assert_allclose(tokens.score(SOURCES, targets), [pair.logprob for pair in expected], atol=1e-5)
    for ours, theirs in zip(tokens.align(SOURCES, targets), expected, strict=True):
        torch.testing.assert_close(ours.weights, theirs.alignment)
        torch.testing.assert_close(ours.logprobs, theirs.word_logprobs)
        assert ours.source == theirs.source
    assert ours.target == ["le", "xyzzy", "</s>"]
    assert ours.target_unknown == [False, True, False]


def test_alignments_have_the_words_of_both_sides(model: TranslationHub) -> None:
    (alignment,) = model.align(["It's a Cat"])
    assert alignment.source == ["it", "&apos;s", "a", "cat", "</s>"]
    assert alignment.weights.shape == (len(alignment.target), 5)
    torch.testing.assert_close(alignment.weights.sum(dim=1), torch.ones(len(alignment.target)))
    assert alignment.phrases is alignment.phrase_weights is None
    assert not any(alignment.source_unknown)


def test_a_model_without_attention_scores_and_does_not_align(tmp_path: Path) -> None:
    encdec = RNNsearchModel.from_pretrained(train(tmp_path / "run", "rnnencdec"), tokenizer=None)
    assert encdec.score(SOURCES[:1], TARGETS[:1])[0] > -0.5
    with pytest.raises(InputError, match="the model has no alignment"):
        encdec.align(SOURCES[:1])


# Trees


@pytest.mark.parametrize("form", ["penn", "transitions"])
def test_phrases_are_those_of_the_parse(tree_model: TranslationHub, form: str) -> None:
    tree = {"penn": "(S (NP The (X black cat)) eats .)", "transitions": "S S S R R S S R R"}[form]
    (alignment,) = tree_model.align(["The black cat eats."], trees=[tree])
    assert alignment.phrases == [(0, 5), (0, 3), (1, 3), (3, 5)]
    assert alignment.phrase_weights.shape == (len(alignment.target), 4)
    both = alignment.weights.sum(dim=1) + alignment.phrase_weights.sum(dim=1)
    torch.testing.assert_close(both, torch.ones(len(alignment.target)))


def test_sentences_with_and_without_parse_are_translated_together(tree_model: TranslationHub) -> None:
    trees = [None if number % 2 else parse for number, parse in enumerate([*PARSES[:4], ""])]
    sentences = ["The dog sleeps.", "The cat sleeps.", "The black cat eats.", "The black dog eats.", "the dog sleeps"]
    texts = [target.replace(" .", ".") for target in TARGETS[:4]]
    assert tree_model.translate(sentences, trees=trees)[:4] == texts
    assert tree_model.translate(sentences)[:4] == texts
    assert tree_model.translate(sentences[0], trees=PARSES[0]) == texts[0]
    assert tree_model.align(sentences, trees=trees)[1].phrases == []
    assert not tree_model.task.typed, "trees are left behind"


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ("(S (NP The dog) sleeps", "the parse of sentence 2 is not one tree in brackets"),
        ("(S (NP the cat) sleeps .)", "sentence 2: leaf 2 of its parse is 'cat', but word 2 is 'dog'"),
        ("S S", "the parse of sentence 2: the transitions end with 2 phrases"),
        ("S S R S R S R S R S R", "sentence 2: its parse has 6 leaves, but it has 4 words"),
        ("\ud800", "the parse of sentence 2: character 1 is half of a surrogate pair"),
        (7, "the parse of sentence 2 is a int"),
        ("(" * 10**6, "the parse of sentence 2 has 1,000,000 characters"),
        ("(" * 10**5, "the parse of sentence 2 is not one tree"),
    ],
)
def test_a_parse_that_is_not_the_sentences_is_refused(tree_model: TranslationHub, tree: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        tree_model.translate(["the cat .", "The dog sleeps."], trees=[None, tree])


def test_a_model_without_trees_refuses_them(model: TranslationHub) -> None:
    with pytest.raises(InputError, match="sentence 1: the model reads no trees"):
        model.translate(["the dog"], trees=["(S the dog)"])
    assert model.translate(["the dog sleeps ."], trees=[""]) == ["le chien dort."]


# Hostile text


def test_every_noise_is_answered_or_refused_by_number(model: TranslationHub) -> None:
    assert len(model.translate(NOISE, max_len_b=10)) == len(NOISE)
    assert all(math.isfinite(score) for score in model.score(NOISE, NOISE))
    alignments = model.align(NOISE, NOISE[::-1])
    assert all(len(one.source_unknown) == len(one.source) == one.weights.shape[1] for one in alignments)


@pytest.mark.parametrize("word", ["</s>", "<s>", "<pad>"])
def test_symbols_that_are_typed_are_unknown_words(tokens: TranslationHub, word: str) -> None:
    assert tokens.encode(f"the {word} dog").tolist() == tokens.encode("the <unk> dog").tolist()
    alike = [tokens.align([f"the {one} dog"], [f"le {one} chien"])[0] for one in (word, "<unk>")]
    for alignment in alike:
        assert alignment.source_unknown == alignment.target_unknown == [False, True, False, False]
    torch.testing.assert_close(alike[0].weights, alike[1].weights)


def test_a_sentence_without_words_is_translated_by_none(model: TranslationHub, tree_model: TranslationHub) -> None:
    for hub_of_model in (model, tree_model):
        noise = [line for line in NOISE if not line.replace("\0", "").strip()]
        translated = hub_of_model.translate(["the dog sleeps .", *noise, "The cat sleeps."])
        assert translated == ["le chien dort.", *[""] * len(noise), "le chat dort."]
        assert hub_of_model.translate(" ") == ""
        ((blank,),) = hub_of_model.translations([""], nbest=3)
        assert (blank.text, blank.words, blank.score) == ("", [], 0)
        assert hub_of_model.score([""], ["le chien dort ."])[0] < 0
    assert len(tree_model.translate(NOISE, max_len_b=10)) == len(NOISE)


def test_a_word_that_is_known_in_lower_case_alone_is_read_in_lower_case(tokens: TranslationHub) -> None:
    tokens.source_encoder.lowercase = False
    assert tokens.source_encoder.encode("THE Zebra DoG") == "the Zebra dog"
    assert tokens.translate("The BLACK cat EATS .") == "le chat noir mange ."


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("a" * 10**6, "sentence 2 has 1,000,000 characters, and at most 10,000 are read; split it"),
        ("a " * 3000, "sentence 2 has 3,000 words, and the model reads at most 1,023; split it"),
        ("dog \udcff", "sentence 2: character 5 is half of a surrogate pair"),
        (None, "sentence 2 is a NoneType; give a string"),
        (b"dog", "sentence 2 is a bytes"),
    ],
)
def test_what_cannot_be_read_is_refused_by_number(model: TranslationHub, sentence: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        model.translate(["the dog", sentence])
    with pytest.raises(InputError, match=message.replace("sentence", "target")):
        model.score(["the dog"] * 2, ["le chien", sentence])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.score(["a"], ["b", "c"]), "there are 1 sources and 2 targets"),
        (lambda model: model.translate(["a"], trees=[]), "there are 1 sentences and 0 trees"),
        (lambda model: model.align("the dog"), "sentences are a str; give a list of strings"),
        (lambda model: model.translate(7), "sentences are a int"),
        (lambda model: model.translate(["a"], beam=0), "beam is 0"),
        (lambda model: model.translate(["a"], beam="wide"), "beam is 'wide'"),
        (lambda model: model.translate(["a"], beem=3), "'beem' is not an option"),
        (lambda model: model.translate(["a"], nbest=3), r"translations\(sentences, nbest=3\) returns three"),
        (lambda model: model.translate(["a"], score_reference=True), "'score_reference' is not an option"),
        (lambda model: model.translate(["a"], lenpen="long"), "lenpen cannot be 'long'"),
        (lambda model: model.translate(["a"], search="theano"), "search cannot be 'theano'"),
        (lambda model: model.translate(["a"], search="groundhog", sampling=True), "--sampling has no effect"),
    ],
)
def test_calls_that_make_no_sense_are_refused_in_one_sentence(model: TranslationHub, call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(model)


def test_words_that_were_split_are_not_remembered_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "CACHED_CHARACTERS", 20_000)
    text = tmp_path / "text"
    text.write_text("the dog sleeps\n" * 9, encoding="utf-8")
    (tmp_path / "bpe.codes").write_text(learn_codes([text], 5), encoding="utf-8")
    cfg = configure({"bpe": "subword_nmt", "bpe_codes": str(tmp_path / "bpe.codes")})
    encoder = TextEncoder(cfg, "en", lowercase=False)
    generator = random.Random(1)
    for _ in range(5):
        encoder.encode(" ".join("".join(generator.choices("abcdefgh", k=9)) for _ in range(1000)))
    cache = encoder.bpe.bpe.cache
    assert 0 < sum(map(len, cache)) <= 20_000


# Loading


def test_dictionaries_and_codes_are_found_where_recipes_put_them(folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "RNNsearch-50"
    shutil.copytree(folder / "checkpoints", run / "checkpoints")
    shutil.copytree(folder / "bin", tmp_path / "bin")
    assert find_data(run / "checkpoints") == tmp_path / "bin"
    for start in (run, run / "checkpoints"):
        assert RNNsearchModel.from_pretrained(start).translate("The dog sleeps.") == "le chien dort."


def dictionary_of(*words: str) -> Dictionary:
    dictionary = Dictionary()
    for word in words:
        dictionary.add_symbol(word)
    return dictionary


def test_without_a_record_the_dictionaries_tell_what_they_can(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data, text = tmp_path / "bin", tmp_path / "text"
    text.mkdir()
    plain = Preparation(lowercase=True)
    assert guess_preparation(data, dictionary_of("@@"), dictionary_of("▁")) == Found(plain, plain, data)
    for file, mark, option in (
        ("bpe.codes", "do@@", "bpe_codes"),
        ("sentencepiece.model", "▁the", "sentencepiece_model"),
    ):
        (text / file).write_text("")
        split = dataclasses.replace(plain, **{option: file})
        expected = Found(split, dataclasses.replace(split, lowercase=False), text)
        assert guess_preparation(data, dictionary_of("dog", mark), dictionary_of("Chien")) == expected
    (text / "bpe.codes").unlink()
    moses = Preparation("moses", lowercase=True)
    assert guess_preparation(data, dictionary_of("it&apos;s", "do@@"), dictionary_of()) == Found(moses, moses, data)
    assert "holds subwords, but no bpe.codes is near" in caplog.text


@pytest.mark.parametrize("kind", ["subword_nmt", "sentencepiece"])
def test_subwords_are_made_and_joined(folder: Path, tmp_path: Path, kind: str) -> None:
    text = tmp_path / "text"
    text.write_text("the dog sleeps .\nle chien dort .\nthe black cat eats .\n" * 9, encoding="utf-8")
    if kind == "subword_nmt":
        (tmp_path / "bpe.codes").write_text(learn_codes([text], 50), encoding="utf-8")
        options = {"bpe": kind, "bpe_codes": str(tmp_path / "bpe.codes")}
    else:
        (tmp_path / "pieces").write_bytes(learn_pieces([text], 26))
        options = {"bpe": kind, "sentencepiece_model": str(tmp_path / "pieces")}
    encoder = TextEncoder(configure(options), "en", lowercase=True)
    words = encoder.encode("The dog ignores the zoo.")
    assert len(words.split()) > 5
    assert encoder.decode(words) == "the dog ignores the zoo."
    assert RNNsearchModel.from_pretrained(folder, tokenizer=None, **options).translate(NOISE[:9], max_len_b=5)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("nowhere",), {}, "nowhere: no such folder"),
        (("",), {}, "holds no model.pt, checkpoint_best.pt"),
        (("run", "x.pt"), {}, "x.pt: no such checkpoint"),
        (("run", "checkpoints/checkpoint_best.pt", "empty"), {}, "dict.en.txt: no such file"),
        (("run", "bin/dict.en.txt"), {}, r"dict\.en\.txt: not a checkpoint"),
        (("run",), {"tokenizer": "mosses"}, "there is no tokenizer 'mosses'; choose one of"),
        (("run",), {"bpe": "subword_nmt", "bpe_codes": "x"}, "bpe_codes x: no such file"),
        (("run",), {"beams": 5}, "'beams' is not an option"),
    ],
)
def test_what_cannot_be_loaded_is_refused_in_one_sentence(
    folder: Path, tmp_path: Path, arguments: tuple[str, ...], options: dict[str, Any], message: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "run").symlink_to(folder)
    where, *others = arguments
    others = [str(tmp_path / name) if name == "empty" else name for name in others]
    with pytest.raises(InputError, match=message) as error:
        RNNsearchModel.from_pretrained(tmp_path / where, *others, **options)
    assert "\n" not in str(error.value)


def test_a_folder_without_dictionaries_is_refused(folder: Path, tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b" / "c" / "d"
    shutil.copytree(folder / "checkpoints", deep)
    with pytest.raises(InputError, match=r"no dict\.\*\.txt in it, nor above it"):
        RNNsearchModel.from_pretrained(deep)


def test_an_ensemble_is_named_by_colons(folder: Path) -> None:
    two = RNNsearchModel.from_pretrained(folder / "checkpoints", "checkpoint_best.pt:checkpoint_best.pt", "../bin")
    assert len(two.models) == 2
    assert two.translate("The dog sleeps.") == "le chien dort."


def copy_with_data(folder: Path, out: Path, data: str) -> Path:
    """Write a checkpoint like the one of ``folder`` whose training had this data."""
    out.parent.mkdir(parents=True, exist_ok=True)
    state = torch.load(folder / "checkpoints" / "checkpoint_best.pt")
    state["cfg"]["task"]["data"] = data
    torch.save(state, out)
    return out


def save_other_dictionaries(folder: Path, data: Path, *more: str) -> None:
    """Write those of ``folder`` with the words in another order, and with ``more`` words."""
    data.mkdir(parents=True)
    for language in ("en", "fr"):
        words = (folder / "bin" / f"dict.{language}.txt").read_text(encoding="utf-8").splitlines()
        lines = [*reversed(words), *(f"{word} 1" for word in more)]
        (data / f"dict.{language}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.mark.parametrize("form", ["absolute", "relative", "gone"])
def test_the_data_of_the_training_comes_before_what_is_near(folder: Path, tmp_path: Path, form: str) -> None:
    save_other_dictionaries(folder, tmp_path / "bin")
    shutil.copytree(folder / "bin", tmp_path / "bin-bpe")
    own = {"absolute": str(tmp_path / "bin-bpe"), "relative": "bin-bpe", "gone": "/nowhere\0" + "/x" * 5000}[form]
    run = copy_with_data(folder, tmp_path / "checkpoints" / "checkpoint_best.pt", own).parent
    model = RNNsearchModel.from_pretrained(run)
    assert model.task.cfg.data == str(tmp_path / ("bin" if form == "gone" else "bin-bpe"))
    assert (model.translate("the dog sleeps .") == "le chien dort.") == (form != "gone")
    given = RNNsearchModel.from_pretrained(run, data_name_or_path=str(tmp_path / "bin-bpe"))
    assert given.translate("the dog sleeps .") == "le chien dort."


def test_a_dictionary_that_does_not_fit_is_named_with_its_folder(folder: Path, tmp_path: Path) -> None:
    save_other_dictionaries(folder, tmp_path / "bin", "zebra")
    run = copy_with_data(folder, tmp_path / "checkpoints" / "checkpoint_best.pt", "nowhere").parent
    words = len((folder / "bin" / "dict.en.txt").read_text().splitlines()) + 4
    message = f"trained with {words} source words, but {tmp_path}/bin/dict.en.txt has {words + 1}"
    with pytest.raises(InputError, match=message):
        RNNsearchModel.from_pretrained(run)
