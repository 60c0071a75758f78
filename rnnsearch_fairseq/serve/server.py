"""The web application: the page's files and the JSON API; needs starlette."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rnnsearch_fairseq.inference import translator as inference
from rnnsearch_fairseq.serve.batching import BUSY, LATE, Batcher, Busy
from rnnsearch_fairseq.serve.schema import openapi
from rnnsearch_fairseq.serve.translator import Job, Limits, Translator
from rnnsearch_fairseq.text.link_grammar import LinkParser

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
SECONDS_TO_READ = 10.0
DRAIN_FACTOR = 4  # a request is read up to this many times its limit before the connection is closed
TRY_AGAIN = {"Retry-After": "1"}
CLOSED = "the connection was closed"
OTHER_HOST = "the request is for another host; ask for localhost or the address that the server listens on"
POLICY = "; ".join(
    [
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "img", "connect")),
        *(f"{what} 'none'" for what in ("base-uri", "form-action", "frame-ancestors")),
    ]
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
Answers = asyncio.Future[list[bytes | BaseException]]
FIELDS = {"sentences", "trees", "parse", "nbest", "alignment"}


def make_app(
    hub: inference.Translator,
    limits: Limits | None = None,
    hosts: Sequence[str] = LOOPBACK,
    examples: Sequence[str] = (),
    parser: LinkParser | None = None,
) -> Starlette:
    """Build the application, with a thread that translates and ends with the application.

    Args:
        hub: the model; only the application may use it.
        hosts: accepted host names, which protects against DNS rebinding; "*" accepts any.
        examples: sentences that the page offers to try.
        parser: parses sentences for a model that reads trees; it is closed with the application.
    """
    limits = limits or Limits()
    beam = hub.options.beam
    model = {
        "source_lang": hub.languages[0],
        "target_lang": hub.languages[1],
        "beam": beam,
        "reads_trees": hub.reads_trees,
        "parses": parser is not None,
        "examples": list(examples),
        "limits": {name: getattr(limits, name) for name in ("characters", "words", "sentences", "bytes", "seconds")},
    }
    api = _Api(hub, limits, parser)
    # A mount of its own, because the page's mount would answer other methods at these addresses by "not found".
    calls = [
        Route("/translate", api.translate, methods=["POST"]),
        Route("/translate/stream", api.stream, methods=["POST"]),
        Route("/model", JSONResponse(model), methods=["GET"]),
    ]
    routes = [
        Mount("/api", routes=calls),
        Route("/openapi.json", JSONResponse(openapi(beam, limits)), methods=["GET"]),
        Mount("/", StaticFiles(directory=Path(__file__).with_name("page"), html=True)),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(_Guard, hosts)],
        exception_handlers={HTTPException: _refuse, Exception: _fail},
        lifespan=api.lifespan,
    )


class _Guard:
    """Middleware that refuses requests to other hosts than ``hosts``, and adds HEADERS to every response."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self._app, self._hosts = app, hosts
        self._headers = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self._headers]
            await send(message)

        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        host = re.sub(r":\d+$", "", Headers(scope=scope).get("host", "").lower())
        accepted = "*" in self._hosts or host in self._hosts
        app = self._app if accepted else JSONResponse({"error": OTHER_HOST}, 400)
        await app(scope, receive, send_with_headers)


def busy_response() -> Response:
    """The response to a request that the server is too busy for."""
    return JSONResponse({"error": BUSY}, 503, HEADERS | TRY_AGAIN)


async def _refuse(request: Request, error: HTTPException) -> Response:
    reason = error.detail
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "GET")
        reason = f"the request's method is {request.method}; send {allowed}, as /openapi.json describes"
    return JSONResponse({"error": reason}, error.status_code, error.headers)


async def _fail(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "the server failed; its log has the error"}, 500, HEADERS)


