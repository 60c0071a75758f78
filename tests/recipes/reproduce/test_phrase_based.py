"""The phrase-based system, where its library is installed."""

from pathlib import Path

import pytest

pytest.importorskip("machine.translation.thot", reason="sil-machine is not installed")
from recipes.reproduce.phrase_based import Codes, train_and_translate

WORDS = {"the": "le", "a": "un", "cat": "chat", "dog": "chien", "sees": "voit", "hears": "entend"}
WORDS |= {"big": "grand", "small": "petit"}


def test_it_learns_words_and_copies_unknown_ones(tmp_path: Path) -> None:
    source = [f"the {size} {one} {verb} a {other}" for size in ("big", "small") for one in ("cat", "dog")
              for verb in ("sees", "hears") for other in ("cat", "dog")]  # fmt: skip
    target = [" ".join(WORDS[word] for word in line.split()) for line in source]
    for part, count in (("train", 16), ("valid", 4)):
        (tmp_path / f"{part}.en").write_text("".join(f"{line}\n" for line in [*source[:count], ""]))
        (tmp_path / f"{part}.fr").write_text("".join(f"{line}\n" for line in [*target[:count], ""]))
    (tmp_path / "test.en").write_text("the big dog hears a cat\nthe cat sees NULL ({ 7\n\n")
    assert train_and_translate(tmp_path, ("en", "fr"), tmp_path) == [
        "le grand chien entend un chat",
        "le chat voit NULL ({ 7",
        "",
    ]
    (tmp_path / "valid.fr").write_text("un\n")
    with pytest.raises(ValueError):
        Codes().corpus(tmp_path / "valid.en", tmp_path / "valid.fr")
