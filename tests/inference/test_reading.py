"""How text is read, with the shipped model; its words and subwords are what the tests expect."""

from typing import Any

import pytest

import rnnsearch_fairseq
from rnnsearch_fairseq.inference import translator
from rnnsearch_fairseq.inference.reading import PieceReader
from rnnsearch_fairseq.inference.translator import Translator
from rnnsearch_fairseq.text.piece import Piece
from tests.trained import SHIPPED_MODEL, needs_shipped_model

pytestmark = needs_shipped_model


@pytest.fixture(scope="module")
def model() -> Translator:
    return rnnsearch_fairseq.load(SHIPPED_MODEL)


def test_a_title_is_read_as_a_sentence_but_for_names(model: Translator) -> None:
    title, sentence = (model.read_source(f"Reset {word} in Windows") for word in ("the Password", "the password"))
    assert title.words == sentence.words
    assert Piece("`a` Reset Password", model.reader).restore("mot de passe ⟦1⟧") == "Mot de passe `a`"
    assert model.translate("Password - Penpot") == "Mot de passe - Penpot"


def test_a_first_word_that_stays_is_read_with_a_small_letter(model: Translator) -> None:
    assert model.translate(["Closed", "Windows", "Redundant VR"]) == ["Fermé", "Windows", "VR redondante"]


def test_a_small_word_that_is_new_to_the_model_is_named_and_the_text_is_searched_once(model: Translator) -> None:
    text = "log lines that flog has generated"
    (pair,) = model.translations(text, 1)
    assert pair.faults == ["may be wrong at a word that the training text lacks: flog"]
    assert model._piece_reader.read_otherwise(model.read_source(text), pair) == ("", [])


def test_a_name_for_which_the_model_writes_a_symbol_is_kept(model: Translator) -> None:
    text = "Install the most recent Werkzeug version."
    assert model.translate(text) == "Installez la version la plus récente de Werkzeug."
    assert [model.translations("Angola", number)[0].text for number in (1, 3)] == ["Angola"] * 2


def test_a_text_without_a_letter_beside_what_is_kept_is_not_read(model: Translator) -> None:
    assert model.translate("⟦1⟧") == "⟦1⟧"


@pytest.mark.parametrize("without", [(PieceReader, "read_otherwise", lambda *_: ("", [])), (translator, "WIDER", 1)])
def test_a_translation_with_a_fault_is_looked_for_again_in_a_wider_beam(
    model: Translator, without: tuple[Any, str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Memory ballooning is supported by default."
    assert model.translations(text, 1)[0].faults == []
    monkeypatch.setattr(*without)
    assert model.translations(text, 1)[0].faults == ["has a word that the training text lacks: biaison"]
