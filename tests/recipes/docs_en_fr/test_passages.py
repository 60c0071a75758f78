"""What a model of documentation reads in training: pieces as translate cuts and masks them."""

import pytest

from recipes.docs_en_fr.passages import read_block
from recipes.docs_en_fr.php_manual import are_translations

FORMS = (
    "Delete { count, plural, =1 {1 file} other {# files} }?",
    "Supprimer {count,plural, one{# fichier}other{# fichiers}} ?",
)


LINK, APART = ("See [a list](/en)", "Voir [une liste](/fr)"), ("See ⟦1000⟧", "Voir ⟦1000⟧")
SHOWN = "See <a0>a list</a0>", "Voir <a0>une liste</a0>"


@pytest.mark.parametrize(
    ("pair", "pieces"),
    [
        (FORMS, [("Delete 1 file?", "Supprimer 1 fichier ?"), ("Delete 100 files?", "Supprimer 100 fichiers ?")]),
        ((FORMS[0], "Supprimer ?"), []),
        (("%d hours of %s", "%d heures de %s"), [("100 hours of %s", "100 heures de %s")]),
        (("%d hours", "Des heures"), [("%d hours", "Des heures")]),
        (("&Open: it", "&Ouvrir: l’objet"), [("Open: it", "Ouvrir : l'objet")]),
        (("See [A list](/en)", "Voir [Une liste](/fr)"), [APART, ("A list", "Une liste")]),
        (LINK, [(LINK[0], "Voir [une liste](/en)"), APART, ("a list", "une liste"), SHOWN]),
        (("See <b>it</b>", "Voir <i>cela</i>"), [("See **it**", "Voir **cela**"), APART, ("it", "cela")]),
        (("See it.", "Voir <b>cela</b>."), []),
        (("Set\u00adup", '<a name="set-up"></a>Installation'), [("Setup", "Installation")]),
    ],
)
def test_a_pair_is_cut_as_translate_cuts(pair: tuple[str, str], pieces: list[tuple[str, str]]) -> None:
    assert read_block([pair]) == pieces


@pytest.mark.parametrize(
    ("english", "french"),
    [("json", "json"), ("``a`` or ``b``", "``a`` ou ``c``"), ("A & B", "A et B"), ("Yes", "Oui, " * 5)],
)
def test_doubtful_pairs_of_a_manual_are_left_out(english: str, french: str) -> None:
    assert not are_translations(english, french)
