"""What a model of documentation reads in training: pieces as translate cuts and masks them."""

from pathlib import Path

import pytest

from recipes.docs_en_fr.passages import main, read_block
from tests.recipes.reproduce.builders import printed_by

FORMS = (
    "Delete { count, plural, =1 {1 file} other {# files} }?",
    "Supprimer {count,plural, one{# fichier}other{# fichiers}} ?",
)


@pytest.mark.parametrize(
    ("pair", "pieces"),
    [
        (FORMS, [("Delete 1 file?", "Supprimer 1 fichier ?"), ("Delete 100 files?", "Supprimer 100 fichiers ?")]),
        ((FORMS[0], "Supprimer ?"), []),
        (("%d hours of %s", "%d heures de %s"), [("100 hours of %s", "100 heures de %s")]),
        (("%d hours", "Des heures"), [("%d hours", "Des heures")]),
        (("&Open: it", "&Ouvrir: l’objet"), [("Open: it", "Ouvrir : l'objet")]),
        (
            ("See [a list](/en) now.", "Voir [une liste](/fr)."),
            [("See ⟦1000⟧ now.", "Voir ⟦1000⟧."), ("a list", "une liste")],
        ),
        (("See <b>it</b>.", "Voir <i>cela</i>."), [("See <b>it</b>.", "Voir <b>cela</b>.")]),
        (("See it.", "Voir <b>cela</b>."), []),
        (("Set\u00adup", '<a name="set-up"></a>Installation'), [("Setup", "Installation")]),
    ],
)
def test_a_pair_is_cut_as_translate_cuts(pair: tuple[str, str], pieces: list[tuple[str, str]]) -> None:
    assert read_block([pair]) == pieces


def test_near_copies_of_held_out_text_are_left_out(tmp_path: Path) -> None:
    texts = {
        "train": "Delete the selected files\nOpen a file\n",
        "valid": "Close it\n",
        "test": "Save\n",
        "unseen": "Delete the selected file\n",
    }
    for name, text in texts.items():
        for language in ("en", "fr"):
            (tmp_path / f"{name}.{language}").write_text(text)
    printed_by(main, tmp_path, tmp_path / "out")
    written = {path.name: path.read_text() for path in (tmp_path / "out").glob("*.en")}
    assert written == {"train.en": "Open a file\n", "valid.en": "Close it\n", "test.en": "Save\n"}