class _Api:
    def __init__(self, hub: inference.Translator, limits: Limits, parser: LinkParser | None) -> None:
        self._limits = limits
        self._beam = hub.options.beam
        self._parser = parser
        self._translator = Translator(hub, limits, parser)
        self._held = 0  # bytes of requests that are being read

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Run the translating thread."""
        self._batcher: Batcher[Job, bytes] = Batcher(self._translator, self._limits.at_once, self._limits.waiting)
        try:
            yield
        finally:
            self._batcher.close()
            if self._parser is not None:
                self._parser.close()

    async def translate(self, request: Request) -> Response:
        """Answer when all sentences are translated."""
        jobs = await self._read(request)
        with self._submitted(jobs) as answers:
            left = asyncio.ensure_future(request.receive())  # after the body comes the end of the connection
            try:
                await asyncio.wait([answers, left], timeout=self._limits.seconds, return_when=asyncio.FIRST_COMPLETED)
            finally:
                left.cancel()
            if answers.done():
                return Response(_line(answers.result()), media_type="application/json")
            if left.done():
                raise HTTPException(400, CLOSED)
            raise HTTPException(503, LATE, TRY_AGAIN)

    async def stream(self, request: Request) -> ASGIApp:
        """Answer in JSON lines: unfinished translations, then as `translate`."""
        jobs = await self._read(request)
        partials = _PartialTexts(jobs)

        async def respond(scope: Scope, receive: Receive, send: Send) -> None:
            with self._submitted(jobs) as answers:
                lines = self._lines(answers, partials)
                await StreamingResponse(lines, media_type="application/x-ndjson")(scope, receive, send)

        return respond

    async def _lines(self, answers: Answers, partials: "_PartialTexts") -> AsyncIterator[bytes]:
        ends = asyncio.get_running_loop().time() + self._limits.seconds
        async for partial in partials.until(answers, ends):
            yield partial
        yield _line(answers.result()) if answers.done() else json.dumps({"error": LATE}).encode() + b"\n"

    async def _read(self, request: Request) -> list[Job]:
        """Read the sentences of a request.

        Raises:
            HTTPException: the server is too busy, or the request is refused.
        """
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "the request's Content-Type is not application/json; send JSON")
        body = bytearray()
        try:
            await asyncio.wait_for(self._read_into(body, request), SECONDS_TO_READ)
            return _jobs(json.loads(body), self._beam, self._limits, self._parser is not None)
        except asyncio.TimeoutError:
            raise HTTPException(408, "the request came too slowly; send it again", {"Connection": "close"}) from None
        except ClientDisconnect:
            raise HTTPException(400, CLOSED) from None
        except (ValueError, RecursionError):
            raise HTTPException(400, "the request is not JSON in UTF-8; send an object") from None
        finally:
            self._held -= len(body)

    async def _read_into(self, body: bytearray, request: Request) -> None:
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > DRAIN_FACTOR * self._limits.bytes:
                break
            if size <= self._limits.bytes:  # the rest is read, too: a client reads no answer while it sends
                if self._held + len(chunk) > self._limits.all_bytes:
                    raise HTTPException(503, BUSY, TRY_AGAIN)
                body += chunk
                self._held += len(chunk)
        if size > self._limits.bytes:
            message = f"the request has more than {self._limits.bytes:,} bytes; send fewer sentences"
            raise HTTPException(413, message, {"Connection": "close"})

    @contextlib.contextmanager
    def _submitted(self, jobs: Sequence[Job]) -> Iterator[Answers]:
        """Queue ``jobs`` and yield their answers; jobs unfinished at the end of the block are abandoned.

        Raises:
            HTTPException: the queue is full.
        """
        try:
            futures = self._batcher.submit(jobs)
        except Busy:
            raise HTTPException(503, BUSY, TRY_AGAIN) from None
        try:
            yield asyncio.gather(*map(asyncio.wrap_future, futures), return_exceptions=True)
        finally:
            for job, future in zip(jobs, futures):
                job.abandoned = True
                future.cancel()


class _PartialTexts:
    """The latest unfinished translation of each job, from the translating thread; older ones are dropped."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._loop = asyncio.get_running_loop()
        self._latest: dict[int, str] = {}
        self._news = asyncio.Event()
        for job in jobs:
            job.on_partial = self._receiver(job.number - 1)

    def _receiver(self, place: int) -> Callable[[str], None]:
        def show(text: str) -> None:
            self._latest[place] = text
            self._news.set()

        def receive(text: str) -> None:
            with contextlib.suppress(RuntimeError):  # the server has stopped
                self._loop.call_soon_threadsafe(show, text)

        return receive

    async def until(self, done: Answers, ends: float) -> AsyncIterator[bytes]:
        """Yield unfinished translations as JSON lines until ``done``, or until the loop's time is ``ends``."""
        done.add_done_callback(lambda _: self._news.set())
        while not done.done() and (left := ends - self._loop.time()) > 0:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), left)
            self._news.clear()
            latest, self._latest = self._latest, {}
            for place, text in latest.items():
                yield json.dumps({"sentence": place, "text": text}).encode() + b"\n"


