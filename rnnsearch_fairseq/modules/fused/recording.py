"""Loops on a GPU: the operations of a loop are recorded once for each shape of its tensors, and replayed by one call.

A loop over time has a thousand small operations. Python starts them one by one, and a GPU would wait for Python. A CUDA
graph holds the operations of a loop with the addresses of their tensors, and the GPU starts them itself.
"""

import functools
import logging
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

MAX_RECORDINGS = 512  # of all loops together; further shapes run as they are, uncompiled
MAX_SHARE = 1 / 8  # of a GPU's memory, for the buffers of the recordings
MAX_COMPILED = 64  # versions of a function, for batches of different shapes; PyTorch's limit is 8
Tensors = tuple[Tensor, ...]
Loop = Callable[..., Tensors]
_seen: set[Hashable] = set()
_recordings: dict[Hashable, Loop] = {}
_buffers: dict[Hashable, Tensor] = {}  # the recordings take turns, so that they share them
_lock = threading.Lock()
_compiles = ContextVar("compiles", default=False)
_uncompiled: set[Callable[..., Any]] = set()  # functions that could not be compiled


def recorded(loop: Loop) -> Loop:
    """A function that does what ``loop`` does. On a GPU, the operations are recorded when a shape comes for the second
    time, and replayed from then on.

    The arguments of ``loop`` are tensors and hashable values, and its results are a tuple of new tensors. It may
    overwrite its arguments. It must not read a value of a tensor on the host, nor use one as an index: before it is
    recorded, it runs once on arbitrary values. Recordings share memory: use them on one stream at a time.
    """

    @functools.wraps(loop)
    def run(*arguments: Any) -> Tensors:
        device = arguments[0].device
        if device.type not in RECORDERS or torch.is_inference_mode_enabled():  # a search has too many shapes
            return loop(*arguments)
        shapes = ((a.shape, a.dtype) if isinstance(a, Tensor) else a for a in arguments)
        key = (loop, device, torch.is_autocast_enabled(device.type), torch.get_autocast_dtype(device.type), *shapes)
        with _lock:
            if key not in _recordings and key in _seen and _has_room(device):
                _recordings[key] = _record(loop, arguments, device)
            _seen.add(key)
            return _recordings.get(key, loop)(*arguments)

    return run


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``; within :func:`compiling`, PyTorch compiles its many operations into one or two."""
    on_gpu = functools.cache(lambda: torch.compile(function))

    @functools.wraps(function)
    def run(*arguments: Any) -> Any:
        if function not in _uncompiled and _compiles.get():
            try:
                with torch._dynamo.config.patch(recompile_limit=MAX_COMPILED):
                    return on_gpu()(*arguments)
            except torch.OutOfMemoryError:
                raise
            except Exception as error:  # of many kinds, as without a C compiler
                _uncompiled.add(function)
                reason = str(error).partition("\n")[0]
                logger.warning(f"{function.__name__} cannot be compiled, so training is slower ({reason})")
        return function(*arguments)

    return run


def _has_room(device: torch.device) -> bool:
    held = sum(buffer.nbytes for buffer in _buffers.values())
    most = torch.cuda.get_device_properties(device).total_memory * MAX_SHARE if device.type == "cuda" else float("inf")
    return len(_recordings) < MAX_RECORDINGS and held < most


@contextmanager
def compiling(device: torch.device) -> Iterator[None]:
    """Compile the functions that are made by :func:`compiled`, if ``device`` is a GPU."""
    before = _compiles.set(device.type == "cuda")
    try:
        yield
    finally:
        _compiles.reset(before)


def _record(loop: Loop, arguments: Sequence[Any], device: torch.device) -> Loop:
    """A function that copies its arguments to where the recording reads them, replays it, and copies the results."""

    def work() -> list[Tensor]:
        results = loop(*fixed)
        buffers = [_buffer("result", k, result) for k, result in enumerate(results)]
        _copy(buffers, results)
        return buffers

    try:
        fixed = [_buffer("argument", k, a) if isinstance(a, Tensor) else a for k, a in enumerate(arguments)]
        replay, outputs = RECORDERS[device.type](work, device)
    except RuntimeError as error:
        logger.warning(f"{loop.__name__} cannot be recorded as a CUDA graph, so training is slower ({error})")
        return loop

    def rerun(*arguments: Any) -> Tensors:
        _copy(fixed, arguments)
        replay()
        results = tuple(map(torch.empty_like, outputs))
        _copy(results, outputs)
        return results

    return rerun


def _copy(targets: Sequence[Any], sources: Sequence[Any]) -> None:
    """Copy all tensors of ``sources``, the contiguous ones of a precision by one call."""
    together: dict[torch.dtype, list[tuple[Tensor, Tensor]]] = {}
    for target, source in zip(targets, sources):
        if isinstance(source, Tensor) and source.is_contiguous():
            together.setdefault(source.dtype, []).append((target, source))
        elif isinstance(source, Tensor):
            target.copy_(source)
    for pairs in together.values():
        torch._foreach_copy_(*map(list, zip(*pairs)))


def _buffer(role: str, place: int, like: Tensor) -> Tensor:
    key = (role, place, like.shape, like.dtype, like.device)
    if key not in _buffers:
        _buffers[key] = torch.empty(like.shape, dtype=like.dtype, device=like.device)
    return _buffers[key]


def _record_cuda_graph(
    work: Callable[[], list[Tensor]], device: torch.device
) -> tuple[Callable[[], Any], list[Tensor]]:
    """Record ``work``; return the function that does it, and its results."""
    stream, pool = _stream_and_pool(device)
    graph = torch.cuda.CUDAGraph()
    # If a recording fails, torch.cuda.graph leaves its stream the current one.
    with torch.cuda.device(device), torch.cuda.stream(torch.cuda.current_stream(device)), compiling(device):
        work()  # compiles its functions
        # Other threads may use the GPU meanwhile, such as one that loads batches.
        with torch.cuda.graph(graph, pool, stream, capture_error_mode="thread_local"):
            results = work()
    return graph.replay, results


@functools.cache
def _stream_and_pool(device: torch.device) -> tuple[Any, Any]:
    return torch.cuda.Stream(device), torch.cuda.graph_pool_handle()


RECORDERS = {"cuda": _record_cuda_graph}  # by the type of the device
