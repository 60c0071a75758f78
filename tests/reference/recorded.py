"""Where the original program's models and numbers are, beside the checkout: they are not ours to ship."""

import json
from pathlib import Path
from typing import Any

import pytest

RECORDED = Path(__file__).resolve().parents[3] / "shared/reference/groundhog-model"
needs_recorded = pytest.mark.skipif(
    not RECORDED.is_dir(), reason=f"the original's models and numbers are not there: {RECORDED}"
)


def recorded(name: str) -> Any:
    """What is in a JSON file of theirs."""
    return json.loads((RECORDED / name).read_text(encoding="utf-8"))
