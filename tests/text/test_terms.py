"""A user's terms stay, or are translated in one way, outside code."""

from pathlib import Path

import pytest

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.markup import mask_pair
from rnnsearch_fairseq.text.piece import Piece, Reader
from rnnsearch_fairseq.text.terms import Terms, find_names


def test_terms_stay_or_are_translated_in_one_way(tmp_path: Path) -> None:
    (tmp_path / "terms").write_text("Requests\nqueue\tfile d'attente\n\n")
    terms = Terms.read(tmp_path / "terms")
    piece = Piece("Queue of Requests in ``queue``, queues", Reader(("en", "fr"), terms=terms))
    assert piece.masked == "⟦1⟧ of ⟦2⟧ in ⟦3⟧, queues" and piece.spans == ["File d'attente", "Requests", "``queue``"]
    assert piece.restore("⟦1⟧ de ⟦2⟧ dans ⟦3⟧") == "File d'attente de Requests dans ``queue``"
    assert "lacks Requests" in piece.find_faults("File d'attente de demandes dans ``queue``")[0]
    pair = terms.put_into("The queue."), "La file d'attente."
    assert mask_pair(*pair, None, terms.kept) == ("The ⟦1⟧.", "La ⟦1⟧.")


@pytest.mark.parametrize("line", ["a\tb\tc", "a\t", "\tb", "ok\tb"])
def test_lines_that_are_no_terms_or_contradict_others_are_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "terms").write_text(f"ok\n{line}\n")
    with pytest.raises(InputError, match="line 2"):
        Terms.read(tmp_path / "terms")


def test_names_are_subjects_without_an_article() -> None:
    texts = ["Click is. No, Click has it. Click can.", "The Mix is, a Mix does. Open is.", "Tag is a tag, Tag is tag"]
    texts += ["uv is. If uv does, uv can. uv has.", "uv has", "it is.", "it has.", "it can.", *["here it is"] * 40]
    texts += ["which is"] * 5 + ["a file which has"] + ["in functions"] * 9 + ["names in files"]
    assert (find_names(texts, "en"), find_names(texts, "fr")) == (["Click", "uv"], [])
    assert Terms({"Click": "Clic"}).with_names(["Click", "Mix"]).put_into("Click, Mix") == "Clic, Mix"
