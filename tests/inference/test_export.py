"""Exported folders: what they hold, and that they translate as before, without fairseq and at little cost."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import rnnsearch_fairseq
from rnnsearch_fairseq.corpus.prepare import learn_codes, learn_pieces
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.export import describe, export, main
from rnnsearch_fairseq.inference.loading import load_members
from rnnsearch_fairseq.text.preparation import Preparation
from tests.commands import ROOT, printed_by
from tests.trained import ARCHITECTURES, PAIRS, change_text, make_checkpoint, train

SOURCES, TARGETS = ["The dog sleeps.", "The black cat eats."], ["le chien dort.", "le chat noir mange."]
FILES = ["README.md", "config.json", "text.json"]


@pytest.fixture(scope="module")
def exported(models: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of a model of each kind."""
    folder = tmp_path_factory.mktemp("exported")
    for arch in ARCHITECTURES:
        export(str(models / arch), folder / arch)
    return {arch: folder / arch for arch in ARCHITECTURES}


def test_folders_translate_without_fairseq_import_little_and_score_as_checkpoints(
    models: Path, exported: dict[str, Path]
) -> None:
    program = f"""
import rnnsearch_fairseq, sys
for folder in {[str(folder) for folder in exported.values()]!r}:
    assert rnnsearch_fairseq.load(folder).translate({SOURCES!r}) == {TARGETS!r}
print(sorted(sys.modules.keys() & {{"fairseq", "omegaconf", "scipy", "matplotlib", "sacrebleu"}}))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
    for arch, path in exported.items():
        checkpoint = rnnsearch_fairseq.load(models / arch)
        assert rnnsearch_fairseq.load(path).score(SOURCES, TARGETS) == checkpoint.score(SOURCES, TARGETS)


def test_what_a_folder_and_its_card_hold(exported: dict[str, Path]) -> None:
    folder = exported["bahdanau_gru"]
    assert {path.name for path in folder.iterdir()} == {*FILES, "model.safetensors"}
    card, described = (folder / "README.md").read_text(), describe(load_members(folder))
    numbers = sum(parameter.numel() for parameter in rnnsearch_fairseq.load(folder).networks[0].parameters())
    assert described.startswith(f"translates: en to fr\nrnnsearch: {numbers:,} parameters; training: 150 updates\n")
    assert "\n  --hidden-size 32\n" in described and "preparation of en: moses, lowercase" in described
    assert card.startswith('---\nlanguage: ["en", "fr"]\n') and described in card


def test_a_shared_matrix_is_stored_once_and_half_takes_half(tmp_path: Path) -> None:
    train(tmp_path / "run", share_decoder_input_output_embed=True)
    export(str(tmp_path / "run"), tmp_path / "whole")
    export(str(tmp_path / "whole"), tmp_path / "half", half=True)
    whole, half = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "half"))
    assert "decoder.embedding.table.weight" in whole
    assert "decoder.readout.to_vocabulary.weight" not in whole
    assert whole.keys() == half.keys()
    assert {tensor.dtype for tensor in half.values()} == {torch.float16}
    model = rnnsearch_fairseq.load(tmp_path / "half")
    decoder = model.networks[0].decoder
    assert decoder.to_vocabulary.weight is decoder.embedding.table.weight
    assert {parameter.dtype for parameter in decoder.parameters()} == {torch.float32}
    assert model.translate(SOURCES) == TARGETS


@pytest.mark.parametrize(("kind", "learn", "size"), [("bpe", learn_codes, 200), ("sentencepiece", learn_pieces, 40)])
def test_subwords_travel_with_the_model(tmp_path: Path, kind: str, learn: Callable[..., Any], size: int) -> None:
    state, text = make_checkpoint(), [line for pair in PAIRS.items() for line in pair] * 9
    preparation = Preparation(lowercase=True, **{kind: learn(text, size)})
    change_text(state, preparations=[preparation.to_record()] * 2)
    torch.save(state, tmp_path / "model.pt")
    export(str(tmp_path / "model.pt"), tmp_path / "out")
    original, moved = rnnsearch_fairseq.load(tmp_path / "model.pt"), rnnsearch_fairseq.load(tmp_path / "out")
    assert moved.source_codec.preparation == preparation
    assert moved.translate("The dog sleeps .") == original.translate("The dog sleeps .")


def test_a_folder_says_how_to_use_the_model(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").symlink_to(models / "bahdanau_gru")
    (tmp_path / "examples").write_text("The dog sleeps.\n\nA cat.\n")
    (tmp_path / "card").write_text("Trained on five sentences.\n")
    words = "run --output out --search groundhog --beam 3 --unnormalized --examples examples --card card"
    monkeypatch.chdir(tmp_path)
    printed_by(main, *words.split())
    export("out", Path("again"))
    for name in ("out", "again"):
        model = rnnsearch_fairseq.load(name)
        assert (model.options.search, model.options.beam, model.options.unnormalized) == ("groundhog", 3, True)
        assert model.examples == ["The dog sleeps.", "A cat."]
        assert model.description == "Trained on five sentences.\n"
        assert model.description in (Path(name) / "README.md").read_text()
        assert describe(load_members(name)).endswith("\nsearch: --search groundhog --beam 3 --unnormalized")
        assert rnnsearch_fairseq.load(name, beam=7).options.beam == 7
        assert rnnsearch_fairseq.load(name, search="tree2seq").options.beam == 5
    for words in ("run --beam 0", "run --length-statistics examples", "run --examples nowhere", "run:out"):
        with pytest.raises(InputError):
            printed_by(main, *words.split(), "--output", "refused")
        assert not Path("refused").exists()
