"""How many connections are kept, and for how long: with a clock of the tests' own, and without a network."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from uvicorn.server import ServerState

from rnnsearch_fairseq.serve import connections
from rnnsearch_fairseq.serve.batching import BUSY
from rnnsearch_fairseq.serve.connections import SECONDS_TO_ANSWER, SECONDS_TO_ASK, Connection, RateLimit, make_config

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


class Transport(asyncio.Transport):
    """A client that takes everything except the last ``unsent`` bytes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.loop, self.written, self.unsent, self.closing = loop, b"", 0, False
        self.protocol: Any = None

    def write(self, data: Any) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True
        if not self.unsent:
            self.abort()

    def abort(self) -> None:
        self.closing, self.unsent = True, 0
        self.loop.call_soon(self.protocol.connection_lost, None)

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    @property
    def answer(self) -> tuple[int, dict[str, str], Any]:
        """Status, headers and JSON of the only answer."""
        head, _, body = self.written.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        return int(first.split()[1]), dict(line.split(": ", 1) for line in lines), json.loads(body)


class Server:
    """uvicorn's part of it: a loop whose clock is set by hand, and an application that answers when it is let."""

    def __init__(self, most: int = 8) -> None:
        self.now = 0.0
        self.loop = asyncio.new_event_loop()
        self.loop.time = lambda: self.now
        self.errors: list[Any] = []
        self.loop.set_exception_handler(lambda loop, context: self.errors.append(context))
        self.state = ServerState()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.config = make_config(self)
        self.config.limit_concurrency = most
        self.config.load()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.may_answer.wait()
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})

    def accept(self) -> Transport:
        transport = Transport(self.loop)
        transport.protocol = Connection(config=self.config, server_state=self.state, app_state={}, _loop=self.loop)
        transport.protocol.connection_made(transport)
        return transport

    def connect(self) -> Transport:
        transport = self.accept()
        self.wait()
        return transport

    def receive(self, transport: Transport, data: bytes) -> None:
        transport.protocol.data_received(data)
        self.wait()

    def wait(self, seconds: float = 0.0) -> None:
        """Let time pass, and all happen that is due by then."""
        self.now += seconds
        for _ in range(10):
            self.loop.run_until_complete(asyncio.sleep(0))


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    started: list[Server] = []

    def make(*args: Any) -> Server:
        started.append(Server(*args))
        return started[-1]

    yield make
    for server in started:
        server.may_answer.set()
        for connection in list(server.state.connections):
            connection.transport.abort()
        server.wait()
        server.loop.close()
        assert server.errors == []


@pytest.fixture
def server(start: Callable[..., Server]) -> Server:
    return start()


@pytest.mark.parametrize("sent", [b"", GET, GET + b"X: y\r\n\r\n"], ids=["nothing", "half a header", "a request"])
def test_who_asks_for_nothing_is_closed_in_time(server: Server, sent: bytes) -> None:
    client = server.connect()
    if sent:
        server.receive(client, sent)
    for _ in range(9):
        server.wait(SECONDS_TO_ASK / 10)
        if sent:
            server.receive(client, b"X")  # uvicorn's own time ends at any byte
        assert not client.closing
    server.wait(SECONDS_TO_ASK / 10)
    assert client.closing
    assert server.state.connections == set()


def test_the_body_that_nobody_reads_keeps_no_connection(server: Server) -> None:
    client = server.connect()
    server.receive(client, GET + b"Content-Length: 1000\r\n\r\n")
    assert client.answer[0] == 200
    for _ in range(10):
        server.receive(client, b"X")
        server.wait(SECONDS_TO_ASK / 10)
    assert client.closing


def test_an_answer_may_take_longer_but_not_for_ever(server: Server) -> None:
    server.may_answer.clear()
    patient, hung = server.connect(), server.connect()
    for client in (patient, hung):
        server.receive(client, GET + b"\r\n")
    server.wait(SECONDS_TO_ASK)
    server.wait(SECONDS_TO_ANSWER - 1)
    assert not patient.closing and not hung.closing
    server.receive(hung, GET + b"\r\n")  # another request does not start the time again
    server.wait(1)
    assert patient.closing and hung.closing


def test_after_an_answer_the_time_starts_again(server: Server) -> None:
    client = server.connect()
    for _ in range(3):
        server.wait(0.4 * SECONDS_TO_ASK)
        server.receive(client, GET)
        server.wait(0.4 * SECONDS_TO_ASK)
        server.receive(client, b"\r\n")
        assert not client.closing
    assert client.written.count(b"200 OK") == 3


