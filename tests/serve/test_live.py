"""The server as a process: many users, many connections, its end."""

import contextlib
import http.client
import json
import re
import signal
import socket
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from recipes.benchmark import serving_load
from tests.serve.live import PATIENCE, Live, serving

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore::UserWarning")]


def test_fifty_users_at_a_time_meet_no_error(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text"
    text.write_text("The dog sleeps.\nThe black cat eats.\n\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["load", live.url, str(text), "--users", "50", "--seconds", "0.1"])
    status = serving_load.main()
    first, second = capsys.readouterr().out.splitlines()
    assert status == 0, first
    assert int(first.split()[0].replace(",", "")) >= 50
    assert first.endswith(" 0 errors")
    assert re.fullmatch(r"median \d+\.\d{3} s, 95th percentile \d+\.\d{3} s", second)


def status(address: tuple[str, int], method: str = "GET", path: str = "/", body: bytes = b"", **headers: str) -> int:
    connection = http.client.HTTPConnection(*address, timeout=PATIENCE)
    connection.request(method, path, body or None, headers)
    answer = connection.getresponse().status
    connection.close()
    return answer


def test_slow_and_vanishing_users_do_not_stop_it(live: Live) -> None:
    body = json.dumps({"sentences": ["The dog sleeps."] * 32}).encode()
    head = b"POST /api/translate/stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    whole = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    hanging = [socket.create_connection(live.address) for _ in range(20)]
    for number, connection in enumerate(hanging):
        connection.sendall((whole, whole[:-5], head, b"\x16\x03\x01\x00" * 9)[number % 4])
        if number % 2:
            connection.close()
    assert serving_load.ask(live.url, "The dog sleeps.") == ""
    for connection in hanging:
        connection.close()
    assert status(live.address, Host="evil.example") == 400
    both = {"Transfer-Encoding": "chunked", "Content-Length": "5", "Content-Type": "application/json"}
    assert status(live.address, "POST", "/api/translate", b"0\r\n\r\n", **both) == 400


def test_sigterm_in_a_long_request_is_answered_in_json(model: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    # As no translation may end, each has 100,000 words.
    with serving(model, log, "--min-len", "100000", "--max-len-b", "100000") as running:
        half = socket.create_connection(running.address)
        half.sendall(b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")
        connection = http.client.HTTPConnection(*running.address, timeout=PATIENCE)
        body = json.dumps({"sentences": ["The dog sleeps."]})
        connection.request("POST", "/api/translate/stream", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert json.loads(response.readline())["sentence"] == 0
        running.ended = True
        running.process.send_signal(signal.SIGTERM)
        assert json.loads(response.read().splitlines()[-1])["detail"].startswith("the server is stopping")
        assert running.process.wait(PATIENCE) == -signal.SIGTERM
        half.close()
    assert "Traceback" not in log.read_text(encoding="utf-8")


@pytest.mark.slow
def test_few_descriptors_at_another_address_of_this_machine(model: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serving(model, log, "--max-len-b", "30", "--host", "127.0.0.2", descriptors=128) as running:
        host, port = running.address
        assert host == "127.0.0.2"
        for name, answer in ((f"{host}:{port}", 200), ("localhost", 200), ("evil.example", 400), ("127.0.0.3", 400)):
            assert status((host, port), Host=name) == answer, name
        with contextlib.ExitStack() as stack:  # more idle connections than descriptors lock nobody out
            for number in range(200):
                client = stack.enter_context(socket.create_connection((host, port), PATIENCE))
                with contextlib.suppress(OSError):
                    client.sendall(
                        (b"", b"GET / HT", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")[number % 3]
                    )
            assert serving_load.ask(running.url, "The dog sleeps.") == ""
            assert len(list(Path(f"/proc/{running.process.pid}/fd").iterdir())) < 128
    assert "out of system resource" not in log.read_text(encoding="utf-8")
