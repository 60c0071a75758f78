"""Checkpoints of version 0.2.0 load, and translate as that version did.

`tests/data_0_2_0` has two models of four hidden units, which version 0.2.0 trained on the first four pairs of
`tests.trained`, and the translations of SENTENCES with ln p(y|x), which its ``translate`` and ``score`` gave.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from rnnsearch_fairseq.models.rnnsearch import RNNsearchModel
from rnnsearch_fairseq.models.tree2seq import Tree2SeqModel

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

FOLDER = Path(__file__).resolve().parents[1] / "data_0_2_0"
SENTENCES = ["the dog sleeps .", "the black cat eats .", "the green cat sleeps ."]
PARSES = ["(S (NP the dog) sleeps .)", "(S (NP the (X black cat)) eats .)", None]
EXPECTED = json.loads((FOLDER / "translations.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("name", "kind", "trees"), [("rnnsearch", RNNsearchModel, {}), ("tree2seq", Tree2SeqModel, {"trees": PARSES})]
)
def test_a_checkpoint_of_version_0_2_0_translates_as_it_did(name: str, kind: Any, trees: dict[str, Any]) -> None:
    model = kind.from_pretrained(FOLDER / name)
    translations = model.translate(SENTENCES, **trees)
    assert translations == EXPECTED[name]["translations"]
    assert model.score(SENTENCES, translations, **trees) == pytest.approx(EXPECTED[name]["scores"], abs=1e-5)
