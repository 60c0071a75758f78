"""Documentation for other systems, and text of their translations."""

import sys
from pathlib import Path

import pytest

from recipes.docs_en_fr.other_systems import main
from rnnsearch_fairseq.errors import InputError
from tests.trained import SHIPPED_MODEL, needs_shipped_model

PAIRS = {
    "train": [("Call :func:`open` (twice).", "Appelez :func:`open` (deux fois).")],
    "valid": [("See ``a``, not ``b``.", "Voir ``a``, pas ``c``.")],
    "one": [("Use ``x`` and ``y``::", "Utilisez ``y`` et ``x`` ::"), ("", "")],
    "two": [("It's **bold**.", "C’est **gras**.")],
}


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A folder of raw pairs."""
    for name, pairs in PAIRS.items():
        for side, language in enumerate(("en", "fr")):
            (tmp_path / f"{name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    return tmp_path


def call(monkeypatch: pytest.MonkeyPatch, *words: object) -> None:
    """Call the program."""
    monkeypatch.setattr(sys, "argv", ["other_systems", *map(str, words)])
    main()


def test_markup_is_masked_for_moses_and_put_back(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = raw / "text"
    call(monkeypatch, "words", raw, text, "one", "two")
    assert (text / "train.en").read_text() == "Call SPAN1 ( twice ) .\n"
    assert (text / "train.fr").read_text() == "Appelez SPAN1 ( deux fois ) .\n"
    assert (text / "valid.fr").read_text() == "Voir SPAN1 , pas ``c`` .\n"  # ``c`` is no span of the English side
    assert (text / "test.en").read_text().splitlines() == ["Use SPAN1 and SPAN2 : :", "", "It 's * * bold * * ."]
    output = raw / "output"
    output.write_text("Utilisez SPAN2 et SPAN1 : :\n\nC ’ est * * gras * * .\n")
    (raw / "out").mkdir()
    call(monkeypatch, "from-words", raw, output, raw / "out", "one", "two")
    assert (raw / "out/one.fr").read_text() == "Utilisez ``y`` et ``x`` ::\n\n"
    assert (raw / "out/two.fr").read_text() == "C’est ** gras **.\n"


@needs_shipped_model
def test_pieces_of_a_model_and_back(
    raw: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call(monkeypatch, "pieces", raw, SHIPPED_MODEL, "one", "two")
    first, second = capsys.readouterr().out.splitlines()  # the empty message needs no translation
    assert "⟦1⟧" in first and "⟦2⟧" in first and "⟦" not in second
    output = raw / "output"
    lines = ["S-1\tx", "H-1\t-0.1\t▁C", "H-0\t-0.1\t▁Y ⟦1⟧", "H-0\t-0.2\t▁Y ⟦2⟧ ⟦1⟧"]
    output.write_text("".join(f"{line}\n" for line in lines))
    (raw / "out").mkdir()
    call(monkeypatch, "from-pieces", raw, SHIPPED_MODEL, output, raw / "out", "one", "two")
    assert (raw / "out/one.fr").read_text() == "Y``y````x``\n\n"
    assert (raw / "out/two.fr").read_text() == "C\n"
    output.write_text(f"{lines[1]}\n")
    with pytest.raises(InputError, match="no translation of sentence 0"):
        call(monkeypatch, "from-pieces", raw, SHIPPED_MODEL, output, raw / "out", "one", "two")
