"""Text to words and back: as fairseq's encoders do it, and in the case that the model knows."""

from pathlib import Path

import pytest
from fairseq.data import encoders
from omegaconf import OmegaConf

from rnnsearch_fairseq.corpus.prepare import learn_codes, learn_pieces
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.codec import TextCodec
from rnnsearch_fairseq.text.preparation import Preparation
from rnnsearch_fairseq.text.vocabulary import SPECIAL, Vocabulary

TEXTS = [
    'It\'s a well-known story: "Tom & Mary" [1] <b>live</b> in the U.S. and pay 3.5% | more...',
    "L'homme qu'elle a vu aujourd'hui n'est-ce pas, c'est M. Dupont ; il dit « non » à 10 h 30.",
    "昨日、東京タワーへ行きました。 It was ﬁne，１２３！",
    "see http://a.b/c?d=1 or mail x_y@z.org -- now! \x01 Über café naïve\u00a0text 😀 &amp; @-@ a@@ b",
    "",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("subwords")
    (folder / "bpe.codes").write_text(learn_codes(TEXTS * 20, 60), encoding="utf-8")
    (folder / "sentencepiece.model").write_bytes(learn_pieces(TEXTS * 20, 140))
    return folder


@pytest.mark.parametrize("language", ["en", "fr", "ja", "it", "unknown"])
@pytest.mark.parametrize("no_escape", [False, True])
@pytest.mark.parametrize("no_dash_splits", [False, True])
def test_tokens_are_those_of_fairseqs_moses(language: str, no_escape: bool, no_dash_splits: bool) -> None:
    ours = TextCodec(Preparation("moses", no_escape, no_dash_splits), language)
    options = {"moses_no_escape": no_escape, "moses_no_dash_splits": no_dash_splits}
    languages = {"source_lang": language, "target_lang": language}
    theirs = encoders.build_tokenizer(OmegaConf.create({"_name": "moses", **languages, **options}))
    for text in TEXTS:
        tokens = ours.encode(text)
        assert " ".join(tokens) == theirs.encode(text)
        assert ours.decode(tokens) == theirs.decode(" ".join(tokens))


@pytest.mark.parametrize("kind", ["bpe", "sentencepiece"])
def test_subwords_are_those_of_fairseqs_encoders(folder: Path, kind: str) -> None:
    codes, model = folder / "bpe.codes", folder / "sentencepiece.model"
    if kind == "bpe":
        preparation = Preparation(bpe=codes.read_text(encoding="utf-8"))
        options = {"_name": "subword_nmt", "bpe_codes": str(codes)}
    else:
        preparation = Preparation(sentencepiece=model.read_bytes())
        options = {"_name": "sentencepiece", "sentencepiece_model": str(model)}
    ours, theirs = TextCodec(preparation, "en"), encoders.build_bpe(OmegaConf.create(options))
    for text in TEXTS:
        text = " ".join(text.split())
        words = ours.encode(text)
        assert words == theirs.encode(text).split()
        assert ours.decode(words) == theirs.decode(" ".join(words))


def test_a_word_that_is_known_only_in_lower_case_is_lowercased(folder: Path) -> None:
    vocabulary = Vocabulary([*SPECIAL, "the", "cat", "US", "us", "Tom"])
    moses = Preparation("moses", moses_no_escape=True, moses_no_dash_splits=True)
    words = TextCodec(moses, "en", vocabulary)
    assert words.encode("THE  Cat and Tom in US\tPARIS.") == ["the", "cat", "and", "Tom", "in", "US", "PARIS", "."]
    assert TextCodec(moses, "en").encode("\ufeffThe C\u00adat.") == ["The", "Cat", "."]
    codes = (folder / "bpe.codes").read_text(encoding="utf-8")
    pieces = TextCodec(Preparation(bpe=codes), "en").encode("xyz")
    subwords = TextCodec(Preparation(bpe=codes), "en", Vocabulary([*SPECIAL, *pieces]))
    assert subwords.encode("XYZ xyz") == pieces * 2
    lower = TextCodec(Preparation("moses", lowercase=True), "en")
    assert lower.encode('Tom\'s "Cat"') == ["tom", "&apos;s", "&quot;", "cat", "&quot;"]


@pytest.mark.parametrize(
    "damaged",
    [Preparation(bpe="#version: 0.2\na b c\n"), Preparation(bpe="#version: x\n")]
    + [Preparation(sentencepiece=content) for content in (b"\xff\0", bytes(range(256)) * 20)],
)
def test_damaged_subwords_are_refused_in_one_sentence(damaged: Preparation) -> None:
    with pytest.raises(InputError, match=r"of 'en' cannot split words .*; give the file that split the training text"):
        TextCodec(damaged, "en")


def test_damage_that_shows_in_a_sentence_is_named_and_half_of_a_character(folder: Path) -> None:
    """Damage in the rule that writes a ligature as two letters."""
    content = (folder / "sentencepiece.model").read_bytes()
    codec = TextCodec(Preparation(sentencepiece=content.replace(b"\0fi\0", b"\0\xffi\0")), "en")
    assert codec.encode("see") == TextCodec(Preparation(sentencepiece=content), "en").encode("see")
    for text in ("ﬁne", "\udcff"):
        with pytest.raises(InputError, match="sentencepiece cannot split the text"):
            codec.encode(text)
