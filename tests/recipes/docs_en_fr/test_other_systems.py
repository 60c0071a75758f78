"""Documentation for other systems, and text of their translations."""

from pathlib import Path

import pytest

from recipes.docs_en_fr.other_systems import main
from rnnsearch_fairseq.errors import InputError
from tests.recipes.reproduce.builders import printed_by, write
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
            write(tmp_path / f"{name}.{language}", [pair[side] for pair in pairs])
    return tmp_path


def test_markup_is_masked_for_moses_and_put_back(raw: Path) -> None:
    text = raw / "text"
    printed_by(main, "words", raw, text, "one", "two")
    assert (text / "train.en").read_text() == "Call SPAN1 ( twice ) .\n"
    assert (text / "train.fr").read_text() == "Appelez SPAN1 ( deux fois ) .\n"
    assert (text / "valid.fr").read_text() == "Voir SPAN1 , pas ``c`` .\n"  # ``c`` is no span of the English side
    assert (text / "test.en").read_text().splitlines() == ["Use SPAN1 and SPAN2 : :", "", "It 's * * bold * * ."]
    output = write(raw / "output", ["Utilisez SPAN2 et SPAN1 : :", "", "C ’ est * * gras * * ."])
    (raw / "out").mkdir()
    printed_by(main, "from-words", raw, output, raw / "out", "one", "two")
    assert (raw / "out/one.fr").read_text() == "Utilisez ``y`` et ``x`` ::\n\n"
    assert (raw / "out/two.fr").read_text() == "C’est ** gras **.\n"
    with pytest.raises(InputError, match="3 lines, 2 in one"):
        printed_by(main, "from-words", raw, output, raw / "out", "one")


@needs_shipped_model
def test_pieces_of_a_model_and_back(raw: Path) -> None:
    # The empty message needs no translation.
    first, second = printed_by(main, "pieces", raw, SHIPPED_MODEL, "one", "two").splitlines()
    assert "⟦1⟧" in first and "⟦2⟧" in first and "⟦" not in second
    lines = ["S-1\tx", "H-1\t-0.1\t▁C", "H-0\t-0.1\t▁Y ⟦1⟧", "H-0\t-0.2\t▁Y ⟦2⟧ ⟦1⟧"]
    output = write(raw / "output", lines)
    (raw / "out").mkdir()
    printed_by(main, "from-pieces", raw, SHIPPED_MODEL, output, raw / "out", "one", "two")
    assert (raw / "out/one.fr").read_text() == "Y``y````x``\n\n"
    assert (raw / "out/two.fr").read_text() == "C\n"
    for lost in (0, 1):
        write(output, [line for line in lines if not line.startswith(f"H-{lost}")])
        with pytest.raises(InputError, match=f"no translation of sentence {lost}"):
            printed_by(main, "from-pieces", raw, SHIPPED_MODEL, output, raw / "out", "one", "two")
