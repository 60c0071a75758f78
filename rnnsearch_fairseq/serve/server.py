"""The web application, its limits, and uvicorn's server for it."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import ClassVar

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import JSONResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.serve import api, libretranslate
from rnnsearch_fairseq.serve.messages import MAX_TRANSLATIONS, Model
from rnnsearch_fairseq.serve.scheduler import Scheduler
from rnnsearch_fairseq.serve.worker import MAX_WORDS, Worker
from rnnsearch_fairseq.version import __version__

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
MAX_BYTES = 256_000  # of a request
MAX_CONNECTIONS = 400  # with those that are just being accepted and closed, fewer than the usual 1,024 descriptors
BACKLOG = 64
SECONDS_TO_STOP = 2.0
HEADERS = [("Connection", "close"), ("Cache-Control", "no-cache"), ("X-Content-Type-Options", "nosniff")]


def make_app(worker: Worker, hosts: Sequence[str] = LOOPBACK) -> FastAPI:
    """Build the application, whose thread alone may use the worker.

    To accept only ``hosts`` as host names protects against DNS rebinding; "*" accepts any.
    """
    translator = worker.translator

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.scheduler = Scheduler(worker)
        task = asyncio.create_task(app.state.scheduler.run())
        yield
        task.cancel()
        await asyncio.wait([task])

    app = FastAPI(title="rnnsearch serve", version=__version__, redoc_url=None, lifespan=lifespan)
    app.state.model = Model(
        source_lang=translator.languages[0],
        target_lang=translator.languages[1],
        beam=min(translator.options.beam, MAX_TRANSLATIONS),
        reads_trees=translator.reads_trees,
        about=" ".join(translator.description.partition("\n\n")[0].split()),
        examples=translator.examples,
        max_words=MAX_WORDS,
    )
    app.add_middleware(limit_body)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    for kind in (RequestValidationError, ValidationError, HTTPException):
        app.add_exception_handler(kind, _refuse)
    app.include_router(api.router)
    app.include_router(libretranslate.router)
    app.mount("/", StaticFiles(directory=Path(__file__).with_name("page"), html=True))
    return app


async def _refuse(request: Request, error: RequestValidationError | ValidationError | HTTPException) -> JSONResponse:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    first = error.errors()[0]
    place = ".".join(str(name) for name in first["loc"] if name != "body")
    reason = f"{place}: {first['msg'].removeprefix('Value error, ')}".removeprefix(": ")
    return JSONResponse({"error": str(InputError(reason))}, 400)


def limit_body(app: ASGIApp) -> ASGIApp:
    """Refuse what no route should see: a request whose length is too great or not given, and a file as a folder."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        headers, answering = Headers(scope=scope) if scope["type"] == "http" else {}, app
        if "transfer-encoding" in headers:
            answering = JSONResponse({"error": "send the request in one piece, with its Content-Length"}, 411)
        elif int(headers.get("content-length", 0)) > MAX_BYTES:
            reason = f"the request has more than {MAX_BYTES:,} bytes; send fewer sentences"
            answering = JSONResponse({"error": reason}, 413)
        elif headers and scope["path"].endswith("/") and scope["path"] != "/":  # files are no folders
            answering = JSONResponse({"error": "not found"}, 404)
        await answering(scope, receive, send)

    return answer


class Connection(H11Protocol):
    """A connection, which is closed after its first answer, or as the oldest of too many.

    uvicorn never closes one that sends nothing, or half of a request; so idle ones would lock everybody out.
    """

    _open: ClassVar[OrderedDict["Connection", None]] = OrderedDict()  # oldest first

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        if len(self._open) >= MAX_CONNECTIONS:
            self._open.popitem(last=False)[0].transport.abort()
        self._open[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._open.pop(self, None)

    def shutdown(self) -> None:
        """At the server's end, answer a request within SECONDS_TO_STOP."""
        super().shutdown()
        self.loop.call_later(SECONDS_TO_STOP, self.transport.abort)


def make_server(app: FastAPI) -> uvicorn.Server:
    """uvicorn's server of such connections."""
    options = {"log_level": "error", "access_log": False, "server_header": False, "ws": "none"}
    return uvicorn.Server(uvicorn.Config(app, http=Connection, backlog=BACKLOG, headers=HEADERS, **options))
