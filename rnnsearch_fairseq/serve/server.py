"""The web application: the page's files and the APIs, within limits."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import JSONResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from rnnsearch_fairseq import __version__
from rnnsearch_fairseq.serve import api, libretranslate
from rnnsearch_fairseq.serve.messages import MAX_TRANSLATIONS, Model, first_error
from rnnsearch_fairseq.serve.scheduler import Scheduler
from rnnsearch_fairseq.serve.worker import Worker

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
MAX_BYTES = 256_000  # of a request


def make_app(worker: Worker, hosts: Sequence[str] = LOOPBACK) -> FastAPI:
    """Build the application, whose thread alone may use the worker; its parser is closed with the application.

    Args:
        hosts: accepted host names, which protects against DNS rebinding; "*" accepts any.
    """
    translator = worker.translator

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.scheduler = Scheduler(worker)
        try:
            yield
        finally:
            app.state.scheduler.close()
            if worker.parser is not None:
                worker.parser.close()

    app = FastAPI(title="rnnsearch serve", version=__version__, redoc_url=None, lifespan=lifespan)
    app.state.model = Model(
        source_lang=translator.languages[0],
        target_lang=translator.languages[1],
        beam=min(translator.options.beam, MAX_TRANSLATIONS),
        reads_trees=translator.reads_trees,
        examples=list(getattr(translator, "examples", ())),
        max_words=worker.max_words,
    )
    app.add_middleware(BodyLimit)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.add_exception_handler(RequestValidationError, _refuse_message)
    app.add_exception_handler(HTTPException, _refuse)
    app.include_router(api.router)
    app.include_router(libretranslate.router)
    app.mount("/", StaticFiles(directory=Path(__file__).with_name("page"), html=True))
    return app


async def _refuse_message(request: Request, error: RequestValidationError) -> JSONResponse:
    return JSONResponse({"error": first_error(error.errors(), skipped=1)}, 422)


async def _refuse(request: Request, error: HTTPException) -> JSONResponse:
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


class BodyLimit:
    """Middleware that refuses a large request before it is read: one whose length is too great, or is not given."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        app, headers = self._app, Headers(scope=scope) if scope["type"] == "http" else {}
        if "transfer-encoding" in headers:
            app = JSONResponse({"error": "send the request in one piece, with its Content-Length"}, 411)
        elif int(headers.get("content-length", 0)) > MAX_BYTES:
            reason = f"the request has more than {MAX_BYTES:,} bytes; send fewer sentences"
            app = JSONResponse({"error": reason}, 413)
        await app(scope, receive, send)
