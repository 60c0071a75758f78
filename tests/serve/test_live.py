"""The server as a process: clients that leave or send nothing, and its end."""

import contextlib
import http.client
import json
import signal
import socket
import time
from argparse import Namespace
from pathlib import Path

import pytest

from rnnsearch_fairseq.serve.server import MAX_CONNECTIONS, Connection
from tests.serve.live import PATIENCE, Live, serving

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore::UserWarning")]

API, JSON = "/api/translate", {"Content-Type": "application/json"}


def send(live: Live, path: str, body: object) -> http.client.HTTPConnection:
    """Send a request, without waiting for its answer."""
    connection = http.client.HTTPConnection(*live.address, timeout=PATIENCE)
    connection.request("POST", path, json.dumps(body), JSON)
    return connection


@pytest.mark.parametrize("paused", [False, True])
def test_only_a_client_that_reads_is_waited_for(paused: bool) -> None:
    connection = object.__new__(Connection)
    connection.cycle = Namespace(more_body=False, response_complete=False, disconnected=False)
    connection.flow = Namespace(write_paused=paused)
    assert connection.has_waiting_client != paused


def test_a_client_that_closes_its_own_side_is_answered(live: Live) -> None:
    connection = send(live, "/translate", {"q": "The dog sleeps.", "source": "en", "target": "fr"})
    connection.sock.shutdown(socket.SHUT_WR)
    answer = b"".join(iter(lambda: connection.sock.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n") and b"le chien dort." in answer


def test_the_real_client_of_libretranslate(live: Live) -> None:
    libretranslatepy = pytest.importorskip("libretranslatepy", reason="libretranslatepy is not installed")
    client = libretranslatepy.LibreTranslateAPI(live.url)
    assert client.detect("The dog sleeps.") == [{"confidence": 0, "language": "en"}]
    assert client.languages()[0] == {"code": "en", "name": "English", "targets": ["fr"]}
    translated = client.translate("The dog sleeps.\n\n  The black cat eats.\n", "en", "fr", timeout=PATIENCE)
    assert translated == "le chien dort.\n\n  le chat noir mange.\n"


def test_who_waits_outlives_idle_connections_and_the_work_ends_when_clients_leave_and_at_sigterm(
    model: Path, tmp_path: Path
) -> None:
    body, copied, log = {"sentences": ["The dog sleeps."]}, {"sentences": ["-"]}, tmp_path / "log"
    # As no translation may end, each has 100,000 words.
    endless = serving(model, log, "--min-len", "100000", "--max-len-b", "100000")
    with endless as running, contextlib.ExitStack() as stack:
        connection = send(running, API, body)
        time.sleep(1)
        connection.close()
        with send(running, API, copied).getresponse() as response:  # which comes when the work before it has ended
            assert response.status == 200
        waiting = stack.enter_context(contextlib.closing(send(running, API, body))).sock
        half = f"POST {API} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{{".encode()
        begun = (b"", b"GET / HT", half, half.replace(API.encode(), b"/translate"))
        idle = []
        for number in range(MAX_CONNECTIONS + 50):
            idle.append(stack.enter_context(socket.create_connection(running.address, PATIENCE)))
            with contextlib.suppress(OSError):
                idle[-1].sendall(begun[number % len(begun)])
        connection = http.client.HTTPConnection(*running.address, timeout=PATIENCE)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        with contextlib.suppress(ConnectionError):
            assert idle[0].recv(1) == b"", "the oldest is closed"
        waiting.setblocking(False)
        with pytest.raises(BlockingIOError):  # nothing to read, and not the end
            waiting.recv(1)
        running.ended = True
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(PATIENCE) == 128 + signal.SIGTERM
    assert "Traceback" not in log.read_text(encoding="utf-8")
