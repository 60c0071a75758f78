"""Updates as CUDA graphs, with a stand-in for the capture, since there is no GPU."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.trainer import Trainer
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from recipes.benchmark.workloads import make_trainer
from rnnsearch_fairseq.models import captured_updates
from rnnsearch_fairseq.models.captured_updates import CapturedUpdates, round_up
from rnnsearch_fairseq.modules.fused import dispatch, kernels
from rnnsearch_fairseq.modules.fused.loss import softmax_loss
from tests.builders import EOS, PAD, make_model, make_sample, randomize

WORDS = 13  # in the dictionaries
TINY = ["--embedding-size", "5", "--hidden-size", "6", "--alignment-size", "7", "--maxout-size", "4", "--cuda-graphs"]
TRAIN = ["--cpu", "--optimizer", "adadelta", "--criterion", "summed_nll", "--clip-norm", "1", "--batch-size", "9"]
WAITS = {"aten::_local_scalar_dense", "aten::nonzero", "aten::item", "aten::is_nonzero", "aten::equal"}


class Recorder(TorchDispatchMode):
    """A stand-in for the capture on a CPU: it notes every operator and the memory of its results.

    As with CUDA, no Python code runs again in a replay, and nothing may depend on the value of a result.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if func._schema.name in WAITS or ("index" in func._schema.name and any(t.dtype == torch.bool for t in given)):
            raise RuntimeError("operation not permitted when stream is capturing")
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, result))
        return result

    @torch.no_grad()
    def replay(self) -> None:
        for func, args, kwargs, result in self.calls:
            again = func(*args, **kwargs)
            for old, new in zip(tree_leaves(result), tree_leaves(again)):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class Capture:
    """Captures by a :class:`Recorder`; counts captures and replays."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.captures, self.replays = trainer, 0, 0
        self.trainer.task.train_step.capture = self
        self.trainer.task.train_step.warm_up = lambda work: work()

    def __call__(self, work: Callable[[], Tensor], pool: Any) -> tuple[Tensor, Callable[[], None]]:
        self.captures += 1
        gradients = [parameter.grad for parameter in self.trainer.model.parameters() if parameter.grad is not None]
        before = [gradient.clone() for gradient in gradients]
        with Recorder() as recorder:
            loss = work()
        for gradient, value in zip(gradients, before):  # a capture computes nothing
            gradient.copy_(value)
        loss.detach().fill_(float("nan"))

        def replay() -> None:
            self.replays += 1
            recorder.replay()

        return loss, replay


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "on_gpu", lambda tensor: True)
    monkeypatch.setattr(dispatch, "kernels_for", lambda tensor: kernels)


def make(*options: str, task: str = "pooled_translation", arch: str = "bahdanau_gru") -> Trainer:
    trainer = make_trainer(["--task", task, "--arch", arch, *TRAIN, *TINY, *options], WORDS + 4)
    randomize(trainer.model)
    if "--bf16" not in options:
        trainer.model.double()
    return trainer


def eager(trainer: Trainer) -> Trainer:
    trainer.task.train_step = trainer.task.train_step.train_step
    return trainer


def batches(number: int, *shapes: tuple[int, int, int], left: bool = True) -> list[dict[str, Any]]:
    """Random batches, with each shape (sentences, source and target length) in turn."""
    found = []
    for k in range(number):
        sentences, *longest = shapes[k % len(shapes)]
        sides = []
        for most in longest:
            lengths = [most, *torch.randint(1, most + 1, (sentences - 1,)).tolist()]
            sides.append([[*torch.randint(4, WORDS + 4, (length - 1,)).tolist(), EOS] for length in lengths])
        found.append(make_sample(*sides, left=left))
    return found


def train(trainer: Trainer, updates: list[list[dict[str, Any]]]) -> tuple[list[float], list[Tensor]]:
    """The losses of the updates, and the parameters after them."""
    losses = [trainer.train_step(samples)["nll_word_nats"] for samples in updates]
    return losses, [parameter.detach().clone() for parameter in trainer.model.parameters()]


@pytest.mark.parametrize(
    ("arch", "task", "options", "left"),
    [
        ("bahdanau_gru", "pooled_translation", [], True),
        ("rnnencdec", "translation", [], False),
        ("groundhog_search", "translation", ["--output-rank", "3"], False),
        (
            "bahdanau_gru",
            "pooled_translation",
            ["--scan", "reference", "--share-decoder-input-output-embed", "--maxout-size", "5"],
            True,
        ),
    ],
    ids=str,
)
def test_replayed_updates_are_the_eager_ones(arch: str, task: str, options: list[str], left: bool) -> None:
    updates = [[sample] for sample in batches(12, (3, 5, 6), (4, 8, 8), (2, 1, 2), (1, 6, 7), left=left)]
    expected = train(eager(make(*options, task=task, arch=arch)), updates)
    trainer = make(*options, task=task, arch=arch)
    capture = Capture(trainer)
    found = train(trainer, updates)
    # Rounded up, the first, second and fourth shape are one.
    assert (capture.captures, capture.replays) == (2, 6)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def test_gradients_of_an_update_add_up_however_they_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured_updates, "MOST", 1)
    often, seldom = batches(12, (3, 5, 6)), batches(6, (2, 9, 3))
    orders = [[0, 1, 2], [0, 2, 1], [2, 0, 1]]
    updates = [[(*often[2 * k : 2 * k + 2], seldom[k])[i] for i in orders[k % 3]] for k in range(6)]
    expected = train(eager(make()), updates)
    trainer = make()
    capture = Capture(trainer)
    torch.testing.assert_close(train(trainer, updates), expected, rtol=0, atol=1e-9)
    assert capture.captures == 1 and capture.replays >= 6


@pytest.mark.patched  # fairseq takes --bf16 for a TPU
def test_gradients_in_bfloat16_reach_the_float32_parameters() -> None:
    updates = [[sample] for sample in batches(6, (4, 8, 8))]
    losses, parameters = train(eager(make("--bf16")), updates)
    trainer = make("--bf16")
    capture = Capture(trainer)
    torch.testing.assert_close(train(trainer, updates), (losses, parameters), rtol=0.02, atol=0.02)
    assert capture.replays == 3
    before = [parameter.clone() for parameter in trainer.optimizer.fp32_params]
    trainer.train_step(updates[0])
    assert not any(torch.equal(now, then) for now, then in zip(trainer.optimizer.fp32_params, before))


@pytest.mark.patched
def test_a_gradient_that_is_not_finite_leaves_no_trace() -> None:
    samples = [[sample] for sample in batches(6, (4, 8, 8))]
    expected = train(eager(make()), samples)
    trainer = make()
    capture = Capture(trainer)
    train(trainer, samples[:4])
    bias = trainer.model.decoder.to_vocabulary.bias
    value = bias.detach().clone()
    with torch.no_grad():
        bias.fill_(float("nan"))
        assert trainer.train_step(samples[0]) is None
        bias.copy_(value)
    found = train(trainer, samples[4:])
    torch.testing.assert_close(found[1], expected[1], rtol=0, atol=1e-9)
    assert capture.replays == 4


@pytest.mark.parametrize("where", ["warm_up", "capture"])
def test_what_cannot_be_captured_is_computed_as_usual(where: str, warned: pytest.LogCaptureFixture) -> None:
    def fail(work: Callable[[], Tensor], *pool: Any) -> None:
        if where == "warm_up":
            work()
        raise RuntimeError("operation not permitted\nwhen stream is capturing")

    updates = [[sample] for sample in batches(5, (4, 8, 8))]
    expected = train(eager(make()), updates)
    trainer = make()
    capture = Capture(trainer)
    setattr(trainer.task.train_step, where, fail)
    torch.testing.assert_close(train(trainer, updates), expected, rtol=0, atol=1e-9)
    assert warned.messages == ["--cuda-graphs has no effect: operation not permitted"]
    assert capture.captures == 0


def test_graphs_are_dropped_when_the_parameters_are_elsewhere() -> None:
    updates = [[sample] for sample in batches(9, (4, 8, 8))]
    expected = train(eager(make()), updates)
    trainer = make()
    capture = Capture(trainer)
    train(trainer, updates[:4])
    bias = trainer.model.decoder.to_vocabulary.bias
    bias.data = bias.data.clone()
    _, found = train(trainer, updates[4:])
    torch.testing.assert_close(found, expected[1], rtol=0, atol=1e-9)
    assert (capture.captures, capture.replays) == (2, 3)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model": torch.nn.Identity()}, "several processes train the model"),
        ({"optimizer": SimpleNamespace(scaler=1)}, "--fp16 changes its loss scale; give --bf16 or --amp"),
        ({"criterion": SimpleNamespace()}, "the criterion is not summed_nll"),
        ({"ema_model": None}, "the task gives the model more than words"),
        ({}, "there is no GPU"),
    ],
    ids=str,
)
def test_without_the_conditions_all_is_as_usual(
    change: dict[str, Any], reason: str, warned: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not change:
        monkeypatch.setattr(dispatch, "on_gpu", lambda tensor: False)
    model = make_model()
    step = CapturedUpdates(lambda *given, **others: (given, others), model)
    sample = make_sample([[4, EOS]], [[5, EOS]])
    usual = {"model": model, "criterion": SimpleNamespace(report=None), "optimizer": object(), "update_num": 3} | change
    others = {"ema_model": usual.pop("ema_model")} if "ema_model" in usual else {}
    for _ in range(3):
        assert step(sample, **usual, **others) == ((sample, *usual.values(), False), others)
    assert warned.messages == [f"--cuda-graphs has no effect: {reason}"]


@pytest.mark.parametrize("arch", ["bahdanau_gru", "rnnencdec"])
@pytest.mark.parametrize("left", [False, True])
def test_rounding_up_changes_nothing(arch: str, left: bool) -> None:
    model, (sample,) = make_model(arch), batches(1, (3, 5, 6), left=left)
    source, previous, target = round_up(sample, (4, 8, 8), model)
    assert (source.shape, previous.shape, target.shape) == ((4, 8), (4, 8), (4, 8))
    results = []
    for words, targets in (
        ([source, None, previous], target),
        ([sample["net_input"][name] for name in ("src_tokens", "src_lengths", "prev_output_tokens")], sample["target"]),
    ):
        features, extra = model(*words, features_only=True)
        loss = softmax_loss(features, *extra["output_layer"], targets, PAD)
        results.append([loss, *torch.autograd.grad(loss, list(model.parameters()))])
    torch.testing.assert_close(*results, rtol=0, atol=1e-10)