def _line(results: Sequence[bytes | BaseException]) -> bytes:
    """Join the results of all jobs, JSON or exceptions, into the answer."""
    answers = [
        json.dumps({"error": _reason(result, number)}).encode() if isinstance(result, BaseException) else result
        for number, result in enumerate(results, 1)
    ]
    return b'{"sentences": [' + b", ".join(answers) + b"]}\n"


def _reason(error: BaseException, number: int) -> str:
    if isinstance(error, asyncio.CancelledError):
        return f"sentence {number} was cancelled; send it again"
    return f"sentence {number} cannot be translated: the server failed ({type(error).__name__})"


def _jobs(request: Any, beam: int, limits: Limits, parses: bool) -> list[Job]:
    """Check a request's JSON and return its sentences.

    Raises:
        HTTPException: it is not the ``Request`` of `openapi`.
    """
    if not isinstance(request, dict):
        raise HTTPException(400, 'the request is not an object; send {"sentences": ["..."]}')
    if unknown := sorted(request.keys() - FIELDS):
        raise HTTPException(400, f"the request has the unknown field {_quoted(unknown[0])}; leave it out")
    sentences, nbest, align = request.get("sentences"), request.get("nbest", 1), request.get("alignment", True)
    if not isinstance(sentences, list) or not all(isinstance(sentence, str) for sentence in sentences):
        raise HTTPException(400, '"sentences" is not a list of strings; send {"sentences": ["..."]}')
    if not 1 <= len(sentences) <= limits.sentences:
        raise HTTPException(400, f"there are {len(sentences)} sentences; send 1 to {limits.sentences} at a time")
    trees = [None] * len(sentences) if request.get("trees") is None else request["trees"]
    if not isinstance(trees, list) or not all(tree is None or isinstance(tree, str) for tree in trees):
        raise HTTPException(400, '"trees" is not a list of strings and nulls; send one for each sentence')
    if len(trees) != len(sentences):
        raise HTTPException(400, f"there are {len(sentences)} sentences and {len(trees)} trees; send one for each")
    if type(nbest) is not int or not 1 <= nbest <= beam:
        raise HTTPException(400, f'"nbest" is not a number from 1 to {beam}, the width of the beam; send one')
    parse = request.get("parse", False)
    for name, value in (("alignment", align), ("parse", parse)):
        if not isinstance(value, bool):
            raise HTTPException(400, f'"{name}" is neither true nor false; send one of them')
    if parse and not parses:
        raise HTTPException(400, '"parse" is true, but this server parses no sentences; leave it out')
    options = {"parse": parse, "nbest": nbest, "align": align}
    return [Job.of(limits, number, *pair, **options) for number, pair in enumerate(zip(sentences, trees), 1)]


def _quoted(text: str) -> str:
    return json.dumps(text if len(text) <= 40 else text[:40] + "…")
