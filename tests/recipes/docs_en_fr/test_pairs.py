"""The pairs of the documentation: whole files are held out, and no sentence of theirs is in the training text."""

from pathlib import Path

import pytest

from recipes.docs_en_fr import pairs
from rnnsearch_fairseq.errors import InputError


def write_po(path: Path, *messages: tuple[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(f'msgid "{source}"\nmsgstr "{target}"\n' for source, target in messages))


def test_files_are_held_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, out, held_out = tmp_path / "data", tmp_path / "out", tmp_path / "held_out.txt"
    monkeypatch.setattr(pairs, "HELD_OUT", held_out)
    monkeypatch.setattr(pairs, "PROJECTS", ("python-fr", "django-fr", "whole", "unseen", "table.tsv"))
    held_out.write_text("valid python-fr/v.po\ntest django-fr/t.po\nvalid whole\ntest unseen\n")
    write_po(data / "whole/w.po", ("A whole project.", "Un projet entier."))
    write_po(data / "unseen/u.po", ("Nobody looked.", "Personne n'a regardé."))
    (data / "table.tsv").write_text("A line of it.\tUne ligne.\n")
    write_po(data / "python-fr/v.po", ("See also", "Voir aussi"))
    write_po(data / "django-fr/t.po", ("See also", "Voir aussi"), ("A test.", "Un test."), ("json", "json"))
    shared = ("A test.", "Un essai."), ("One more.", "Un de plus."), ("json", "json"), ("One more.", "Un de plus.")
    write_po(data / "python-fr/a.po", *shared, ("Is not translated.", "Is not translated."), ("Neither.", ""))
    pairs.write_pairs(out, [data])
    texts = {path.name: sorted(path.read_text().splitlines()) for path in out.iterdir()}
    assert texts == {
        "whole.en": ["A whole project."],
        "whole.fr": ["Un projet entier."],
        "unseen.en": ["Nobody looked."],
        "unseen.fr": ["Personne n'a regardé."],
        "valid.en": ["A whole project.", "See also"],
        "valid.fr": ["Un projet entier.", "Voir aussi"],
        "test.en": ["A test."],
        "test.fr": ["Un test."],
        "train.en": ["A line of it.", "One more.", "json"],
        "train.fr": ["Un de plus.", "Une ligne.", "json"],
    }
    with (data / "python-fr/a.po").open("a") as file:
        file.write('\n#~ msgid "Was here."\n#~ msgstr "Était là."\n\n#~ msgid "A test."\n#~ msgstr "Le test."\n')
    tables = tmp_path / "php.tsv", tmp_path / "react.en-fr.tsv"
    tables[0].write_text("Splits a string\tScinde une chaîne\nSee also\tVoir aussi\nNobody looked.\tNul.\n")
    tables[1].write_text("Your own hook\tVotre propre hook\n")
    pairs.write_pairs(out, [data], tables)
    added = sorted(set((out / "train.fr").read_text().splitlines()) - set(texts["train.fr"]))
    assert added == ["Scinde une chaîne", "Votre propre hook", "Était là."], "no sentence that is held out"
    assert (out / "train.fr").read_text().count("Votre propre hook\n") == 2, "tutorials are read twice"
    (data / "django-fr/t.po").unlink()
    with pytest.raises(InputError, match=r"t\.po: no such file"):
        pairs.write_pairs(out, [data])
