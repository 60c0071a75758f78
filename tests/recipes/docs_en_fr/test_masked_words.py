"""Words of documentation with names in place of markup, and back."""

from pathlib import Path

from recipes.docs_en_fr.masked_words import decode, encode

PAIRS = {
    "train": [("Call :func:`open` (twice).", "Appelez :func:`open` (deux fois).")],
    "valid": [("See ``a``, not ``b``.", "Voir ``a``, pas ``c``.")],
    "one": [("Use ``x`` and\t``y``::", "Utilisez ``y`` et ``x`` ::"), ("", "")],
    "two": [("It's **bold**.", "C’est **gras**.")],
}


def test_markup_is_masked_and_put_back(tmp_path: Path) -> None:
    for name, pairs in PAIRS.items():
        for side, language in enumerate(("en", "fr")):
            (tmp_path / f"{name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    text = tmp_path / "text"
    encode(tmp_path, text, ["one", "two"])
    assert (text / "train.en").read_text() == "Call SPAN1 ( twice ) .\n"
    assert (text / "train.fr").read_text() == "Appelez SPAN1 ( deux fois ) .\n"
    assert (text / "valid.fr").read_text() == "Voir SPAN1 , pas ``c`` .\n"  # ``c`` is no span of the English side
    assert (text / "test.en").read_text().splitlines() == ["Use SPAN1 and SPAN2 : :", "", "It 's * * bold * * ."]
    translations = tmp_path / "translations"
    translations.write_text("Utilisez SPAN2 et SPAN1 : :\n\nC ’ est * * gras * * .\n")
    decode(tmp_path, translations, tmp_path / "out", ["one", "two"])
    assert (tmp_path / "out/one.fr").read_text() == "Utilisez ``y`` et ``x`` ::\n\n"
    assert (tmp_path / "out/two.fr").read_text() == "C’est ** gras **.\n"
