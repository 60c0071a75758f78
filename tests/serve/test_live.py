"""The server as a process: many users, idle connections, its end."""

import contextlib
import http.client
import json
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.serve.live import PATIENCE, Live, serving

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore::UserWarning")]


def ask(live: Live, sentence: str) -> str:
    """Request a translation as the page does."""
    connection = http.client.HTTPConnection(*live.address, timeout=PATIENCE)
    with contextlib.closing(connection):
        body = json.dumps({"sentences": [sentence]})
        connection.request("POST", "/api/translate/stream", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200
        return str(json.loads(response.read().splitlines()[-1])["sentences"][0]["translations"][0]["text"])


def test_fifty_users_at_a_time_meet_no_error(live: Live) -> None:
    sentences = {"The dog sleeps.": "le chien dort.", "The black cat eats.": "le chat noir mange."}
    with ThreadPoolExecutor(50) as users:
        asked = [*sentences] * 50
        assert [*users.map(lambda sentence: ask(live, sentence), asked)] == [sentences[sentence] for sentence in asked]


def test_idle_connections_lock_nobody_out(live: Live) -> None:
    head = b"POST /api/translate/stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    begun = (b"", b"GET / HT", head + b"Content-Length: 99\r\n\r\n{", b"\x16\x03\x01\x00")
    with contextlib.ExitStack() as stack:
        for number in range(900):
            client = stack.enter_context(socket.create_connection(live.address, PATIENCE))
            with contextlib.suppress(OSError):
                client.sendall(begun[number % len(begun)])
        assert ask(live, "The dog sleeps.") == "le chien dort."


def test_a_request_without_a_length_is_refused_and_each_connection_has_one(live: Live) -> None:
    connection = http.client.HTTPConnection(*live.address, timeout=PATIENCE)
    connection.request("POST", "/api/translate", iter([b"{", b"}"]), {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert (response.status, response.headers["Connection"]) == (411, "close")
    assert "error" in json.loads(response.read())


def test_the_real_client_of_libretranslate(live: Live) -> None:
    libretranslatepy = pytest.importorskip("libretranslatepy", reason="libretranslatepy is not installed")
    client = libretranslatepy.LibreTranslateAPI(live.url)
    assert client.languages()[0] == {"code": "en", "name": "English", "targets": ["fr"]}
    translated = client.translate("The dog sleeps.\n\n  The black cat eats.\n", "en", "fr", timeout=PATIENCE)
    assert translated == "le chien dort.\n\n  le chat noir mange.\n"


def test_the_work_ends_when_clients_leave_and_at_sigterm(model: Path, tmp_path: Path) -> None:
    body, log = json.dumps({"sentences": ["The dog sleeps."]}), tmp_path / "log"
    # As no translation may end, each has 100,000 words.
    with serving(model, log, "--min-len", "100000", "--max-len-b", "100000") as running:
        half = socket.create_connection(running.address)
        half.sendall(b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
        for path in ("/api/translate", "/api/translate/stream", "/api/translate/stream"):
            connection = http.client.HTTPConnection(*running.address, timeout=PATIENCE)
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            if path.endswith("stream"):  # its first line comes when the work before it has ended
                with connection.getresponse() as response:
                    assert json.loads(response.readline())["sentence"] == 0
            else:
                time.sleep(1)
                connection.close()
        waiting = http.client.HTTPConnection(*running.address)
        waiting.request("POST", path, body, {"Content-Type": "application/json"})
        running.ended = True
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(PATIENCE) == 128 + signal.SIGTERM
        half.close()
    assert "Traceback" not in log.read_text(encoding="utf-8")
