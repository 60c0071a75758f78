"""Process the pairs of a large corpus on all cores."""

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import chain, islice
from threading import Thread
from typing import TypeVar

from tqdm import tqdm

Item = TypeVar("Item")
Result = TypeVar("Result")

BLOCK = 2000  # pairs
MIN_BLOCKS = 10  # fewer are done here before other processes have started
PRELOADED = "rnnsearch_fairseq.corpus.prepare"  # the module is imported once, not by each process


def map_blocks(work: Callable[[list[Item]], Result], pairs: Iterable[Item], label: str) -> Iterator[Result]:
    """Yield ``work(block)`` of each block of pairs, in order. ``work`` runs in other processes if there are many pairs.

    A few blocks are read ahead, so the memory does not depend on the number of pairs.
    """
    with tqdm(pairs, label, unit=" pairs", disable=None, leave=False) as reading:
        remaining = iter(reading)
        blocks = iter(lambda: [*islice(remaining, BLOCK)], [])
        first = [*islice(blocks, MIN_BLOCKS)]
        if len(first) < MIN_BLOCKS:
            yield from map(work, first)
            return
        cores = len(os.sched_getaffinity(0))
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([PRELOADED])
        waiting: deque[Future[Result]] = deque()
        with ProcessPoolExecutor(cores, context, _follow_parent) as pool:
            for block in chain(first, blocks):
                waiting.append(pool.submit(work, block))
                if len(waiting) > 2 * cores:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()


def _follow_parent() -> None:
    """Leave Ctrl-C to the main process, and end when it ends, even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def follow() -> None:
        multiprocessing.parent_process().join()
        os._exit(1)

    Thread(target=follow, daemon=True).start()
