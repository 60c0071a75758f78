"""The processes that read the data (``--num-workers``)."""

import functools
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from torch.utils.data import get_worker_info


class CollateInWorker:
    """A data set's ``collater``; a worker that calls it hears SIGTERM from its parent only.

    Schedulers and ``timeout`` send SIGTERM to all processes, but the update under way, or its validation, needs the
    workers; see ``patches/recovery/stopping.py``.
    """

    def __init__(self, collate: Callable[[list[Any]], Any]) -> None:
        self.collate = collate

    def __call__(self, samples: list[Any]) -> Any:
        if get_worker_info() is not None:
            _hear_only_the_parent()
        return self.collate(samples)


@functools.cache
def _hear_only_the_parent() -> None:
    if not hasattr(signal, "sigwaitinfo"):  # on macOS
        return
    parent = os.getppid()

    def wait_for_the_parents() -> None:
        while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
            pass
        os._exit(0)

    # Threads that start later inherit the mask.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=wait_for_the_parents, daemon=True).start()
