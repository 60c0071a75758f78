"""What a model reads of a piece, the text of its translation, and the faults of this."""

import pytest

from rnnsearch_fairseq.text.passage import Passage
from rnnsearch_fairseq.text.piece import Piece, Reader

FRENCH = Reader(("en", "fr"))
AROUND = "has links or tags around nothing, or around others"


def faults(source: str, translation: str, reader: Reader = FRENCH) -> list[str]:
    spans, others = Piece(source, reader).find_faults(translation)
    return spans + others


@pytest.mark.parametrize(
    ("source", "bad", "good", "fault"),
    [
        ("Open {name}.", "Ouvrez.", "Ouvrir {name}.", "lacks {name}"),
        ("Use %s.", "%s %s.", "Utilisez %s.", "adds %s"),
        ("Open", "*Ouvrir*", "Ouvrir", "adds *"),
        ("Open...", "Ouvrir.", "Ouvrir…", "ends with another sign"),
        ("Open & run:", "Ouvrir et lancer", "Ouvrir et lancer :", "ends with another sign"),
        ("Open it", "Ouvrir ⟦1⟧", "Ouvrir", "has no word where the model wrote ⟦1⟧"),
        ("A 2048-bit key", "Clé de 20 48 bits", "Clé de 2048 bits", "has other numbers"),
        ("%d of %s", "%s de %d", "%d de %s", "has directives in another order"),
        ("A (b, c) of it", "Un b, c) de", "Un (b, c) de", "has a bracket without its pair"),
        ("Run 'a b'", "Lancer 'a b", "Lancer « a b »", "has other quotation marks"),
        ("The **one** here", "Le *un* *ici*", "Le **un** ici", "has other emphasis"),
        ("A [c] d", "Un c", "Un [c] d", "lacks ["),
        ("Incorrect value of %s", "Valeur correcte de %s", "Valeur incorrecte de %s", "has no negation"),
        ("Can't open it", "Peut-être ouvert", "Impossible de l'ouvrir", "has no negation"),
        ("Whether or not it is", "Si c'est ou n'est pas", "Si c'est ou non", "adds a negation"),
        ("The values none, all", "Les valeurs un, tout", "Les valeurs none, tout", "has no negation"),
        ("Never share `not`", "partage `not`", "Ne partagez pas `not`", "has no negation"),
        ("Delete the form", "Supprimer le formulaire du formulaire", "Supprimer le formulaire", "repeats formulaire"),
        ("[X0X] object ([X22X])", "Objet [X0X]", "Objet [X0X] ([X22X])", "lacks [X22X]"),
        ("Be <b>bold</b>", "Soyez gras <b></b>", "Soyez <b>gras</b>", AROUND),
        ("[a](b) [c](d)", "[e [f](b)](d)", "[e](d) [f](b)", AROUND),
        ("Find && Replace", "Trouver", "Trouver && remplacer", "lacks &&"),
        ("One, two, three, and so on: then it goes on.", "Un.", "Un, deux, trois : cela continue.", "is much shorter"),
    ],
)
def test_faults_are_named(source: str, bad: str, good: str, fault: str) -> None:
    assert fault in faults(source, bad)
    assert faults(source, good) == []


def test_unknown_characters_words_and_empty_translations_are_faults() -> None:
    assert faults("The π", "Le p", Reader(known=set("The "))) == ["lacks π"]
    assert faults("Stop", "") == ["is empty"]
    assert faults("Never", "Jam", Reader(("en", "de"))) == []
    reader = Reader(("en", "fr"), words=(None, {"domaines", "internationaux"}))
    unknown = "has a word that the training text lacks: Internationals"
    assert faults("International Domains", "Domaines Internationals, Internationals", reader) == [unknown]
    assert faults("International Domains", "Domaines internationaux", reader) == []
    assert faults("Use Sample", "Sample", reader) == []


