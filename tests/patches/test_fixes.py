"""Faults of fairseq that keep it from starting, or lose sentences, are shown, and gone with the patch."""

import argparse
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import fairseq.data.data_utils
import fairseq.distributed.utils
import fairseq.options
import numpy as np
import pytest
import torch
from omegaconf import DictConfig

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.patches import ORIGINALS
from tests.builders import parse_training

pytestmark = [pytest.mark.patched, pytest.mark.filterwarnings("ignore")]

PLUGIN = Path(__file__).resolve().parents[2] / "rnnsearch_fairseq"
TRAINING = ["--arch", "lstm", "--optimizer", "adam", "--lr", "0.01", "--batch-size", "8", "--cpu"]
TORCHRUN = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")


# Every sentence

BATCHINGS: list[dict[str, Any]] = [
    {},
    {"max_tokens": 20, "max_sentences": 6},
    {"fixed_shapes": np.array([[4, 3], [2, 5]])},
]


def batches_of(batch_by_size: Callable[..., Any], count: int, **limits: Any) -> list[list[int]]:
    tokens = np.array([i * 7 % 5 + 1 for i in range(count)], dtype=np.int64)
    batches = batch_by_size(
        np.arange(count),
        lambda index: tokens[index],
        num_tokens_vec=tokens,
        required_batch_size_multiple=8,
        **limits,
    )
    assert all(len(batch) <= limits.get("max_sentences", count) for batch in batches)
    assert all(max(tokens[batch]) * len(batch) <= limits.get("max_tokens", 5 * count) for batch in batches)
    return [list(batch) for batch in batches]


def test_fairseq_drops_the_tail() -> None:
    drop = ORIGINALS[fairseq.data.data_utils, "batch_by_size"]
    assert [sum(map(len, batches_of(drop, n, max_sentences=100))) for n in (5, 8, 13)] == [0, 8, 8]


@pytest.mark.parametrize("limits", BATCHINGS, ids=str)
@pytest.mark.parametrize("count", [1, 5, 8, 13, 500])
def test_every_sentence_is_kept_once_and_in_order(count: int, limits: dict[str, Any]) -> None:
    batches = batches_of(fairseq.data.data_utils.batch_by_size, count, **limits)
    assert list(chain.from_iterable(batches)) == list(range(count))
    assert all(batches)


def test_no_sentences_make_no_batches() -> None:
    assert fairseq.data.data_utils.batch_by_size(iter([]), len, max_tokens=5, required_batch_size_multiple=8) == []


# The command line


def parsed(monkeypatch: pytest.MonkeyPatch, parse: Callable[..., Any], *extra: str) -> argparse.Namespace:
    monkeypatch.setattr(sys, "argv", ["fairseq-train", "bin", *TRAINING, *extra])
    return parse(fairseq.options.get_training_parser())


def test_bf16_is_no_tpu(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = fairseq.options.parse_args_and_arch
    assert parsed(monkeypatch, ORIGINALS[fairseq.options, "parse_args_and_arch"], "--bf16").tpu
    for option in ("--bf16", "--memory-efficient-bf16"):
        args = parsed(monkeypatch, parse, option)
        assert (args.bf16, args.tpu) == (True, False)
    assert parsed(monkeypatch, parse, "--bf16", "--tpu").tpu


def test_help_lists_the_options_of_what_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parsed(monkeypatch, fairseq.options.parse_args_and_arch, "--task", "pooled_translation", "--help")
    assert end.value.code == 0
    printed = capsys.readouterr().out
    assert "--pool-batches" in printed and "--search" in printed


# Several processes


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[DictConfig]:
    """The configurations with which training was started, in place of training; no GPU is seen."""
    seen: list[DictConfig] = []
    for name in TORCHRUN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(fairseq.distributed.utils, "distributed_main", lambda i, main, cfg, kwargs: main(cfg))
    return seen


def test_processes_that_would_not_start_are_refused(ran: list[DictConfig]) -> None:
    config = parse_training(*TRAINING, "--distributed-world-size", "2", "--distributed-init-method", "tcp://x:29500")
    with pytest.raises(InputError, match=r"--distributed-world-size 2: .* torchrun --nproc-per-node 2"):
        fairseq.distributed.utils.call_main(config, ran.append)
    ORIGINALS[fairseq.distributed.utils, "call_main"](config, ran.append)
    assert ran == []


@pytest.mark.parametrize("extra", [[], ["--distributed-world-size", "2"]])
def test_torchrun_is_read_on_a_cpu(ran: list[DictConfig], monkeypatch: pytest.MonkeyPatch, extra: list[str]) -> None:
    for name, value in zip(TORCHRUN, ("localhost", "29500", "2", "1"), strict=True):
        monkeypatch.setenv(name, value)
    if extra:
        with pytest.raises(ZeroDivisionError):
            ORIGINALS[fairseq.distributed.utils, "call_main"](parse_training(*TRAINING, *extra), ran.append)
    fairseq.distributed.utils.call_main(parse_training(*TRAINING, *extra), ran.append)
    distributed = ran.pop().distributed_training
    assert (distributed.distributed_world_size, distributed.distributed_rank) == (2, 1)
    assert (distributed.distributed_backend, distributed.ddp_backend) == ("gloo", "legacy_ddp")


def test_one_process_is_left_alone(ran: list[DictConfig]) -> None:
    fairseq.distributed.utils.call_main(parse_training(*TRAINING), ran.append)
    assert ran.pop().distributed_training == parse_training(*TRAINING).distributed_training


def test_processes_part_before_python_ends(ran: list[DictConfig], tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    fairseq.distributed.utils.call_main(parse_training(*TRAINING), ran.append)
    assert len(ran) == 1 and not torch.distributed.is_initialized()


def test_a_missing_batch_size_is_told_in_one_sentence(ran: list[DictConfig]) -> None:
    def main(cfg: DictConfig) -> None:
        assert cfg.dataset.max_tokens, "Must specify batch size either with --max-tokens or --batch-size"

    with pytest.raises(InputError, match="Must specify batch size either with --max-tokens or --batch-size"):
        fairseq.distributed.utils.call_main(parse_training(*TRAINING), main)


@pytest.mark.parametrize(("given", "named"), [(None, str(PLUGIN)), ("elsewhere", "elsewhere")])
def test_the_plugin_is_named_to_spawned_processes(ran: list[DictConfig], given: str | None, named: str) -> None:
    config = parse_training(*TRAINING)
    config.common.user_dir = given
    fairseq.distributed.utils.call_main(config, ran.append)
    assert ran.pop().common.user_dir == named
