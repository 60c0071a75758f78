"""The web application: the page's files and the JSON API."""

import contextlib
import re
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rnnsearch_fairseq import __version__
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.serve.messages import MOST_TRANSLATIONS, Answer, Model, Partial, Problem, TranslationRequest
from rnnsearch_fairseq.serve.turns import Pending, Turns
from rnnsearch_fairseq.serve.worker import Worker

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
BUSY = "the server is busy; please try again in a moment"
STOPPING = "the server is stopping; please try again later"
OTHER_HOST = "the request is for another host; ask for localhost or the address that the server listens on"
TRY_AGAIN = {"Retry-After": "1"}
MOST_BYTES = 1 << 20  # of a request
MOST_BYTES_TOGETHER = 64 << 20  # of all requests that are read and answered
POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# FastAPI's page of the API loads Swagger UI.
SWAGGER = f"{POLICY}; img-src data: https://fastapi.tiangolo.com" + "".join(
    f"; {kind}-src 'unsafe-inline' https://cdn.jsdelivr.net" for kind in ("script", "style")
)
HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
REFUSALS: dict[int | str, dict[str, Any]] = {
    413: {"model": Problem, "description": f"The request has more than {MOST_BYTES:,} bytes"},
    422: {"model": Problem, "description": "The request differs from this description"},
    503: {"model": Problem, "description": "Busy, or out of time: try again after the seconds in Retry-After"},
}
api = APIRouter(prefix="/api")


async def in_translation(message: TranslationRequest, request: Request) -> AsyncIterator[Pending]:
    """Let the sentences of a request wait for their turns; they are abandoned when the request ends."""
    state = request.app.state
    pending = Pending(message, state.model.limits.seconds)
    if not state.turns.submit(pending):
        raise HTTPException(503, BUSY, TRY_AGAIN)
    state.pending.add(pending)
    try:
        yield pending
    finally:
        pending.abandoned = True
        state.pending.discard(pending)


InTranslation = Annotated[Pending, Depends(in_translation)]


@api.get("/model")
async def describe_model(request: Request) -> Model:
    """The model and its limits."""
    return request.app.state.model


@api.post("/translate", responses=REFUSALS)
async def translate(pending: InTranslation, request: Request) -> Answer:
    """Each sentence gets a translation, or an error with its number, from 1."""
    async for _ in pending.progress():
        if await request.is_disconnected():
            pending.stop("the connection was closed")
    if isinstance(pending.outcome, Problem):
        raise HTTPException(503, pending.outcome.detail, TRY_AGAIN)
    return pending.outcome


@api.post("/translate/stream", responses=REFUSALS)
async def stream(pending: InTranslation) -> AsyncIterable[Partial | Answer | Problem]:
    """Unfinished translations, then the answer or an error, as JSON lines."""
    async for partials in pending.progress():
        for partial in partials:
            yield partial
    yield pending.outcome


def make_app(worker: Worker, hosts: Sequence[str] = LOOPBACK, examples: Sequence[str] = ()) -> FastAPI:
    """Build the application, whose thread alone may use the worker; its parser is closed with the application.

    Args:
        hosts: accepted host names, which protects against DNS rebinding; "*" accepts any.
        examples: sentences that the page offers to try.
    """
    translator = worker.translator

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.turns = Turns(worker, worker.limits.waiting)
        try:
            yield
        finally:
            stop(app)
            app.state.turns.close()
            if worker.parser is not None:
                worker.parser.close()

    app = FastAPI(title="rnnsearch serve", version=__version__, redoc_url=None, lifespan=lifespan)
    app.state.pending = set()
    app.state.model = Model(
        source_lang=translator.languages[0],
        target_lang=translator.languages[1],
        beam=min(translator.options.beam, MOST_TRANSLATIONS),
        reads_trees=translator.reads_trees,
        parses=worker.parser is not None,
        examples=list(examples),
        limits=worker.limits,
    )
    app.add_middleware(Guard, hosts=hosts)
    app.add_exception_handler(RequestValidationError, refuse)
    app.include_router(api)
    app.mount("/", StaticFiles(directory=Path(__file__).with_name("page"), html=True))
    return app


def stop(app: FastAPI) -> None:
    """Answer every request that the server is stopping."""
    for pending in app.state.pending:
        pending.stop(STOPPING)


async def refuse(request: Request, error: RequestValidationError) -> JSONResponse:
    """Answer a request of another form in one sentence, which does not repeat the request."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"][1:]))
    reason = first["msg"].removeprefix("Value error, ")
    return JSONResponse({"detail": str(InputError(f"{place}: {reason}" if place else reason))}, 422)


class Guard:
    """Middleware that bounds what is read of requests, refuses other hosts, and adds headers to every response."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app, self._hosts = app, hosts
        self._bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        size = 0

        async def receive_bounded() -> Message:
            nonlocal size
            message = await receive()
            length = len(message.get("body", b""))
            size, self._bytes = size + length, self._bytes + length
            if size > MOST_BYTES:
                raise HTTPException(413, f"the request has more than {MOST_BYTES:,} bytes; send fewer sentences")
            if self._bytes > MOST_BYTES_TOGETHER:
                raise HTTPException(503, BUSY, TRY_AGAIN)
            return message

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                policy = SWAGGER if scope["path"] == "/docs" else POLICY
                MutableHeaders(scope=message).update({**HEADERS, "Content-Security-Policy": policy})
            await send(message)

        try:
            await (self._refusal(Headers(scope=scope)) or self._app)(scope, receive_bounded, send_with_headers)
        finally:
            self._bytes -= size

    def _refusal(self, headers: Headers) -> JSONResponse | None:
        host = re.sub(r":\d+$", "", headers.get("host", "").lower())
        if "*" not in self._hosts and host not in self._hosts:
            return JSONResponse({"detail": OTHER_HOST}, 400)
        if "transfer-encoding" in headers and "content-length" in headers:
            reason = "the request has both Transfer-Encoding and Content-Length; send one of them"
            return JSONResponse({"detail": reason}, 400, {"Connection": "close"})
        return None
