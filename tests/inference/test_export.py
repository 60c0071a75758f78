"""An exported folder translates alone, as the original did, in Python and in fairseq's commands."""

import errno
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files.integrity import count_updates, find_damage
from rnnsearch_fairseq.inference.export import export, main
from rnnsearch_fairseq.inference.loading import find_checkpoints
from rnnsearch_fairseq.inference.record import Preparation, write_record
from rnnsearch_fairseq.models.rnnsearch import RNNsearchModel
from rnnsearch_fairseq.serve.main import load_model, parse_arguments
from rnnsearch_fairseq.text.subwords import learn_codes
from tests.commands import Output, generate, interactive
from tests.inference.builders import write_pairs
from tests.trained import PAIRS, PARSES, train

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

SOURCES, TARGETS = list(PAIRS), list(PAIRS.values())
BEST = Path("checkpoints", "checkpoint_best.pt")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A training's folder whose checkpoint has an optimizer's state, paths of this computer, and a result in BLEU."""
    folder = train(tmp_path / "run")
    state = torch.load(folder / BEST)
    state["last_optimizer_state"] = {"state": torch.zeros(100_000)}
    state["optimizer_history"][-1]["num_updates"] = 6534
    state["extra_state"] |= {"val_loss": 31.239, "ema": dict(state["model"])}
    state["cfg"]["checkpoint"] |= {"best_checkpoint_metric": "bleu", "save_dir": str(folder / "checkpoints")}
    state["cfg"]["common"]["user_dir"] = str(folder / "plugin")
    state["cfg"]["task"]["data"] = str(folder / "bin")
    torch.save(state, folder / BEST)
    write_record(folder / "bin", {"en": Preparation("moses", lowercase=True), "fr": Preparation("moses")})
    return folder


def translations(folder: Path) -> list[str]:
    return RNNsearchModel.from_pretrained(folder).translate(["The DOG sleeps.", "It's a cat.", "the black cat eats ."])


def hypotheses(output: Output) -> list[str]:
    return [" ".join(words) for _, words in sorted(output.words("H").items())]


@pytest.mark.parametrize("half", [False, True])
def test_the_folder_translates_alone(run: Path, tmp_path: Path, half: bool) -> None:
    expected = translations(run)
    assert expected == ["le chien dort.", "c'est un chat.", "le chat noir mange."]
    export([str(run / BEST)], tmp_path / "out", half)
    run.rename(tmp_path / "gone")
    (tmp_path / "elsewhere").mkdir()
    out = (tmp_path / "out").rename(tmp_path / "elsewhere" / "en-fr")
    assert translations(out) == expected
    assert load_model(*parse_arguments(["--path", f"{out}/model.pt", "--cpu"])).translate("the dog sleeps .")
    typed = interactive(out, out / "model.pt", ["The DOG sleeps.", "It's a cat."])
    assert [lines[0][-1] for _, lines in sorted(typed.all["D"].items())] == expected[:2]
    write_pairs(out, list(PAIRS.items()))  # a test set
    assert hypotheses(generate(out, out / "model.pt", "--dataset-impl", "raw")) == TARGETS


def test_what_the_folder_holds(run: Path, tmp_path: Path) -> None:
    export([str(run / BEST)], tmp_path / "out")
    names = {"README.md", "dict.en.txt", "dict.fr.txt", "languages.en-fr.txt", "model.pt", "preparation.json"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names
    for name in names:
        assert os.fsencode(tmp_path) not in (tmp_path / "out" / name).read_bytes(), name
    model = tmp_path / "out" / "model.pt"
    state, before = torch.load(model), torch.load(run / BEST)
    assert state["last_optimizer_state"] is None and "ema" not in state["extra_state"]
    assert all(parameter.equal(before["model"][name]) for name, parameter in state["model"].items())
    assert (find_damage(model), count_updates(model)) == (None, 6534)
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert card.startswith('---\nlanguage: ["en", "fr"]\nlicense: unknown\n')
    row = f"| model.pt | bahdanau_gru | {sum(p.numel() for p in state['model'].values()):,} | "
    row += f"{model.stat().st_size / 1e6:.1f} MB | 6,534 | BLEU 31.24 |"
    assert row in card.splitlines()
    assert f"torch {torch.__version__}" in card


def test_half_halves_the_file_and_shared_matrices_stay_shared(run: Path, tmp_path: Path) -> None:
    state = torch.load(run / BEST)
    state["cfg"]["model"] |= {"share_decoder_input_output_embed": True}
    names = [f"decoder.network.{name}.weight" for name in ("readout.to_vocabulary", "embedding.table")]
    assert {*names} <= state["model"].keys()
    state["model"][names[0]] = state["model"][names[1]]
    torch.save(state, run / BEST)
    export([str(run / BEST)], tmp_path / "full")
    export([str(run / BEST)], tmp_path / "half", half=True)
    sizes = [(tmp_path / name / "model.pt").stat().st_size for name in ("full", "half")]
    stored = {parameter.data_ptr(): parameter.numel() for parameter in state["model"].values()}
    assert sizes[0] - sizes[1] == pytest.approx(2 * sum(stored.values()), rel=0.03)
    parameters = torch.load(tmp_path / "half" / "model.pt")["model"]
    assert {parameter.dtype for parameter in parameters.values()} == {torch.float16}
    assert parameters[names[0]].data_ptr() == parameters[names[1]].data_ptr()


def test_a_number_that_float16_lacks_is_refused(run: Path, tmp_path: Path) -> None:
    state = torch.load(run / BEST)
    name = next(iter(state["model"]))
    state["model"][name].view(-1)[0] = 1e6
    torch.save(state, run / BEST)
    with pytest.raises(InputError, match=rf"checkpoint_best.pt: {name} has numbers that are too large for float16"):
        export([str(run / BEST)], tmp_path / "out", half=True)
    assert list((tmp_path / "out").iterdir()) == []
    export([str(run / BEST)], tmp_path / "out")


def test_an_ensemble_loads_from_its_folder(run: Path, tmp_path: Path) -> None:
    state = torch.load(run / BEST)
    for parameter in state["model"].values():
        parameter.mul_(0.9)
    torch.save(state, run / "checkpoints" / "other.pt")
    paths = [str(run / BEST), str(run / "checkpoints" / "other.pt")]
    original = RNNsearchModel.from_pretrained(run / "checkpoints", "checkpoint_best.pt:other.pt")
    expected = original.score(SOURCES, TARGETS)
    export(paths, tmp_path / "out")
    run.rename(tmp_path / "gone")
    exported = RNNsearchModel.from_pretrained(tmp_path / "out")
    assert len(exported.models) == 2
    assert exported.score(SOURCES, TARGETS) == pytest.approx(expected, abs=1e-5)
    names = f"{tmp_path}/out/model1.pt:{tmp_path}/out/model2.pt"
    assert hypotheses(interactive(tmp_path / "out", names, SOURCES[:2])) == TARGETS[:2]
    shutil.copy(tmp_path / "out" / "model2.pt", tmp_path / "out" / "model10.pt")
    with pytest.raises(InputError, match=r"model3\.pt of the ensemble is missing"):
        RNNsearchModel.from_pretrained(tmp_path / "out")
    (tmp_path / "out" / "model1.pt").unlink()
    with pytest.raises(InputError, match=r"out: model1\.pt of the ensemble is missing"):
        find_checkpoints(tmp_path / "out")


def test_members_of_an_ensemble_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = [f"model{number}.pt" for number in range(1, 12)]
    for name in names:
        (tmp_path / name).touch()
    assert [path.name for path in find_checkpoints(tmp_path)] == names


def test_a_model_that_reads_trees(tmp_path: Path) -> None:
    run = train(tmp_path / "run", "tree2seq_small")
    export([str(run / BEST)], tmp_path / "out")
    run.rename(tmp_path / "gone")
    model = RNNsearchModel.from_pretrained(tmp_path / "out")
    assert model.translate(SOURCES[2:4], trees=PARSES[2:4]) == ["le chat noir mange.", "le chien noir mange."]
    lines = ["the dog sleeps .\tS S R S R S R", "the cat sleeps ."]
    typed = interactive(tmp_path / "out", tmp_path / "out" / "model.pt", lines, "--task", "tree_translation")
    assert hypotheses(typed) == TARGETS[:2]
    assert "--path model.pt --task tree_translation" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


def test_codes_of_subwords_travel_with_the_model(run: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in [*SOURCES, *TARGETS] * 9), encoding="utf-8")
    (run / "bin" / "bpe.codes").write_text(learn_codes([tmp_path / "text"], 90), encoding="utf-8")
    write_record(run / "bin", {language: Preparation("moses", bpe_codes="bpe.codes") for language in ("en", "fr")})
    expected = translations(run)
    export([str(run / BEST)], tmp_path / "out")
    codes = (run / "bin" / "bpe.codes").read_bytes()
    assert (tmp_path / "out" / "bpe.codes").read_bytes() == codes
    (run / "bin" / "bpe.codes").write_text("one\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"bin/bpe\.codes: cannot split words"):
        export([str(run / BEST)], tmp_path / "other")
    (run / "bin" / "bpe.codes").unlink()
    with pytest.raises(InputError, match=r"bpe\.codes: there is no such plain file"):
        export([str(run / BEST)], tmp_path / "other")
    assert not (tmp_path / "other").exists()
    run.rename(tmp_path / "gone")
    assert translations(tmp_path / "out") == expected


@pytest.mark.parametrize("missing", ["checkpoints/checkpoint_best.pt", "bin/dict.en.txt", "bin/dict.tree.txt"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    run = train(tmp_path / "run", "tree2seq_small")
    (run / missing).unlink()
    with pytest.raises(InputError, match=r"no such (checkpoint|file)|no dict") as error:
        export([str(run / BEST)], tmp_path / "out", data=str(run / "bin"))
    assert str(run / missing) in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_nothing_is_overwritten(run: Path, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    if kind == "folder":
        out.mkdir()
        export([str(run / BEST)], out)  # an empty folder will do
    else:
        out.write_text("all that I have")
    before = {path: path.read_bytes() for path in [out, *out.glob("*")] if path.is_file()}
    with pytest.raises(InputError, match=r"out: is there already; give a folder that is new or empty"):
        export([str(run / BEST)], out)
    assert {path: path.read_bytes() for path in [out, *out.glob("*")] if path.is_file()} == before != {}


def test_a_full_disk_leaves_an_empty_folder(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = []

    def replace(source: Any, target: Any) -> None:
        if Path(target).name == "model2.pt":
            full.append(target)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.rename(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(InputError, match=r"cannot be written \(No space left on device\); make room"):
        export([str(run / BEST)] * 2, tmp_path / "out")
    assert full and list((tmp_path / "out").iterdir()) == []


def test_the_command(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(run / "checkpoints")
    monkeypatch.setattr(
        sys, "argv", ["export", "checkpoint_best.pt:checkpoint_best.pt", f"{tmp_path}/deep/out", "--half"]
    )
    main()
    printed = f"checkpoint_best.pt:checkpoint_best.pt -> {tmp_path}/deep/out; complete {tmp_path}/deep/out/README.md\n"
    assert capsys.readouterr().out == printed
    assert len(find_checkpoints(tmp_path / "deep" / "out")) == 2
