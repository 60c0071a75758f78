"""What the package changes in a command line: --bf16 without --tpu, and torchrun on CPUs."""

import sys

import pytest
import torch
from fairseq import options

from tests.builders import parse_training

TRAINING = ["--optimizer", "adam", "--batch-size", "8", "--cpu"]
TORCHRUN = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500", "WORLD_SIZE": "2", "RANK": "1"}


@pytest.mark.parametrize("arch", ["bahdanau_gru", "tree2seq"])
def test_bf16_is_no_tpu(arch: str) -> None:
    assert parse_training("--arch", "lstm", *TRAINING, "--bf16").common.tpu, "fairseq's models"
    common = parse_training("--arch", arch, *TRAINING, "--bf16").common
    assert (common.bf16, common.tpu) == (True, False)


def test_an_architecture_alone_is_trained_as_in_the_paper() -> None:
    cfg = parse_training("--arch", "bahdanau_gru")
    assert (cfg.optimizer._name, cfg.criterion._name) == ("adadelta", "summed_nll")
    assert (cfg.dataset.batch_size, cfg.optimization.lr, cfg.optimization.clip_norm) == (80, [1.0], 1.0)
    assert parse_training("--arch", "bahdanau_gru", "--max-tokens", "99", "--lr", "3").optimization.lr == [3.0]


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["--arch", "bahdanau_gruu"], "bahdanau_gru"), (["--arch", "anmt", "--optimizr=x"], "--optimizer")],
)
def test_a_misspelt_word_is_answered_in_two_lines(
    words: list[str], meant: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fairseq-train", *words])
    with pytest.raises(SystemExit):
        parse_training(*words)
    said, hint = capsys.readouterr().err.splitlines()
    assert len(said) < 300 and hint.startswith(f"did you mean {meant}? ")


def test_a_model_that_is_missing_is_named_in_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options.parse_args_and_arch(options.get_generation_parser(), ["data", "--path", "no.pt"])
    assert "argument --path: no.pt: no such file\n" in capsys.readouterr().err


@pytest.mark.parametrize("arch", ["bahdanau_gru", "tree2seq_small", "lstm"])
def test_help_has_the_options_of_the_architecture_and_the_task(arch: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_training("--help", "--arch", arch, "--task", "rnnsearch")
    shown = capsys.readouterr().out
    own = {"bahdanau_gru": "--alignment-size", "tree2seq_small": "--constituents", "lstm": "--decoder-hidden-size"}
    assert [option in shown for option in own.values()] == [name == arch for name in own]
    assert "--pool-batches" in shown and "--max-update" in shown


def test_torchrun_is_read_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    words = ["--arch", "bahdanau_gru", *TRAINING]
    assert parse_training(*words[:-1]).distributed_training.distributed_init_method is None, "as fairseq does"
    distributed = parse_training(*words).distributed_training
    assert (distributed.distributed_world_size, distributed.distributed_rank) == (2, 1)
    assert (distributed.distributed_backend, distributed.ddp_backend) == ("gloo", "legacy_ddp")
