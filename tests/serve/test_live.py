"""The server as a process: noise, many users, many connections."""

import contextlib
import http.client
import json
import re
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from recipes.benchmark import serving_load
from tests.serve.fuzz_page import check, growth
from tests.serve.live import PATIENCE, Live, serving

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore::UserWarning")]


@pytest.mark.slow
def test_every_noise_is_answered_or_refused_and_memory_does_not_grow(live: Live) -> None:
    outcomes, memory = check(live, lines=600)
    assert outcomes.total() == 600
    assert min(outcomes["answered"], outcomes["refused"]) > 100
    before, after = growth(memory)
    assert after < before + 64 * 2**20


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


def test_errors_are_told_from_being_busy(live: Live) -> None:
    assert serving_load.ask(live.url, "The dog sleeps.") == ""
    assert serving_load.ask(live.url, "a " * 200).startswith("sentence 1 has 200 words")
    assert serving_load.ask(live.url, "a" * 10**6).startswith("sentence 1 has 1,000,000 characters")
    assert serving_load.ask(live.url, "a" * 10**7).startswith("413: the request has more than 8,388,608 bytes")
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    assert serving_load.ask(f"http://127.0.0.1:{port}/", "a").startswith("ConnectionRefusedError")
    answers = serving_load.Answers([1.0, 2.0, 3.0], busy=2)
    answers.errors["500: a mistake"] += 1
    assert answers.summary().splitlines() == [
        "3 translations, 2 times busy or out of time, 1 errors",
        "median 2.000 s, 95th percentile 2.900 s",
        "1 x 500: a mistake",
    ]


def test_slow_and_vanishing_users_do_not_stop_it(live: Live) -> None:
    place = urlsplit(live.url)
    address = (str(place.hostname), place.port)
    body = json.dumps({"sentences": ["The dog sleeps."] * 32}).encode()
    head = b"POST /api/translate/stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    whole = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    hanging = [socket.create_connection(address) for _ in range(20)]
    for number, connection in enumerate(hanging):
        connection.sendall((whole, whole[:-5], head, b"\x16\x03\x01\x00" * 9)[number % 4])
        if number % 2:
            connection.close()
    assert serving_load.ask(live.url, "The dog sleeps.") == ""
    for connection in hanging:
        connection.close()
    connection = http.client.HTTPConnection(*address, timeout=PATIENCE)
    connection.request("GET", "/", headers={"Host": "evil.example"})
    assert connection.getresponse().status == 400
    connection.close()


@pytest.mark.slow
def test_few_descriptors_at_another_address_of_this_machine(checkpoint: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with serving(checkpoint, log, "--max-len-b", "30", "--host", "127.0.0.2", descriptors=128) as running:
        place = urlsplit(running.url)
        assert place.hostname == "127.0.0.2"
        for name, status in ((place.netloc, 200), ("localhost", 200), ("evil.example", 400), ("127.0.0.3", 400)):
            connection = http.client.HTTPConnection(place.hostname, place.port, timeout=PATIENCE)
            connection.request("GET", "/", headers={"Host": name})
            assert connection.getresponse().status == status, name
            connection.close()
        with contextlib.ExitStack() as stack:  # more idle connections than descriptors lock nobody out
            for _ in range(200):
                stack.enter_context(socket.create_connection((place.hostname, place.port), PATIENCE))
            assert serving_load.ask(running.url, "The dog sleeps.") == ""
            assert len(list(Path(f"/proc/{running.process.pid}/fd").iterdir())) < 128
    assert "out of system resource" not in log.read_text(encoding="utf-8")
