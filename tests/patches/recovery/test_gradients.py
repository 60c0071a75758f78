"""Updates with a gradient that is NaN or infinite are skipped and counted."""

import functools
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fairseq.distributed.utils
import pytest
import torch
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer

from recipes.fault_injection.run import is_equal, read_state
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files.integrity import count_updates
from rnnsearch_fairseq.patches import ORIGINALS
from tests.patches.recovery.training import PAIRED, TREES, UPDATES, Trained, train, train_two

pytestmark = [pytest.mark.slow, pytest.mark.train, pytest.mark.patched]


def poison(first: int, last: int, gradient: float | None) -> None:
    """For ``prepare``: some batches, counted from 1, have such a gradient; None: their loss is NaN."""
    train_step, count = FairseqTask.train_step, 0

    def step(self: Any, sample: Any, model: Any, criterion: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        print("BATCH", count, sample["id"].tolist(), flush=True)
        poisoned = first <= count <= last
        spoilt = (lambda *given: spoil(*criterion(*given))) if poisoned and gradient is None else criterion
        output = train_step(self, sample, model, spoilt, *args, **kwargs)
        if poisoned and gradient is not None:
            next(p for p in model.parameters() if p.grad is not None).grad.view(-1)[0] = gradient
        return output

    FairseqTask.train_step = step


def spoil(loss: torch.Tensor, *rest: Any) -> tuple[Any, ...]:
    return loss * math.nan, *rest


def leave_out(first: int, last: int) -> None:
    """For ``prepare``: some batches are passed over."""
    train_step, count = Trainer.train_step, 0

    def step(self: Trainer, samples: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        return None if first <= count <= last else train_step(self, samples, *args, **kwargs)

    Trainer.train_step = step


def batches(trained: Trained) -> list[list[str]]:
    """The sentences of each batch, in order."""
    return [found.split(", ") for found in re.findall(r"^BATCH \d+ \[(.*)\]$", trained.printed, re.MULTILINE)]


def skipped(trained: Trained) -> list[tuple[str, list[str]]]:
    """The number of each skipped update, and its sentences."""
    pattern = r"WARNING .* update (\d+) is skipped: .*; it was of the training sentences ([\d ]+) \(counted from 0\)"
    return [(update, sentences.split()) for update, sentences in re.findall(pattern, trained.printed)]


WAYS = {
    "infinite": ([], math.inf),
    "loss": ([], None),
    "bf16": (["--bf16"], math.nan),
    "memory-efficient-bf16": (["--memory-efficient-bf16"], math.nan),
    "amp": (["--amp"], math.nan),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_update_is_skipped_and_counted(data: Path, tmp_path: Path, way: str) -> None:
    precision, gradient = WAYS[way]
    words = [*precision, "--save-interval-updates", "2", "--max-update", "8", "--optimizer", "adam", "--lr", "0.01"]
    trained = train(data, tmp_path, *words, prepare=functools.partial(poison, 5, 6, gradient))
    assert trained.status == 0, trained.printed[-3000:]
    assert skipped(trained) == [("5", batches(trained)[4]), ("5", batches(trained)[5])]
    assert [record["num_updates"] for record in trained.updates()] == [str(number) for number in range(1, 9)]
    assert len(batches(trained)) == 10
    assert '"skipped": "2"' in trained.printed
    # The fourth update is validated and saved once, not again after each skipped one.
    assert trained.printed.count("Saved checkpoint") == 4
    # What is skipped leaves no trace: a training that passes those two batches over is the same.
    (tmp_path / "without").mkdir()
    without = train(data, tmp_path / "without", *words, prepare=functools.partial(leave_out, 5, 6))
    states = [read_state(one.last) for one in (trained, without)]
    assert all(torch.isfinite(parameter).all() for parameter in states[0]["model"].values())
    assert is_equal(states[0]["model"], states[1]["model"])
    assert is_equal(states[0]["optimizer"], states[1]["optimizer"])


def test_an_epoch_that_ends_in_a_skipped_update_is_validated_and_saved(data: Path, tmp_path: Path) -> None:
    words = ["--save-interval-updates", "100", "--max-epoch", "2"]
    trained = train(data, tmp_path, *words, prepare=functools.partial(poison, 12, 12, math.nan))
    assert skipped(trained) == [("12", batches(trained)[11])]
    assert re.findall(r"\| valid \| .*\"valid_num_updates\": \"(\d+)\"", trained.printed) == ["11", "23"]
    updates = [count_updates(trained.folder / f"checkpoint{epoch}.pt") for epoch in (1, 2)]
    assert updates == [11, 23]


def test_gradients_that_differ_between_processes_end_training_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fairseq compares them on GPUs only."""
    monkeypatch.setattr(fairseq.distributed.utils, "all_reduce", lambda tensor, group: tensor)
    buffer = torch.zeros(2)
    checkpoint, common = SimpleNamespace(save_dir=str(tmp_path)), SimpleNamespace(amp=False)
    trainer = SimpleNamespace(
        _grad_norm_buf=buffer,
        data_parallel_rank=1,
        data_parallel_process_group=None,
        cfg=SimpleNamespace(checkpoint=checkpoint, common=common),
    )
    with pytest.raises(InputError, match=r"^Fatal error: gradients are inconsistent between workers\. .*\? .*complete"):
        Trainer._check_grad_norms(trainer, torch.ones(()))


@pytest.mark.parametrize("words", [PAIRED, TREES], ids=["rnnsearch", "tree2seq"])
def test_fairseq_alone_would_end_here(data: Path, tmp_path: Path, words: list[str]) -> None:
    def prepare() -> None:
        Trainer.clip_grad_norm = ORIGINALS[Trainer, "clip_grad_norm"]
        poison(3, 3, math.nan)

    ended = train(data, tmp_path, words=words, prepare=prepare)
    assert ended.status == 1
    assert "FloatingPointError: gradients are Nan/Inf" in ended.printed


@pytest.mark.parametrize("words", [PAIRED, TREES], ids=["rnnsearch", "tree2seq"])
def test_ten_in_a_row_end_training(data: Path, tmp_path: Path, words: list[str]) -> None:
    ended = train(data, tmp_path, words=words, prepare=functools.partial(poison, 6, 99, math.nan))
    last = " ".join(batches(ended)[-1])
    assert (
        "error: 10 updates in a row had a gradient that is NaN or infinite, the last one on the training sentences "
        f"{last} (counted from 0); go on with a lower --lr or --clip-norm, or without those sentences: "
        f"the last complete checkpoint is {ended.folder}/checkpoint"
    ) in ended.sentence()
    assert len(batches(ended)) == 15
    assert [update for update, _ in skipped(ended)] == ["6"] * 9
    assert not (ended.folder / "crash.pt").exists()


def test_nine_in_a_row_do_not_and_the_count_is_kept(data: Path, tmp_path: Path) -> None:
    begun = train(data, tmp_path, "--max-update", "5", prepare=functools.partial(poison, 2, 4, math.nan))
    assert '"skipped": "3"' in begun.printed
    resumed = train(data, tmp_path, prepare=functools.partial(poison, 2, 10, math.nan))
    assert resumed.status == 0
    assert set(re.findall(r'"skipped": "(\d+)"', resumed.printed)) == {"3", "12"}


def test_a_loss_scale_falls_as_ever(data: Path, tmp_path: Path) -> None:
    """An infinite gradient lowers the scale, which is no fault as long as it is above 1: 128 has seven steps to it."""
    words = ["--memory-efficient-fp16", "--fp16", "--optimizer", "adam", "--lr", "0.001"]
    trained = train(data, tmp_path, *words, prepare=functools.partial(poison, 2, 13, math.inf))
    assert trained.status == 0, trained.printed[-3000:]
    lowered = re.findall(r"INFO .* update 2 is skipped: .* setting loss scale to: ([\d.]+);", trained.printed)
    assert [float(scale) for scale in lowered] == [64, 32, 16, 8, 4, 2, 1]
    assert len(skipped(trained)) == 5
    assert '"skipped": "12"' in trained.printed
    (tmp_path / "again").mkdir()
    ended = train(data, tmp_path / "again", *words, prepare=functools.partial(poison, 2, 99, math.inf))
    assert "10 updates in a row" in ended.sentence()
    assert len(batches(ended)) == 1 + 7 + 10


def test_a_loss_scale_that_can_fall_no_further_names_the_checkpoint(data: Path, tmp_path: Path) -> None:
    words = ["--memory-efficient-fp16", "--fp16", "--min-loss-scale", "8", "--optimizer", "adam", "--lr", "0.001"]
    ended = train(data, tmp_path, *words, prepare=functools.partial(poison, 6, 99, math.inf))
    assert re.search(r"the last complete checkpoint is \S+\.pt: Minimum loss scale reached \(8", ended.sentence())
    assert not (ended.folder / "crash.pt").exists()


def test_two_processes_skip_together(data: Path, tmp_path: Path) -> None:
    def prepare(rank: int) -> None:
        poison(3 if rank else 99, 3, math.nan)

    both = train_two(data, tmp_path, prepare)
    assert [trained.status for trained in both] == [0, 0]
    for trained in both:  # each names its own sentences
        assert skipped(trained) == [("3", batches(trained)[2])]
        assert len(batches(trained)) == UPDATES
    assert both[0].updates()[-1]["num_updates"] == str(UPDATES - 1)
    assert all(torch.isfinite(parameter).all() for parameter in read_state(both[0].last)["model"].values())
