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
    held_out.write_text("valid python-fr/v.po\ntest django-fr/t.po\n")
    write_po(data / "python-fr/v.po", ("See also", "Voir aussi"))
    write_po(data / "django-fr/t.po", ("See also", "Voir aussi"), ("A test.", "Un test."), ("json", "json"))
    shared = ("A test.", "Un essai."), ("One more.", "Un de plus."), ("json", "json"), ("One more.", "Un de plus.")
    write_po(data / "python-fr/a.po", *shared, ("Is not translated.", "Is not translated."), ("Neither.", ""))
    pairs.write_pairs(data, out)
    texts = {path.name: sorted(path.read_text().splitlines()) for path in out.iterdir()}
    assert texts == {
        "valid.en": ["See also"],
        "valid.fr": ["Voir aussi"],
        "test.en": ["A test."],
        "test.fr": ["Un test."],
        "train.en": ["One more.", "json"],
        "train.fr": ["Un de plus.", "json"],
    }
    (data / "django-fr/t.po").unlink()
    with pytest.raises(InputError, match=r"t\.po: no such file"):
        pairs.write_pairs(data, out)
