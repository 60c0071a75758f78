"""The notebook runs from top to bottom, and what is stored in it is whole and supports what its text says."""

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.commands import ROOT, run

NOTEBOOK = ROOT / "recipes/tutorial/attention.ipynb"
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
CODE = [cell for cell in CELLS if cell["cell_type"] == "code"]
UPDATES = 16
SMALLER = {
    "UPDATES = 800": f"UPDATES = {UPDATES}",
    '"train": 12000, "valid": 300, "test": 2000': '"train": 2000, "valid": 30, "test": 260',
    "-size 128": "-size 64",
}
# Run after the notebook's cells: whatever the models have learnt, a row of weights sums to one.
CHECKS = f"""
assert UPDATES == {UPDATES}
for each in alignments:
    assert torch.allclose(each.weights.sum(dim=1), torch.ones(len(each.target)))
assert torch.allclose(both.sum(dim=1), torch.ones(len(alignment.target)))
assert both.size(1) == words + phrases
"""


def printed(cell: dict[str, Any]) -> str:
    """What a cell printed when the notebook was stored."""
    return "".join("".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream")


STORED = "\n".join(map(printed, CODE))


def test_all_cells_were_run_in_order_and_without_errors() -> None:
    assert [cell["execution_count"] for cell in CODE] == list(range(1, len(CODE) + 1))
    kinds = {output["output_type"] for cell in CODE for output in cell["outputs"]}
    assert kinds == {"stream", "display_data"}
    assert {output["name"] for cell in CODE for output in cell["outputs"] if "name" in output} == {"stdout"}


def test_stored_listings_are_the_packages_lines() -> None:
    names: dict[str, Any] = {}
    imports = [line for cell in CODE for line in "".join(cell["source"]).splitlines() if line.startswith("from rnn")]
    exec("\n".join(["import inspect", *imports]), names)
    listings = [cell for cell in CODE if "inspect.getsource(" in "".join(cell["source"])]
    assert len(listings) >= 5
    check_recomputed(STORED)
    for cell in listings:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec("".join(cell["source"]), names)
        assert printed(cell) == out.getvalue()


def check_recomputed(text: str) -> None:
    """What the notebook recomputes by hand, equations and beam search, is what the package computes."""
    recomputed = re.findall(r"equal to the package's: (.*)|same words: (\w+)", text)
    assert len(recomputed) >= 4 + 1
    assert all(word == "True" for found in recomputed for part in found for word in part.split())


@pytest.mark.slow
@pytest.mark.train
def test_the_code_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the folder in which Jupyter starts it; its output goes to a folder of its own."""
    code = "\n\n".join([*("".join(cell["source"]) for cell in CODE), CHECKS])
    script = tmp_path / "attention.py"
    for theirs, smaller in SMALLER.items():
        assert theirs in code
        code = code.replace(theirs, smaller)
    script.write_text(code)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    done = run("python", script, cwd=NOTEBOOK.parent)
    check_recomputed(done.stdout)
    # So few updates teach the models little, but more than nothing: they start from a perplexity of 616.
    perplexities = [float(found) for found in re.findall(r"updates: perplexity +([\d.]+)", done.stdout)]
    assert len(perplexities) == 5 and max(perplexities) < 600
    assert "the comparisons below mean nothing" in done.stdout and "mean nothing" not in STORED
