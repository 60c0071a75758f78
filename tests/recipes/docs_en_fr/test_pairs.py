"""The pairs of the documentation: whole files are held out, and no sentence of theirs is in the training text."""

from pathlib import Path

import pytest

from recipes.docs_en_fr import pairs
from rnnsearch_fairseq.errors import InputError
from tests.corpus.builders import write_po


def test_files_are_held_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, out, held_out = tmp_path / "data", tmp_path / "out", tmp_path / "held_out.txt"
    monkeypatch.setattr(pairs, "HELD_OUT", held_out)
    monkeypatch.setattr(pairs, "PROJECTS", ("python-fr", "django-fr", "whole", "unseen", "table.tsv"))
    held_out.write_text("valid python-fr/v.po\ntest django-fr/t.po\nvalid whole\ntest unseen\n")
    more, more_json, untranslated = ("One more.", "Un de plus."), ("json", "json"), ("Is not translated.",) * 2
    files = {
        "whole/w.po": [("A whole project.", "Un projet entier.")],
        "unseen/u.po": [("Nobody looked.", "Personne n'a regardé.")],
        "python-fr/v.po": [("See also", "Voir aussi")],
        "django-fr/t.po": [("See also", "Voir aussi"), ("A test.", "Un test."), more_json],
        "python-fr/a.po": [("A test.", "Un essai."), more, more_json, more, untranslated, ("Neither.", "")],
    }
    for name, messages in files.items():
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        write_po(data, messages, name)
    (data / "table.tsv").write_text("A line of it.\tUne ligne.\n")
    pairs.write_pairs(out, [data])
    texts = {path.name: sorted(path.read_text().splitlines()) for path in out.iterdir()}
    expected = {
        "whole": (["A whole project."], ["Un projet entier."]),
        "unseen": (["Nobody looked."], ["Personne n'a regardé."]),
        "valid": (["A whole project.", "See also"], ["Un projet entier.", "Voir aussi"]),
        "test": (["A test."], ["Un test."]),
        "train": (["A line of it.", "One more.", "json"], ["Un de plus.", "Une ligne.", "json"]),
    }
    assert texts == {f"{part}.{side}": expected[part][side == "fr"] for part in expected for side in ("en", "fr")}
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