@pytest.mark.parametrize(
    ("source", "masked", "written", "restored"),
    [
        ("At https://a.org/?b=c&d=e", "At ⟦1⟧", "À ⟦1⟧", "À https://a.org/?b=c&d=e"),
        ("Run `a&b` %(c_d)s &File", "Run ⟦1⟧ File", "⟦1⟧ Fichier", "`a&b` %(c_d)s &Fichier"),
        ("Cut &amp; &Paste `a_b`", "Cut & Paste ⟦1⟧", "Couper & coller ⟦1⟧", "&Couper &amp; coller `a_b`"),
        ("Name&nbsp;: it", "Name⟦1⟧: it", "Nom⟦1⟧: lui", "Nom&nbsp;: lui"),
        ("E&xit %1", "Exit ⟦1⟧", "Quitter ⟦1⟧", "&Quitter %1"),
        ("Save &as...", "Save as...", "Enregistrer sous...", "&Enregistrer sous..."),
        ("Sept. 3, 2019", "September 3, ⟦1⟧", "3 septembre ⟦1⟧", "3 septembre 2019"),
        ("A `b` tuple", "A ⟦1⟧ tuple", "Un *n*-uplet ⟦1⟧", "Un n-uplet `b`"),
        ("Save _As…", "Save As…", "Enregistrer sous..", "_Enregistrer sous…"),
        ("Fish & chips", "Fish & chips", "Poisson & frites", "Poisson & frites"),
        ("Use ';' as an &end of it", "Use ';' as an end of it", "Mettre ' ;' à l'torrent", "&Mettre ';' à le torrent"),
        ("{a_b}: \u0045\u0301t", "⟦1⟧: \u00c9t", "⟦1⟧: \u00c9t", "{a_b}\u00a0: \u00c9t"),
        ("The *_name* of it", "The *⟦1⟧* of it", "Son *⟦1⟧*", "Son *_name*"),
        ("Set my_name in AT&T", "Set ⟦1⟧ in ⟦2⟧", "⟦1⟧ de ⟦2⟧", "my_name de AT&T"),
        ("A :ref:`new page <g>`", "A :ref:`new page ⟦1⟧`", "Une :ref:` page ⟦1⟧`", "Une :ref:`page <g>`"),
        ("**Bold** text", "**Bold** text", "** Gras** texte", "**Gras** texte"),
        ("A <b>bold</b> text", "A ⟦1⟧bold⟦2⟧ text", "Un texte ⟦1⟧ gras ⟦2⟧", "Un texte <b>gras</b>"),
        ("A note.[^1] Another.", "A note.⟦1⟧ Another.", "Une note. ⟦1⟧ Une autre.", "Une note.[^1] Une autre."),
        ("Done :+1: or :100:", "Done ⟦1⟧ or ⟦2⟧", "Fait ⟦1⟧ ou ⟦2⟧", "Fait :+1: ou :100:"),
        ("A :term:`tree` of it", "A :term:`tree` of it", "Son :term:`arbre`", "Son :term:`arbre <tree>`"),
        ("WebUI is open", "⟦1⟧ is open", "le ⟦1⟧ est ouvert", "Le WebUI est ouvert"),
        ("(`a`) The text", "(⟦1⟧) The text", "(⟦1⟧) le texte", "(`a`) Le texte"),
        ("in class&nbsp;`A`", "in class⟦1⟧", "dans la classe ⟦1⟧", "dans la classe&nbsp;`A`"),
        ("Do it like so::", "Do it like so::", "Faites ceci ::", "Faites ceci\u00a0::"),
        ("Cannot open %1: %2!", "Cannot open ⟦1⟧: ⟦2⟧!", "Impossible ⟦1⟧: ⟦2⟧!", "Impossible %1\u00a0: %2\u00a0!"),
        ("The **API** of 'd'", "The **API** of 'd'", "L' **API** de 'd' ici", "L'**API** de 'd' ici"),
        ("WebUI names of it", "⟦1⟧ names of it", "Les noms ⟦1⟧ de", "Les noms WebUI de"),
        ("2 * 3 is", "⟦1⟧ is", "⟦1⟧ est", "2 * 3 est"),
        ("An image", "An image", "La image de une, le onze", "L'image de une, le onze"),
        ("Use :guilabel:`&New`", "Use :guilabel:`&New`", "De ' :guilabel:`& Nouveau`", "De ':guilabel:`&Nouveau`"),
        ('Say "yes"', 'Say "yes"', "Dire « oui »", "Dire «\u00a0oui\u00a0»"),
    ],
)
def test_text_is_masked_and_restored(source: str, masked: str, written: str, restored: str) -> None:
    piece = Piece(source, FRENCH)
    assert piece.masked == masked
    assert piece.restore(written) == restored


def test_an_accelerator_may_stand_inside_a_word_that_is_known() -> None:
    for label, plain in (("C_lose All", "Close All"), ("Please _close {a_b}", "Please close ⟦1⟧"), ("C_lose", "Close")):
        piece = Piece(*Passage(label).pieces, Reader(("en", "fr"), words=({"close"}, None)))
        assert (piece.masked, piece.restore("Tout fermer")) == (plain, "_Tout fermer")
    assert Piece("My_var Is", Reader(words=({"close"}, None))).masked == "⟦1⟧ Is"


def test_a_model_without_symbols_reads_and_writes_a_label_as_it_is() -> None:
    piece = Piece("&File", Reader(masks=False))
    assert (piece.masked, piece.restore("&Fichier")) == ("&File", "&Fichier")


def test_stars_stand_for_tags_of_emphasis() -> None:
    piece = Piece('Be <b a="x">bold</b> or <b a="x">not</b>', FRENCH)
    assert piece.counted == "Be **bold** or **not**"
    assert piece.restore("Soyez ** gras** ou **non**", counted=True) == 'Soyez <b a="x">gras</b> ou <b a="x">non</b>'
    assert piece.restore("Soyez **gras** ou non", counted=True) is None
    for other in ("Be <b>bold</b> or <i>not</i>", "Be <b>*bold*</b>", "Be </b>bold<b>", "A <a>b</a>"):
        assert Piece(other, FRENCH).counted is None


def test_numbers_stand_for_placeholders_that_are_numbers() -> None:
    piece = Piece("%d files in {n} folders of %s", FRENCH)
    assert piece.counted == "100 files in 15 folders of ⟦3⟧"
    assert piece.restore("100 fichiers dans 15 dossiers de ⟦3⟧", counted=True) == "%d fichiers dans {n} dossiers de %s"
    for lost in ("100 fichiers", "100 et 100 dans 15", "100 dans 150"):
        assert piece.restore(lost, counted=True) is None
    assert Piece("%d of 12 files", FRENCH).counted is None
    assert Piece("@count rows of @name", FRENCH).counted == "100 rows of ⟦2⟧"
    piece = Piece("In 2015, %s of 12,500 or 9999 files", FRENCH)
    assert piece.counted == "In ⟦1⟧, ⟦2⟧ of 100 or 15 files"
    assert piece.restore("En ⟦1⟧, ⟦2⟧ de 100 ou 15 noms", counted=True) == "En 2015, %s de 12,500 ou 9999 noms"
    assert Piece("%d a, b %s, c %s, d %s, e %s, f %s", FRENCH).counted is not None  # ⟦5⟧ is no number 5
