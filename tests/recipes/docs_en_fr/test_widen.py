"""A network with more units that computes the same."""

from pathlib import Path

import pytest
import torch

import rnnsearch_fairseq
from recipes.docs_en_fr.widen import main
from tests.commands import printed_by
from tests.trained import make_checkpoint


def test_a_wider_network_computes_the_same_and_its_copies_differ(tmp_path: Path) -> None:
    torch.save(make_checkpoint(), tmp_path / "old.pt")
    printed_by(main, tmp_path / "old.pt", "48", tmp_path / "new.pt")
    old, new = (rnnsearch_fairseq.load(tmp_path / name) for name in ("old.pt", "new.pt"))
    score = old.score("The dog sleeps.", "le chien dort.")
    assert new.score("The dog sleeps.", "le chien dort.") == pytest.approx(score, abs=1e-4)
    weight = new.networks[0].decoder.unit.from_state.weight
    assert weight.shape == (96, 48)
    assert torch.unique(weight.abs(), dim=1).shape == weight.shape
