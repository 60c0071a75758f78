"""The table of patches, how it is applied, and RNNSEARCH_PATCHES."""

import json
import os
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rnnsearch_fairseq import patches
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.patches import ORIGINALS, PATCHES
from tests.commands import PAPER, SEARCH, generate, preprocess, train

ROOT = Path(__file__).resolve().parents[2]
TARGETS = {group: {target for target, _ in rows} for group, rows in PATCHES.items()}
ALL = sorted(set.union(*TARGETS.values()))
LIBRARY = [target for target in ALL if not target.startswith("fairseq_cli.")]
# Prints the targets that are not fairseq's own, and what else has changed. A command is loaded before the plugin.
REPORT = """
import json, pkgutil, sys
import torch.multiprocessing, torch.utils.data
def parts():
    return torch.multiprocessing.spawn, torch.utils.data.DataLoader.__init__, torch.load, sys.excepthook
torch_before = parts()
safe = len(torch.serialization.get_safe_globals())
commands = sys.argv.pop() == "with commands"
if commands:
    import fairseq_cli.generate, fairseq_cli.hydra_train, fairseq_cli.interactive, fairseq_cli.preprocess
    import fairseq_cli.train
import fairseq.trainer, fairseq.tasks.translation, fairseq.data.indexed_dataset, fairseq.data.iterators
import fairseq.sequence_scorer, fairseq.optim.amp_optimizer
targets = [target for target in json.loads(sys.argv.pop()) if commands or not target.startswith("fairseq_cli.")]
before = {target: pkgutil.resolve_name(target) for target in targets}
import rnnsearch_fairseq
changed = [target for target in targets if pkgutil.resolve_name(target) is not before[target]]
more = len(torch.serialization.get_safe_globals()) - safe
loaded = any(name.startswith("fairseq_cli.") for name in sys.modules)
print(json.dumps([changed, more > 0, hasattr(sys.modules["fairseq.utils"], "eval"), parts() == torch_before, loaded]))
"""


def python(code: str, *words: str, chosen: str | None = None) -> subprocess.CompletedProcess[str]:
    """A program of Python's; ``chosen`` is its RNNSEARCH_PATCHES."""
    environment = {name: value for name, value in os.environ.items() if name != patches.VARIABLE}
    environment |= {"PYTHONPATH": str(ROOT)} | ({} if chosen is None else {patches.VARIABLE: chosen})
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.patched
def test_every_target_is_there_and_replaced() -> None:
    for target in LIBRARY:
        owner, _, name = target.rpartition(".")
        assert (pkgutil.resolve_name(owner), name) in ORIGINALS
        assert pkgutil.resolve_name(target) is not ORIGINALS[pkgutil.resolve_name(owner), name]


def test_every_patch_stands_once_in_the_table_and_has_a_reason_of_its_own() -> None:
    rows = [row for group in PATCHES.values() for row in group]
    assert len(set(rows)) == len(rows)
    for _, wrapper in rows:
        assert wrapper.__doc__.partition("\n")[0].endswith("."), wrapper
        # A function of a module, and none inside another.
        assert getattr(sys.modules[wrapper.__module__], wrapper.__qualname__) is wrapper


def test_a_second_call_changes_nothing() -> None:
    before = {target: pkgutil.resolve_name(target) for target in LIBRARY}
    patches.apply()
    assert all(pkgutil.resolve_name(target) is before[target] for target in LIBRARY)


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module with a function to be replaced, ``name``; ``sets`` are the names that were replaced."""

    class Stranger:
        def __init__(self) -> None:
            vars(self).update(sets=[], name=str.lower)

        def __setattr__(self, name: str, value: Any) -> None:
            self.sets.append(name)
            vars(self)[name] = value

    module = Stranger()
    resolve = pkgutil.resolve_name
    monkeypatch.setattr(pkgutil, "resolve_name", lambda name: module if name == "stranger" else resolve(name))
    yield module
    ORIGINALS.pop((module, "name"), None)


def mark(sign: str) -> Callable[[Any], Any]:
    return lambda original: lambda word: original(word) + sign


@pytest.mark.patched
def test_a_target_is_replaced_once_by_its_wrappers_in_order(stranger: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {group: (("stranger.name", mark(sign)),) for sign, group in zip("abc", PATCHES)}
    monkeypatch.setattr(patches, "PATCHES", ours)
    for _ in range(2):
        patches.replace_targets()
        assert (stranger.name("x"), stranger.sets) == ("xabc", ["name"])
    assert ORIGINALS[stranger, "name"]("x") == "x"


@pytest.mark.patched
@pytest.mark.parametrize(
    "target",
    [f"fairseq{end}" for end in (".trainer.Trainer.gone", ".trainer.Gone.step", ".gone.step", "_cli.train.gone")],
)
def test_a_missing_target_is_named_and_nothing_is_replaced(
    stranger: Any, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    pytest.importorskip("fairseq_cli.train")
    ours = {"fixes": tuple((name, mark("")) for name in ("stranger.name", target))}
    monkeypatch.setattr(patches, "PATCHES", ours)
    with pytest.raises(InputError, match=rf"^{target} is not there: this fairseq is another version than"):
        patches.apply()
    assert stranger.sets == []


@pytest.mark.parametrize("chosen", [None, "none", "fixes,recovery"])
def test_the_variable_chooses_groups_and_torch_and_commands_are_left_alone(chosen: str | None) -> None:
    groups = {None: [*PATCHES], "none": []}.get(chosen, (chosen or "").split(","))
    commands = chosen is not None
    done = python(REPORT, json.dumps(ALL), "with commands" if commands else "without", chosen=chosen)
    assert done.returncode == 0, done.stderr
    changed, allows_classes, has_eval, *others = json.loads(done.stdout.splitlines()[-1])
    expected = {target for group in groups for target in TARGETS[group]} & set(ALL if commands else LIBRARY)
    assert set(changed) == expected
    assert (allows_classes, has_eval) == ("fixes" in groups, "untrusted" in groups)
    assert others == [True, commands]


def test_the_variable_names_groups_or_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"all": [*PATCHES], "none": [], "fixes": ["fixes"], "recovery,fixes": ["fixes", "recovery"]}
    for chosen, groups in words.items():
        monkeypatch.setenv(patches.VARIABLE, chosen)
        assert patches.chosen_groups() == groups
    for chosen in ("fixed", "fixes,none", ""):
        monkeypatch.setenv(patches.VARIABLE, chosen)
        with pytest.raises(InputError, match="RNNSEARCH_PATCHES: there is no group '"):
            patches.apply()


@pytest.mark.slow
@pytest.mark.train
def test_training_and_generation_do_without_patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("train", "valid", "test"):
        for language in ("en", "fr"):
            (tmp_path / f"{part}.{language}").write_text("the cat sees a black horse .\na cat ( 3.14 )\n" * 8)
    monkeypatch.setenv(patches.VARIABLE, "none")
    preprocess(tmp_path, "bin", "--trainpref", "train", "--validpref", "valid", "--testpref", "test")
    words = ["--batch-size", "8", "--max-epoch", "1", "--cpu"]
    assert "done training" in train(tmp_path / "bin", tmp_path / "model", *SEARCH, *PAPER, *words)
    words = ["--batch-size", "8", "--max-len-b", "5", "--cpu"]
    found = generate(tmp_path / "bin", tmp_path / "model/checkpoint1.pt", *words)
    assert sorted(found.order) == list(range(16))
