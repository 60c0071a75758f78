"""A model's folder from a stranger: it is refused in one sentence, or it translates; and it runs nothing."""

import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rnnsearch_fairseq.corpus.plan import make_script, plan_adaptation
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.export import describe, export
from rnnsearch_fairseq.inference.loading import load_members
from rnnsearch_fairseq.inference.translator import Translator
from tests.corpus.builders import run_script
from tests.trained import train

TRAINED = {"train.sh", ".lock", "preprocess.log", "bin", "bin.part", "checkpoints", "model", "model.part"}
FILES = ["config.json", "text.json", "model.safetensors"]
COMMAND = "x $(touch pwned); touch pwned\n`touch pwned` ' \" # {total}"
TEXTS = [COMMAND, "../../x", "/etc/passwd", "", "\x1b]0;x\x07", "\ud800", "a\nb", "x" * 1000, "moses", "tree2seq"]
NUMBERS = [0, -1, 1, 3, 50, 51, 1000, 1001, 10**5, 2**31, 2**63, 10**300, 0.5, -0.0, float("nan"), float("inf")]
VALUES = st.sampled_from([*TEXTS, *NUMBERS, None, True, False, [], {}, [[]], [None], ["a", "a"], {"beam": 2}])
FIELDS = ["beam", "search", "lenpen", "unkpen", "unnormalized", "max_len_a", "max_len_b", "min_len", COMMAND]
RIGHT = [("beam", 50), ("max_len_b", 1000), ("min_len", 1000), ("max_len_a", 3), ("unnormalized", True), ("lenpen", 2)]
WRONG = st.tuples(st.sampled_from([*FIELDS, "length_statistics"]), VALUES)
SEARCHES = st.lists(st.sampled_from(RIGHT) | WRONG, max_size=2).map(dict)
CONTENTS = st.sampled_from(["fifo", "folder", "/dev/zero", "/etc/passwd", "nowhere", b"sparse", b"[" * 100_000])
CONTENTS |= st.binary(max_size=99)


def places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of each value in a JSON document; of a long list, its first ones."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:6]) if isinstance(value, list) else ()
    return [path for key, one in items for path in ((*above, key), *places(one, (*above, key)))]


def change_value(document: Any, path: tuple[Any, ...], to: Any) -> None:
    *above, last = path
    with contextlib.suppress(LookupError, TypeError):  # another change has removed the place
        for step in above:
            document = document[step]
        document[last] = to


def change_file(path: Path, to: str | bytes) -> None:
    path.unlink()
    if to == "fifo":
        os.mkfifo(path)
    elif to == "folder":
        path.mkdir()
    elif isinstance(to, str):
        path.symlink_to(to)
    else:
        path.write_bytes(to)
        if to == b"sparse":
            os.truncate(path, 3 << 30)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An exported model in a place of its own."""
    place = tmp_path_factory.mktemp("stranger")
    export(str(train(place / "run")), place / "whole", search={"beam": 2, "max_len_b": 7}, examples=["a"])
    return place


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_strangers_folder_is_refused_or_translates_and_runs_nothing(stranger: Path, data: st.DataObject) -> None:
    folder = stranger / "folder"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(stranger / "whole", folder)
    kinds = data.draw(st.sets(st.sampled_from(["config.json", "text.json", "search", "file"]), min_size=1, max_size=2))
    for name in FILES[:2]:
        document = json.loads((folder / name).read_text())
        if name in kinds:
            change_value(document, data.draw(st.sampled_from(places(document))), data.draw(VALUES))
        if name == "config.json" and "search" in kinds:
            document["search"] = data.draw(SEARCHES)
        (folder / name).write_text(json.dumps(document))
    if "file" in kinds:
        change_file(folder / data.draw(st.sampled_from(FILES)), data.draw(CONTENTS))
    try:
        members = load_members(folder)
        assert len(Translator(members).translate(["The dog sleeps.", "A cat?"])) == 2
    except InputError as error:
        assert str(error).isprintable()
        return
    assert all(line.isprintable() for line in describe(members).splitlines())
    start_script(stranger, make_script(members[0].text.languages, plan_adaptation(3000), True, members[0]))
    assert {path.name for path in stranger.iterdir()} == {"run", "whole", "folder", "text"}


def test_each_value_in_train_sh_is_one_word(stranger: Path) -> None:
    (member,) = load_members(stranger / "whole")
    for languages in (("$(touch pwned)", COMMAND), ("`touch pwned`", "'; touch pwned; '")):
        start_script(stranger, make_script(languages, plan_adaptation(3000), True, member))


def start_script(place: Path, script: str) -> None:
    """Run train.sh with programs that do nothing, and look at what it leaves."""
    shutil.rmtree(place / "text", ignore_errors=True)
    (place / "text").mkdir()
    (place / "text/train.sh").write_text(script)
    run_script(place / "text")
    assert {path.name for path in (place / "text").iterdir()} == TRAINED
