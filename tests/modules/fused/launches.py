"""Count what one training update asks of a GPU, without one: kernel launches, and waits of the host for the device.

The update runs on PyTorch's meta device, which has shapes but no numbers. Whatever the package does only on a GPU, it
does there too, and the Triton kernels are replaced by functions that only count. Each operator is counted as the
kernels that PyTorch launches for it on CUDA.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from fairseq.trainer import Trainer
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from rnnsearch_fairseq.modules.fused import dispatch, kernels, loss, rnn, tree, triton_kernels

FREE = {
    "empty",
    "empty_like",
    "new_empty",
    "empty_strided",
    "new_empty_strided",
    "_unsafe_view",
    "_has_compatible_shallow_copy_type",
}
# Operators that are a copy or a fill, then a kernel; of the others each is one kernel.
TWO = {"constant_pad_nd", "embedding_dense_backward", "masked_fill", "scatter", "select_backward", "slice_backward"}
SUMMANDS = {"addmm", "baddbmm"}
# PyTorch's multi_tensor_apply: elements a block, blocks a launch, and tensors a launch by the number of lists.
CHUNK, BLOCKS, TENSORS = 65536, 320, (110, 64, 48, 36, 30)
NONZERO = 3  # kernels that find the true elements of a mask, before the host waits for their number


class Kernel:
    """A stand-in for a Triton kernel, which only counts its launches."""

    def __init__(self, counter: "Launches", name: str) -> None:
        self.counter, self.name = counter, name

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return lambda *args, **options: self.counter.launches.update([(self.counter.regions[-1], self.name)])


class Launches(TorchDispatchMode):
    """Counts kernels in ``launches`` and waits in ``waits``, by region and operator."""

    def __init__(self) -> None:
        super().__init__()
        self.launches: Counter[tuple[str, str]] = Counter()
        self.waits: Counter[tuple[str, str]] = Counter()
        self.regions = ["rest"]

    def watch(self, trainer: Trainer, monkeypatch: pytest.MonkeyPatch) -> None:
        """Treat the meta device as a GPU, and count the parts of the trainer's update in regions of their own."""
        monkeypatch.setattr(dispatch, "on_gpu", lambda tensor: tensor.is_meta)
        monkeypatch.setattr(dispatch, "kernels_for", lambda tensor: triton_kernels if tensor.is_meta else kernels)
        for name, value in vars(triton_kernels).copy().items():
            if hasattr(value, "fn"):  # compiled by Triton
                monkeypatch.setattr(triton_kernels, name, Kernel(self, f"triton {name}"))
        model, optimizer = trainer.model, trainer.optimizer
        for owner, name, region in (
            (model.encoder, "forward", "encoder"),
            (model.decoder.translator, "scan", "decoder scan"),
            (trainer.criterion, "forward", "readout and cost"),
            (optimizer, "backward", "other backward"),
            (trainer, "clip_grad_norm", "clipping"),
            (optimizer, "step", "optimizer"),
            (optimizer, "zero_grad", "zero_grad"),
        ):
            monkeypatch.setattr(owner, name, self.within(region, getattr(owner, name)))
        for function, region in (
            (rnn._UnitScan, "encoder, backward"),
            (tree._LSTMScan, "LSTM, backward"),
            (tree._TreeScan, "Tree-LSTM, backward"),
            (tree._DecoderScan, "decoder scan, backward"),
            (rnn._AttendingScan, "decoder scan, backward"),
            (loss._SoftmaxLoss, "cost, backward"),
        ):
            monkeypatch.setattr(function, "backward", staticmethod(self.within(region, function.backward)))
        for function, region in ((tree._LSTMScan, "LSTM"), (tree._TreeScan, "Tree-LSTM")):
            monkeypatch.setattr(function, "forward", staticmethod(self.within(region, function.forward)))

    @contextmanager
    def region(self, name: str) -> Iterator[None]:
        self.regions.append(name)
        try:
            yield
        finally:
            self.regions.pop()

    def within(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function``, whose operators are counted in the region ``name``."""

        def run(*args: Any, **kwargs: Any) -> Any:
            with self.region(name):
                return function(*args, **kwargs)

        return run

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if name == "_local_scalar_dense" and tensors[0].is_meta:
            self._wait(name)
            return True if tensors[0].dtype == torch.bool else 1
        if name == "_to_copy" and tensors[0].is_meta and kwargs.get("device") == torch.device("cpu"):
            self._wait("to the host")
            return torch.ones(tensors[0].shape, dtype=kwargs.get("dtype") or tensors[0].dtype)
        if name == "nonzero" and tensors[0].is_meta:
            self._wait(name)
            self.launches[self.regions[-1], name] += NONZERO
            return tensors[0].new_empty(0, tensors[0].dim(), dtype=torch.long)
        masks = [leaf for leaf in tree_leaves(args[1:2]) if isinstance(leaf, Tensor) and leaf.dtype == torch.bool]
        if name in ("index", "index_put_", "_index_put_impl_") and masks and masks[0].is_meta:
            self._wait(name)
            self.launches[self.regions[-1], name] += NONZERO + 1
            return args[0].flatten(0, masks[0].dim() - 1).clone() if name == "index" else args[0]
        result = func(*args, **kwargs)
        made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        if any(tensor.is_meta for tensor in [*tensors, *made]):
            self.launches[self.regions[-1], name] += self._launches_of(func, name, args, kwargs)
        return result

    def _wait(self, name: str) -> None:
        self.waits[self.regions[-1], name] += 1

    def _launches_of(self, func: Any, name: str, args: Any, kwargs: Any) -> int:
        is_view = any(item.alias_info is not None and not item.alias_info.is_write for item in func._schema.returns)
        if is_view or name in FREE or name.startswith("sym_"):
            return 0
        if name.startswith("_foreach"):
            return _launches_of_lists([leaf for leaf in args if isinstance(leaf, (list, tuple))]) + (
                2 if name == "_foreach_norm" else 0
            )
        if name in SUMMANDS:
            # The summand is copied into the result first, unless it is the result, or a bias (one row).
            return 1 if args[0].dim() == 1 or kwargs.get("out") is args[0] else 2
        return 2 if name in TWO else 1

    def table(self) -> str:
        """Launches and waits of each region."""
        lines = []
        for region in dict.fromkeys(region for region, _ in [*self.launches, *self.waits]):
            launches = Counter({of: n for (where, of), n in self.launches.items() if where == region and n})
            waits = {of: n for (where, of), n in self.waits.items() if where == region}
            parts = ", ".join(f"{n} {of}" for of, n in launches.most_common())
            lines.append(f"{launches.total():5} {sum(waits.values()):3}  {region}: {parts} {waits or ''}")
        return "\n".join([*lines, f"{self.launches.total():5} {self.waits.total():3}"])


def _launches_of_lists(lists: list[Any]) -> int:
    """The launches of an operator on lists of tensors, as multi_tensor_apply makes them."""
    lists = [items for items in lists if all(isinstance(item, Tensor) for item in items)]
    launches = blocks = tensors = 0
    for number, tensor in enumerate(lists[0]):
        tensors += 1
        chunks = -(-tensor.numel() // CHUNK)
        for chunk in range(chunks):
            blocks += 1
            is_last = chunk == chunks - 1
            full = tensors == TENSORS[len(lists) - 1] and is_last
            if full or blocks == BLOCKS or (is_last and number == len(lists[0]) - 1):
                launches += 1
                blocks, tensors = 0, 0 if is_last else 1
    return launches
