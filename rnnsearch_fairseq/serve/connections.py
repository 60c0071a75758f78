"""uvicorn's server with bounds on connections: their number, their duration, and one request in each.

uvicorn never closes a new connection that sends nothing, or half of a request. Here of too many connections the oldest
is closed, so that idle ones lock nobody out.
"""

import asyncio
import socket
from collections.abc import Sequence

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 400  # with those that are just being accepted and closed, fewer than the usual 1,024 descriptors
BACKLOG = 64
MAX_SECONDS = 60.0  # of a connection: 10 to send its request, 30 to wait for translations, 20 to read the answer
SECONDS_TO_STOP = 2.0

_open: dict["Connection", asyncio.Transport] = {}  # oldest first


class Connection(H11Protocol):
    """A connection, which is closed after its first answer, after MAX_SECONDS, or as the oldest of too many."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start the connection's time, and close the oldest one if there are too many."""
        super().connection_made(transport)
        if len(_open) >= MAX_CONNECTIONS:
            _open.pop(next(iter(_open))).abort()
        _open[self] = transport
        self._timer = asyncio.get_running_loop().call_later(MAX_SECONDS, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the connection's time."""
        super().connection_lost(exc)
        self._timer.cancel()
        _open.pop(self, None)


class Server(uvicorn.Server):
    """A server of such connections. At its end, requests have SECONDS_TO_STOP to be answered."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection,
                ws="none",
                backlog=BACKLOG,
                headers=[("Connection", "close"), ("Cache-Control", "no-cache"), ("X-Content-Type-Options", "nosniff")],
                log_level="error",
                access_log=False,
                server_header=False,
            )
        )

    async def shutdown(self, sockets: Sequence[socket.socket] | None = None) -> None:
        """End when all requests are answered, or their connections closed."""
        asyncio.get_running_loop().call_later(SECONDS_TO_STOP, _close_all)
        await super().shutdown(sockets)


def _close_all() -> None:
    for transport in _open.values():
        transport.abort()
