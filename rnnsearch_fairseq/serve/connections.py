"""Limits on the number and duration of connections, beside those of uvicorn.

uvicorn never closes a new connection that sends nothing, or half of a request; and when there are too many connections,
it refuses every request. So here a request must be complete within SECONDS_TO_ASK, and of too many connections the one
that has waited longest for its request is closed.
"""

import asyncio
import resource
import socket
from collections.abc import Callable, Sequence
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS_TO_ASK = 10.0
SECONDS_TO_ANSWER = 50.0  # 30 s to translate, 20 s to send the answer
SECONDS_TO_STOP = 5
MOST_CONNECTIONS = 2048


class Connection(H11Protocol):
    """A connection that waits for a request, or for its answer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.limit_concurrency = None  # at this limit, uvicorn would refuse every request
        self._since = self.loop.time()

    @property
    def waits(self) -> bool:
        """Whether it waits for a request, or for the rest of one."""
        answering = self.cycle is not None and not (self.cycle.more_body or self.cycle.response_complete)
        return not answering and self.transport.get_write_buffer_size() == 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Close another connection, if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.config.limit_concurrency:
            min(self.connections, key=lambda each: (not each.waits, each._since)).drop()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, or drop the connection if the answer has begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.drop()

    def shutdown(self) -> None:
        """Answer a complete request, but wait for no other."""
        if self.waits:
            self.drop()
        else:
            super().shutdown()

    def drop_if_late(self) -> None:
        """Close the connection if its client or its answer takes too long."""
        if self.loop.time() - self._since >= SECONDS_TO_ASK + (0 if self.waits else SECONDS_TO_ANSWER):
            self.drop()

    def drop(self) -> None:
        """Close the connection without an answer."""
        self.connections.discard(self)  # stop counting it now; uvicorn would only in a later turn of the loop
        self.transport.abort()


class Server(uvicorn.Server):
    """A server that drops late connections, and calls ``stop`` if it is to end while requests are answered.

    Half of the file descriptors that the process may open are for connections. A quarter is for new connections that
    wait for an old one to be closed: asyncio accepts up to ``backlog`` connections in each turn of its loop, and
    closing takes four turns. The last quarter is for files.
    """

    def __init__(self, app: ASGIApp, stop: Callable[[], None]) -> None:
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = MOST_CONNECTIONS if descriptors == resource.RLIM_INFINITY else min(descriptors // 2, MOST_CONNECTIONS)
        config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            limit_concurrency=most,
            backlog=most // 8,
            log_level="error",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=SECONDS_TO_STOP,
        )
        super().__init__(config)
        self._stop = stop

    async def on_tick(self, counter: int) -> bool:
        """Look at the connections once a second; uvicorn calls this ten times."""
        if counter % 10 == 0:
            for connection in list(self.server_state.connections):
                connection.drop_if_late()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: Sequence[socket.socket] | None = None) -> None:
        """Let requests be answered for a while, then stop them."""
        asyncio.get_running_loop().call_later(SECONDS_TO_STOP / 2, self._stop)
        await super().shutdown(sockets)
