"""Where the original programs' models and numbers are, beside the checkout: they are not ours to ship."""

import json
from pathlib import Path
from typing import Any

import pytest

REFERENCE = Path(__file__).resolve().parents[3] / "shared/reference"
RECORDED = REFERENCE / "groundhog-model"
TREE2SEQ = REFERENCE / "tree2seq-model"
needs_recorded = pytest.mark.skipif(
    not RECORDED.is_dir(), reason=f"the original's models and numbers are not there: {RECORDED}"
)
needs_tree2seq = pytest.mark.skipif(
    not TREE2SEQ.is_dir(), reason=f"the original's models and numbers are not there: {TREE2SEQ}"
)


def recorded(name: str) -> Any:
    """What is in a JSON file of GroundHog's."""
    return json.loads((RECORDED / name).read_text(encoding="utf-8"))
