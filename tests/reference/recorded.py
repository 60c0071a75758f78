"""Paths of the original programs' models and recorded numbers, which lie beside the checkout: we may not ship them."""

import json
from pathlib import Path
from typing import Any

import pytest

REFERENCE = Path(__file__).resolve().parents[3] / "shared/reference"
RECORDED = REFERENCE / "groundhog-model"
TREE2SEQ = REFERENCE / "tree2seq-model"
needs_recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason=f"the original's numbers are not there: {RECORDED}")
needs_tree2seq = pytest.mark.skipif(not TREE2SEQ.is_dir(), reason=f"the original's numbers are not there: {TREE2SEQ}")


def recorded(name: str) -> Any:
    """The contents of one of GroundHog's JSON files."""
    return json.loads((RECORDED / name).read_text(encoding="utf-8"))
