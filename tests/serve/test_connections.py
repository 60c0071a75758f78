"""How many connections are kept, and for how long: with a clock of the tests' own, and without a network."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from rnnsearch_fairseq.serve import connections
from rnnsearch_fairseq.serve.connections import SECONDS_TO_ANSWER, SECONDS_TO_ASK, Server

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
HALF = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nX"


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
    def status(self) -> int:
        """The status of the first answer."""
        return int(self.written.split()[1])


class Simulated:
    """uvicorn's part of it: a loop whose clock is set by hand, and an application that answers when it is let."""

    def __init__(self, most: int = 8) -> None:
        self.now = 0.0
        self.loop = asyncio.new_event_loop()
        self.loop.time = lambda: self.now
        self.errors: list[Any] = []
        self.loop.set_exception_handler(lambda loop, context: self.errors.append(context))
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.server = Server(self, lambda: None)
        self.server.config.limit_concurrency = most
        self.server.config.load()
        self.state = self.server.server_state

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.may_answer.wait()
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})

    def accept(self) -> Transport:
        transport = Transport(self.loop)
        transport.protocol = connections.Connection(self.server.config, self.state, {}, _loop=self.loop)
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
        self.loop.run_until_complete(self.server.on_tick(0))
        for _ in range(10):
            self.loop.run_until_complete(asyncio.sleep(0))


@pytest.fixture
def server() -> Iterator[Simulated]:
    made = Simulated()
    yield made
    made.may_answer.set()
    for connection in list(made.state.connections):
        connection.transport.abort()
    made.wait()
    made.loop.close()
    assert made.errors == []


@pytest.mark.parametrize(
    "sent", [b"", GET, GET + b"X: y\r\n\r\n", HALF], ids=["nothing", "half a header", "all", "half"]
)
def test_who_sends_no_whole_request_is_closed_in_time(server: Simulated, sent: bytes) -> None:
    if sent == HALF:
        server.may_answer.clear()
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


def test_an_answer_may_take_longer_but_not_for_ever(server: Simulated) -> None:
    server.may_answer.clear()
    hung, unread = server.connect(), server.connect()
    server.receive(hung, GET + b"\r\n")
    server.receive(unread, GET + b"\r\n")
    unread.unsent = 1  # an answer that the client does not take
    server.wait(SECONDS_TO_ASK + SECONDS_TO_ANSWER - 1)
    assert not hung.closing and not unread.closing
    server.receive(hung, GET + b"\r\n")  # another request does not start the time again
    server.wait(1)
    assert hung.closing and unread.closing


def test_after_an_answer_the_time_starts_again(server: Simulated) -> None:
    client = server.connect()
    for _ in range(3):
        server.wait(0.4 * SECONDS_TO_ASK)
        server.receive(client, GET)
        server.wait(0.4 * SECONDS_TO_ASK)
        server.receive(client, b"\r\n")
        assert not client.closing
    assert client.written.count(b"200 OK") == 3


def test_of_too_many_the_one_that_waited_longest_for_its_request_is_closed(server: Simulated) -> None:
    server.may_answer.clear()
    busy = server.connect()
    server.receive(busy, GET + b"\r\n")
    idle = []
    for number in range(20):
        server.wait(0.1)
        idle.append(server.connect())
        if number % 2:
            server.receive(idle[-1], HALF)
        assert len(server.state.connections) <= 8
    assert [client.closing for client in idle] == [True] * 13 + [False] * 7
    server.receive(idle[-2], GET + b"\r\n")
    server.may_answer.set()
    server.wait()
    assert busy.status == idle[-2].status == 200


@pytest.mark.parametrize(
    "request_",
    [b"\x16\x03\x01\x00\x00\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", GET + b"X: " + b"x" * 2**16],
    ids=["no HTTP", "no Host", "a long header"],
)
def test_what_is_no_request_is_refused(server: Simulated, request_: bytes) -> None:
    client = server.connect()
    server.receive(client, request_)
    assert client.status == 400
    assert client.closing


def test_a_bad_body_after_the_answer_only_ends_the_connection(server: Simulated) -> None:
    client = server.connect()
    server.receive(client, POST)
    server.receive(client, b"no chunk\r\n")
    assert client.status == 200 and client.written.count(b"HTTP/1.1") == 1
    assert client.closing


@pytest.mark.parametrize(("limit", "most"), [(128, 64), (2**20, 2048), (connections.resource.RLIM_INFINITY, 2048)])
def test_connections_leave_descriptors_for_files(monkeypatch: pytest.MonkeyPatch, limit: int, most: int) -> None:
    monkeypatch.setattr(connections.resource, "getrlimit", lambda which: (limit, limit))
    config = Server(lambda: None, lambda: None).config
    assert (config.limit_concurrency, config.backlog) == (most, most // 8)
