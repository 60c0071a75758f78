"""Serve a translation page, a JSON API and LibreTranslate's API.

The page shows a translation, its alignment, and the other translations in the beam. Only this machine can reach the
server, unless --host says otherwise. It has no log-in: let other machines in only through a proxy that has one. The
README of rnnsearch_fairseq/serve says more.

  rnnsearch serve --model checkpoints
"""

import asyncio
import contextlib
import ipaddress
import logging
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import JSONResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from rnnsearch_fairseq.command_line import make_parser
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.options import add_model_options, add_search_options, load_with_replacements
from rnnsearch_fairseq.serve import libretranslate
from rnnsearch_fairseq.serve.messages import MAX_BYTES, MAX_TRANSLATIONS, Answer, Model, Problem, TranslationRequest
from rnnsearch_fairseq.serve.worker import Worker, answer
from rnnsearch_fairseq.version import __version__

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
MAX_CONNECTIONS = 400  # with those that are just being accepted and closed, fewer than the usual 1,024 descriptors
BACKLOG = 64
SECONDS_BETWEEN_LINES = 0.5  # to a client that has closed its side
SECONDS_TO_STOP = 2.0
HEADERS = [("Connection", "close"), ("Cache-Control", "no-cache"), ("X-Content-Type-Options", "nosniff")]
REFUSAL = {"model": Problem, "description": "Why the request is refused; 503: busy, please try again in a moment"}
router = APIRouter(prefix="/api", responses={"default": REFUSAL})


@router.get("/model")
async def describe_model(request: Request) -> Model:
    """The model, and what a request may hold."""
    return request.app.state.model


@router.post("/translate")
async def translate(message: TranslationRequest, request: Request) -> Answer:
    """Each sentence gets its translations, or an error."""
    return await answer(message, request)


def make_app(worker: Worker, hosts: Sequence[str] = LOOPBACK, cors: Sequence[str] = ()) -> FastAPI:
    """Build the application. Only the application's thread may use the worker.

    Args:
        hosts: the host names that are accepted, against DNS rebinding; "*" accepts any.
        cors: the origins of other sites whose pages may use the server, such as https://example.org; "*": all of them.
    """
    translator = worker.translator

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(worker.run())
        yield
        task.cancel()
        await asyncio.wait([task])

    app = FastAPI(title="rnnsearch serve", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.worker = worker
    app.state.model = Model(
        source_lang=translator.languages[0],
        target_lang=translator.languages[1],
        beam=min(translator.options.beam, MAX_TRANSLATIONS),
        reads_trees=translator.reads_trees,
        about=" ".join(translator.description.partition("\n\n")[0].split()),
        examples=translator.examples,
    )
    app.add_middleware(check_request, cors=cors)
    names = [urlsplit(origin).hostname or origin for origin in cors]
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*hosts, *names])
    if cors:
        options = {"allow_methods": ["GET", "POST"], "allow_headers": ["*"], "allow_private_network": True}
        app.add_middleware(CORSMiddleware, allow_origins=cors, **options)
    for kind in (RequestValidationError, ValidationError, InputError, HTTPException):
        app.add_exception_handler(kind, _refuse)
    app.include_router(router)
    app.include_router(libretranslate.router)
    app.mount("/", StaticFiles(directory=Path(__file__).with_name("page"), html=True))
    return app


async def _refuse(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)
    if not isinstance(error, InputError):
        first = error.errors()[0]
        error = InputError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": "))
    return JSONResponse({"error": str(error)}, 400)


def check_request(app: ASGIApp, cors: Sequence[str]) -> ASGIApp:
    """Refuse requests of other sites' pages, and requests that are too long."""

    async def check(scope: Scope, receive: Receive, send: Send) -> None:
        headers, received = Headers(scope=scope) if scope["type"] == "http" else {}, 0

        async def receive_part() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MAX_BYTES:
                raise HTTPException(413, f"the request has more than {MAX_BYTES:,} bytes; send fewer sentences")
            return message

        origin = headers.get("origin")
        if origin and origin.partition("://")[2] != headers.get("host") and {origin, "*"}.isdisjoint(cors):
            reason = str(InputError(f"pages of {origin} may not use this server; start it with --cors {origin}"))
            await JSONResponse({"error": reason}, 403)(scope, receive, send)
        else:
            await app(scope, receive_part, send)

    return check


class Connection(H11Protocol):
    """A connection for one request. If there are too many, the oldest one without a waiting client is closed.

    uvicorn never closes a connection that sends nothing, or half of a request, so idle ones would lock everybody out.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.opened = self.loop.time()
        if len(self.connections) > MAX_CONNECTIONS:
            idle = [connection for connection in self.connections if not connection.has_waiting_client]
            oldest = min(idle, key=lambda connection: connection.opened)
            self.connections.discard(oldest)
            oldest.transport.abort()

    @property
    def has_waiting_client(self) -> bool:
        """Whether a client has sent a whole request, and reads what it gets of the answer."""
        cycle = self.cycle
        is_answering = cycle and not (cycle.more_body or cycle.response_complete or cycle.disconnected)
        return bool(is_answering) and not self.flow.write_paused

    def eof_received(self) -> bool:
        """Answer a client that has closed its own side only."""
        self._write_to_waiting_client()
        return self.has_waiting_client

    def _write_to_waiting_client(self) -> None:
        """Write a line that clients ignore; the system tells that a client has left only after something is written."""
        if self.has_waiting_client and not self.cycle.response_started:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.loop.call_later(SECONDS_BETWEEN_LINES, self._write_to_waiting_client)

    def shutdown(self) -> None:
        """At the server's end, answer a request within SECONDS_TO_STOP."""
        super().shutdown()
        self.loop.call_later(SECONDS_TO_STOP, self.transport.abort)


def open_socket(host: str, port: int) -> socket.socket:
    """Open a socket that listens for connections."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise InputError(f"--host {host} --port {port}: cannot listen there ({error}); give another --port") from error


def main() -> None:
    parser = make_parser(__doc__)
    add_model_options(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0: all (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="0: any free port (default: 8000)")
    cors = "sites whose pages may use the server, such as https://example.org, or '*': all; other sites are refused"
    parser.add_argument(
        "--cors", nargs="+", default=[], metavar="ORIGIN", type=lambda origin: origin.rstrip("/"), help=cors
    )
    add_search_options(parser)
    args = parser.parse_args()
    translator = load_with_replacements(args)
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # it would print what clients send
    with open_socket(args.host, args.port) as listening, contextlib.suppress(KeyboardInterrupt):
        address, port = listening.getsockname()[:2]
        name = f"[{address}]" if ":" in address else address
        hosts = (*LOOPBACK, name) if ipaddress.ip_address(address).is_loopback else ("*",)
        app = make_app(Worker(translator), hosts, args.cors)
        options = {"log_level": "error", "access_log": False, "server_header": False, "ws": "none"}
        config = uvicorn.Config(app, http=Connection, backlog=BACKLOG, headers=HEADERS, **options)
        print(f"http://{name}:{port}/  (Ctrl-C ends)", flush=True)
        uvicorn.Server(config).run(sockets=[listening])
