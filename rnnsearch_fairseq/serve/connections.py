"""Limits on the number and duration of the server's connections; needs uvicorn and h11.

Plain uvicorn never closes a connection that sends nothing, and accepts connections until the process runs out of file
descriptors.
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
SECONDS_TO_ANSWER = SECONDS_TO_READ + Limits.seconds + 20  # 20 s to send the answer
SECONDS_TO_STOP = 5
SECONDS_BETWEEN_MESSAGES = 60.0
MOST_DESCRIPTORS = 4096
REFUSALS = {431: "the request's header is too long; send a shorter one"}
NO_HTTP = "the request is not valid HTTP/1.1; send one that is"


def make_config(app: ASGIApp) -> uvicorn.Config:
    """Build uvicorn's configuration for ``app``.

    Half of the process's file descriptors are for connections. A quarter is for new connections that wait for an old
    one to be closed: asyncio accepts up to ``backlog`` connections in each turn of its loop, and closing takes four
    turns. The last quarter is for files.
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
    """A connection with time limits.

    - The header of a request must be complete within ``SECONDS_TO_ASK`` of the connection or of the last answer. The
      rest of the request and the transfer of the answer may then take ``SECONDS_TO_ANSWER``.
    - When there are more connections than uvicorn's ``limit_concurrency``, the one that has been idle longest is
      closed. At most half as many requests are answered at a time, so that an idle one always exists; further requests
      are refused with status 503.
    - Refusals are in JSON.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._most = self.config.limit_concurrency
        self.limit_concurrency = None  # at its own limit, uvicorn would refuse every request

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Close the connection that has been idle longest, if there are too many."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(SECONDS_TO_ASK, self._end_of_asking)
        self._waits_since = self.loop.time()
        if len(self.connections) > self._most:
            waiting = [connection for connection in self.connections if not connection._is_answering()]
            min(waiting, key=lambda connection: connection._waits_since)._drop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        super().connection_lost(exc)
        self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Refuse requests while too many are being answered."""
        self.app = self.config.loaded_app if len(self.tasks) < self._most // 2 else busy_response()
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._timer.cancel()
        self._timer = self.loop.call_later(SECONDS_TO_ASK, self._end_of_asking)
        self._waits_since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse invalid HTTP; uvicorn calls this while it handles h11's error, which has the status."""
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
        self.connections.discard(self)  # stop counting it now; uvicorn would only in a later turn of the loop
        self.transport.abort()


class RateLimit(logging.Filter):
    """Pass messages with the same first line at most once in ``SECONDS_BETWEEN_MESSAGES``.

    Without a free file descriptor, asyncio logs the same error about a thousand times a second.
    """

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log ``record``."""
        message, now = record.getMessage().partition("\n")[0], time.monotonic()
        if message in self._passed and now - self._passed[message] < SECONDS_BETWEEN_MESSAGES:
            return False
        self._passed[message] = now
        return True
