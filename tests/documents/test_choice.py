"""The translation that is taken from the beam, and what is said of it."""

import pytest

from rnnsearch_fairseq.documents.choice import choose, with_accelerator, without_accelerator


@pytest.mark.parametrize(
    ("source", "translations", "expected"),
    [
        ("Open {name}.", ["Ouvrez.", "Ouvrir {name}.", "{name}."], "Ouvrir {name}."),
        ("Use %s.", ["%s %s.", "Utilisez %s."], "Utilisez %s."),
        ("Open", ["*Ouvrir*", "Ouvrir"], "Ouvrir"),
        ("Open:", ["Ouvrir", "Ouvrir :"], "Ouvrir :"),
        ("Since 100 s", ["Depuis 10 s", "Depuis 100 s"], "Depuis 100 s"),
        ("%d of %s", ["%s de %d", "%d de %s"], "%d de %s"),
        ("Run 'a b'", ["Lancer 'a b", "Lancer l'a", "Lancer « a b »"], "Lancer « a b »"),
        ("A [b] c", ["Un b", "Un [b] c"], "Un [b] c"),
        ("Press <g>it</g> now", ["Le <g> </g> it", "<g>le</g> ici"], "<g>le</g> ici"),
        ("Incorrect value of %s", ["Valeur correcte de %s", "Valeur incorrecte de %s"], "Valeur incorrecte de %s"),
        ("Can't open it", ["Peut-être ouvert", "Impossible de l'ouvrir"], "Impossible de l'ouvrir"),
        ("Never share `not`", ["partage `not`", "Ne partagez pas `not`"], "Ne partagez pas `not`"),
    ],
)
def test_the_first_translation_that_keeps_everything_is_taken(source: str, translations: list, expected: str) -> None:
    assert choose(source, translations, languages=("en", "fr")) == (expected, [])


def test_the_one_that_lacks_the_least_is_taken_and_its_faults_are_named() -> None:
    assert choose("Open %s.", ["", "*Ouvrez*.", "Ouvrez ça", "Ouvrez."]) == ("Ouvrez.", ["lacks %s"])
    faults = choose("The 2 cats of %d", ["Le %s !"]).faults
    assert faults == ["lacks %d", "adds %s", "has other numbers", "ends with another sign"]
    assert choose("The π", ["Le p"], known=set("The ")).faults == ["lacks π"]
    assert choose("Stop", [""]) == ("", ["is empty"])
    assert choose("Never", ["Jam"], languages=("en", "fr")).faults == ["has no negation"]
    assert choose("Never", ["Jam"], languages=("en", "de")).faults == []
    assert choose("a <x/>b<y/>", ["a <x/><y/>"]).faults == ["has no word between <x/> and <y/>"]


@pytest.mark.parametrize(
    ("label", "plain", "translation", "marked"),
    [
        ("&File", "File", "Fichier", "&Fichier"),
        ("E&xit", "Exit", "Quitter", "&Quitter"),
        ("Save _As %s", "Save As %s", "Enregistrer sous", "_Enregistrer sous"),
        ("Fish & chips", "Fish & chips", "Poisson", "Poisson"),
        ("my_name &amp; AT&T", "my_name &amp; AT&T", "AT&T", "AT&T"),
        ("_a_", "_a_", "_a_", "_a_"),
    ],
)
def test_accelerators_stand_before_a_letter_of_the_translation(
    label: str, plain: str, translation: str, marked: str
) -> None:
    text, mark = without_accelerator(label)
    assert text == plain
    assert with_accelerator(translation, mark) == marked
