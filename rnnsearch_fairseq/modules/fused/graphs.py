"""CUDA graphs: work that a GPU repeats by one launch, without its Python code.

What is captured must read its inputs from tensors that stay where they are, and the host must not wait in it for a
result of the GPU. Each repetition writes its results into the tensors of the captured ones.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")


def warm_up(work: Callable[[], Result]) -> Result:
    """Do ``work`` once, on a stream of its own, as PyTorch asks for before a capture.

    Raises:
        RuntimeError: the host would wait for the GPU. A capture would fail, and break PyTorch's random numbers.
    """
    stream, mode = torch.cuda.Stream(), torch.cuda.get_sync_debug_mode()
    stream.wait_stream(torch.cuda.current_stream())
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.cuda.stream(stream):
            return work()
    finally:
        torch.cuda.set_sync_debug_mode(mode)
        torch.cuda.current_stream().wait_stream(stream)


def capture(work: Callable[[], Result], pool: Any = None) -> tuple[Result, Callable[[], None]]:
    """Capture ``work``, which is not done now: its results, whose numbers come with the replay, and the replay.

    Args:
        pool: of :func:`torch.cuda.graph_pool_handle`. Graphs with the same pool use the same memory in turns.
    """
    graph = torch.cuda.CUDAGraph()
    # A capture that fails would leave its own stream as the current one. Other threads may go on meanwhile, such as the
    # one that copies batches into page-locked memory.
    with (
        torch.cuda.stream(torch.cuda.current_stream()),
        torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"),
    ):
        result = work()
    return result, graph.replay
