"""How many connections the server keeps open, and for how long. It needs uvicorn and h11.

uvicorn alone keeps a connection that sends nothing open for ever, and accepts connections until the process has no
file descriptor left.
"""

import asyncio
import logging
import resource
import sys
import time
from typing import Any

import h11
import uvicorn
from starlette.responses import JSONResponse
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from rnnsearch_fairseq.serve.server import HEADERS, SECONDS_TO_READ, busy_response
from rnnsearch_fairseq.serve.translator import Limits

SECONDS_TO_ASK = 10.0
SECONDS_TO_ANSWER = SECONDS_TO_READ + Limits.seconds + 20  # the last is for sending the answer
SECONDS_TO_STOP = 5
SECONDS_BETWEEN_MESSAGES = 60.0
MOST_DESCRIPTORS = 4096
REFUSALS = {431: "the request's header is too long; send a shorter one"}
NO_HTTP = "the request is not valid HTTP/1.1; send one that is"


def make_config(app: ASGIApp) -> uvicorn.Config:
    """uvicorn's configuration for ``app``.

    Half of the descriptors that the process may have are for connections. A quarter is for connections that are
    accepted before room is made for them: asyncio accepts up to ``backlog`` connections in each turn of its loop, and
    four turns pass until a connection in the way is closed. The last quarter is for files.
    """
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors == resource.RLIM_INFINITY or descriptors > MOST_DESCRIPTORS:
        descriptors = MOST_DESCRIPTORS
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        limit_concurrency=descriptors // 2,
        backlog=descriptors // 16,
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=SECONDS_TO_STOP,
    )


class Connection(H11Protocol):
    """A connection whose requests and answers must come in time.

    - The header of a request must be complete ``SECONDS_TO_ASK`` after the connection or after the last answer. The
      rest of the request, and the answer until the client has taken it, may then take ``SECONDS_TO_ANSWER``.
    - When there are more connections than uvicorn's ``limit_concurrency``, the one that has waited longest for a
      request is closed. Half as many requests are answered at a time, so that there is always one to close; more
      requests are refused by 503.
    - What is refused here is refused in JSON.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._most = self.config.limit_concurrency
        self.limit_concurrency = None  # uvicorn would refuse every request while there are so many connections

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Make room for it, if there are too many."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(SECONDS_TO_ASK, self._end_of_asking)
        self._waits_since = self.loop.time()
        if len(self.connections) > self._most:
            waiting = [connection for connection in self.connections if not connection._is_answering()]
            min(waiting, key=lambda connection: connection._waits_since)._drop()

    def connection_lost(self, exc: Exception | None) -> None:
        """As in uvicorn."""
        super().connection_lost(exc)
        self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """As in uvicorn."""
        self.app = self.config.loaded_app if len(self.tasks) < self._most // 2 else busy_response()
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._timer.cancel()
        self._timer = self.loop.call_later(SECONDS_TO_ASK, self._end_of_asking)
        self._waits_since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP; called while h11's error is handled, which knows the status."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # the answer has begun
            self._drop()
            return
        status = getattr(sys.exc_info()[1], "error_status_hint", 400)
        refusal = JSONResponse({"error": REFUSALS.get(status, NO_HTTP)}, status, {**HEADERS, "Connection": "close"})
        head = h11.Response(status_code=status, headers=refusal.raw_headers)
        for event in (head, h11.Data(data=refusal.body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event))
        self.transport.close()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _end_of_asking(self) -> None:
        if self._is_answering() or self.transport.get_write_buffer_size() > 0:
            self._timer = self.loop.call_later(SECONDS_TO_ANSWER, self._drop)
        else:
            self._drop()

    def _drop(self) -> None:
        self.connections.discard(self)  # it is to be counted no longer; uvicorn hears of its end in a later turn
        self.transport.abort()


class Seldom(logging.Filter):
    """Passes a message, told from others by its first line, once in ``SECONDS_BETWEEN_MESSAGES``.

    Without a descriptor left, asyncio logs that it cannot accept a connection some thousand times a second.
    """

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether ``record`` is to be logged."""
        message, now = record.getMessage().partition("\n")[0], time.monotonic()
        if message in self._passed and now - self._passed[message] < SECONDS_BETWEEN_MESSAGES:
            return False
        self._passed[message] = now
        return True