def test_who_does_not_take_the_answer_is_closed(server: Server) -> None:
    client = server.connect()
    client.unsent = 1
    server.receive(client, GET + b"Connection: close\r\n\r\n")
    server.wait(SECONDS_TO_ASK)
    server.wait(SECONDS_TO_ANSWER - 1)
    assert client.unsent == 1
    server.wait(1)
    assert client.unsent == 0
    assert server.state.connections == set()


def test_of_too_many_the_one_that_waited_longest_is_closed(server: Server) -> None:
    server.may_answer.clear()
    busy = server.connect()
    server.receive(busy, GET + b"\r\n")
    idle = []
    for _ in range(20):
        server.wait(0.1)
        idle.append(server.connect())
        assert len(server.state.connections) <= 8
    assert [client.closing for client in idle] == [True] * 13 + [False] * 7
    server.receive(idle[-1], GET + b"\r\n")
    server.may_answer.set()
    server.wait()
    assert busy.answer[0] == idle[-1].answer[0] == 200


def test_many_at_once_close_one_each(server: Server) -> None:
    clients = [server.accept() for _ in range(20)]  # in one turn of the loop
    server.wait()
    assert sum(client.closing for client in clients) == 12


def test_more_requests_than_are_answered_at_a_time_are_told_so(server: Server) -> None:
    server.may_answer.clear()
    answered = [server.connect() for _ in range(4)]
    refused = server.connect()
    for client in (*answered, refused):
        server.receive(client, GET + b"\r\n")
    status, headers, answer = refused.answer
    assert (status, headers["retry-after"], answer) == (503, "1", {"error": BUSY})
    assert "content-security-policy" in headers
    server.may_answer.set()
    server.wait()
    assert [client.answer[0] for client in answered] == [200] * 4
    refused.written = b""
    server.receive(refused, GET + b"\r\n")
    assert refused.answer[0] == 200


@pytest.mark.parametrize(
    ("request_", "status", "reason"),
    [
        (b"\x16\x03\x01\x00\x00\r\n\r\n", 400, "the request is not valid HTTP/1.1"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "the request is not valid HTTP/1.1"),
        (POST.replace(b"chunked", b"gzip"), 501, "the request is not valid HTTP/1.1"),
        (GET + b"X: " + b"x" * 2**16, 431, "the request's header is too long; send a shorter one"),
    ],
    ids=["no HTTP", "no Host", "an encoding", "a long header"],
)
def test_what_is_no_request_is_refused_in_json(server: Server, request_: bytes, status: int, reason: str) -> None:
    client = server.connect()
    server.receive(client, request_)
    found, headers, answer = client.answer
    assert (found, headers["content-type"], headers["connection"]) == (status, "application/json", "close")
    assert list(answer) == ["error"] and answer["error"].startswith(reason)
    assert headers["x-content-type-options"] == "nosniff"
    assert client.closing


def test_a_bad_body_after_the_answer_only_ends_the_connection(server: Server) -> None:
    client = server.connect()
    server.receive(client, POST)
    assert client.answer[0] == 200
    server.receive(client, b"no chunk\r\n")
    assert client.answer[0] == 200
    assert client.closing


@pytest.mark.parametrize(
    ("limit", "most"), [(128, 64), (1024, 512), (4096, 2048), (2**20, 2048), (connections.resource.RLIM_INFINITY, 2048)]
)
def test_connections_leave_descriptors_for_files(monkeypatch: pytest.MonkeyPatch, limit: int, most: int) -> None:
    monkeypatch.setattr(connections.resource, "getrlimit", lambda which: (limit, limit))
    config = make_config(lambda: None)
    assert config.limit_concurrency == most
    assert config.backlog == most // 8


def test_the_same_message_is_logged_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(connections.time, "monotonic", lambda: now)
    limit = RateLimit()

    def passes(message: str) -> bool:
        return limit.filter(logging.makeLogRecord({"msg": message}))

    assert passes("no accept\nsocket 1") and passes("another")
    assert not any(passes(f"no accept\nsocket {number}") for number in range(100))
    now = 59.0
    assert not passes("no accept\n")
    now = 61.0
    assert passes("no accept\n") and not passes("no accept\n")
