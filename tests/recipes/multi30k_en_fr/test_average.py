"""The mean of checkpoints."""

from pathlib import Path

import pytest
import torch

import rnnsearch_fairseq
from recipes.multi30k_en_fr.average import average_checkpoints, main
from rnnsearch_fairseq.errors import InputError
from tests.commands import printed_by
from tests.trained import make_checkpoint


def save(path: Path, **parameters: torch.Tensor) -> Path:
    number = int(path.stem[-1])
    history = [{"num_updates": number}]
    state = {"model": parameters, "args": None, "cfg": {"number": number}, "optimizer_history": history}
    torch.save({**state, "last_optimizer_state": {"moments": torch.zeros(1000)}}, path)
    return path


def test_the_mean_of_every_parameter(tmp_path: Path) -> None:
    paths = [
        save(tmp_path / f"{k}.pt", weight=torch.full((2, 3), float(k)), half=torch.tensor([0.1], dtype=torch.bfloat16))
        for k in (1, 2, 6)
    ]
    average_checkpoints(paths, tmp_path / "mean.pt")
    mean = torch.load(tmp_path / "mean.pt")
    assert mean["model"]["weight"].eq(3).all()
    assert mean["model"]["half"].equal(torch.tensor([0.1], dtype=torch.bfloat16).float())
    assert (mean["cfg"], mean["optimizer_history"][-1]["num_updates"]) == ({"number": 6}, 6)
    assert mean["last_optimizer_state"] is None


def test_shared_matrices_stay_shared_and_the_text_settings_stay(tmp_path: Path) -> None:
    for number in (1, 2):
        state = make_checkpoint(share_decoder_input_output_embed=True)
        torch.save(state, tmp_path / f"{number}.pt")
    (tmp_path / "run").mkdir()
    (tmp_path / "2.pt").rename(tmp_path / "run/checkpoint_best.pt")
    average_checkpoints([tmp_path / "1.pt", tmp_path / "run"], tmp_path / "mean.pt")
    model = torch.load(tmp_path / "mean.pt")["model"]
    shared = [model[f"decoder.network.{name}.weight"] for name in ("embedding.table", "readout.to_vocabulary")]
    assert shared[0].data_ptr() == shared[1].data_ptr()
    translated = rnnsearch_fairseq.load(tmp_path / "mean.pt").translate("The dog sleeps.")
    assert translated == "le chien dort."


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    first, other = save(tmp_path / "1.pt", a=torch.zeros(2)), save(tmp_path / "2.pt", a=torch.zeros(3))
    (tmp_path / "there").touch()
    for paths, out, message in (
        ([first, other], "out.pt", r"2\.pt: its parameters are not those of .*1\.pt"),
        ([first, tmp_path / "3.pt"], "out.pt", r"3\.pt: neither a checkpoint"),
        ([first, first], "there", "there: is there already"),
    ):
        with pytest.raises(InputError, match=message):
            printed_by(main, *paths, "--output", tmp_path / out)
    assert not (tmp_path / "out.pt").exists()
