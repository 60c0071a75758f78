"""Hostile and mistaken requests: each is refused in one sentence. What clients send in other forms is accepted."""

import json
from typing import Any

import pytest

pytest.importorskip("httpx")  # the test client asks for it

from fastapi.testclient import TestClient

from rnnsearch_fairseq.serve.libretranslate import MAX_CHARACTERS, MAX_FIELDS, MAX_TEXTS
from rnnsearch_fairseq.serve.messages import MAX_BYTES

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore::UserWarning")]

API, LIBRE = "/api/translate", "/translate"
JSON, FORM, PARTS = "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"
EN_FR = {"source": "en", "target": "fr"}
Q = {"q": "The dog sleeps.", **EN_FR}
ITEMS = b"[" + b",".join([b"{}"] * 80_000) + b"]"


def part(name: str, value: str) -> str:
    return f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'


def send(client: TestClient, path: str, kind: str, body: Any, **headers: str) -> Any:
    content = json.dumps(body) if isinstance(body, dict) else body
    return client.post(path, content=content, headers={"Content-Type": kind, **headers})


@pytest.mark.parametrize(
    ("path", "kind", "body", "status", "named"),
    [
        (API, JSON, b"[" * 100_000, 400, "body"),
        (API, JSON, b"{", 400, "JSON"),
        (API, JSON, {"sentences": []}, 400, "sentences"),
        (API, JSON, {"sentences": ["a"], "nbest": 0}, 400, "nbest"),
        (API, JSON, {"sentences": ["a"] * 32, "nbest": 12}, 400, "384"),
        (API, JSON, {"sentences": ["a"], "trees": []}, 400, "0 trees"),
        (API, JSON, {"sentences": ["a"], "trees": ["\udfff"]}, 400, "valid string"),
        (API, JSON, b'{"sentences": ' + ITEMS + b"}", 400, "sentences.0"),
        (API, JSON, b'{"sentences": ["a"], "trees": ' + ITEMS + b"}", 400, "trees.0"),
        (API, JSON, b" " * (MAX_BYTES + 1), 413, f"{MAX_BYTES:,}"),
        (API, JSON, iter([b" " * MAX_BYTES, b" "]), 413, f"{MAX_BYTES:,}"),
        (LIBRE, JSON, {**Q, "q": ["a"] * (MAX_TEXTS + 1)}, 400, f"{MAX_TEXTS}"),
        (LIBRE, JSON, {**Q, "q": "<p>a" * (MAX_TEXTS + 1), "format": "html"}, 400, f"{MAX_TEXTS:,}"),
        (API, "text/plain", b'{"sentences": ["a"]}', 400, "body: "),
        (LIBRE, JSON, b"[" * 100_000, 400, "JSON"),
        (LIBRE, JSON, b"[1]", 400, "JSON object"),
        (LIBRE, JSON, '{"q": "é"}'.encode("latin-1"), 400, "utf-8"),
        (LIBRE, FORM, b"q=caf%E9", 400, "utf-8"),
        (LIBRE, FORM, "q=Où+is+it?&source=en&target=fr&target=fr", 400, "target: "),
        (LIBRE, FORM, "q&" * (MAX_FIELDS + 1), 400, "fields"),
        (LIBRE, PARTS, part("q", "") * (MAX_FIELDS + 1), 400, "fields"),
        (LIBRE, "multipart/form-data", part("q", "a"), 400, "boundary"),
        (LIBRE, "text/plain", Q, 400, "q: "),
        (LIBRE, JSON, EN_FR, 400, "q: "),
        (LIBRE, JSON, b'{"q": ' + ITEMS + b"}", 400, "q.0"),
        (LIBRE, JSON, {**Q, "q": "a \ud800 b"}, 400, "valid string"),
        (LIBRE, JSON, {**Q, "target": "de"}, 400, "de"),
        (LIBRE, JSON, {**Q, "source": "\ud800"}, 400, "ud800"),
        (LIBRE, JSON, {**Q, "alternatives": 99}, 400, "alternatives"),
        (LIBRE, JSON, {**Q, "q": "a<b>" * 60_000, "alternatives": 31}, 400, f"{MAX_CHARACTERS:,}"),
        (LIBRE, JSON, {**Q, "q": ["a\n" * 120_000] * 2}, 413, f"{MAX_BYTES:,}"),
    ],
)
def test_a_wrong_request_is_refused_in_one_sentence(
    path: str, kind: str, body: Any, status: int, named: str, client: TestClient
) -> None:
    response = send(client, path, kind, body)
    assert response.status_code == status, response.text
    assert named in response.json()["error"]
    assert len(response.text) < 1_000


@pytest.mark.parametrize(
    ("kind", "body", "answer"),
    [
        ("Application/JSON; charset=UTF-8", Q, "le chien dort."),
        (JSON, b"\xef\xbb\xbf" + json.dumps(Q).encode(), "le chien dort."),
        (JSON, {**Q, "alternatives": None, "format": "", "api_key": None}, "le chien dort."),
        (JSON, iter([b"{", json.dumps(Q)[1:].encode()]), "le chien dort."),
        (FORM, "q=The dog sleeps.&q=...&source=en&target=fr", ["le chien dort.", "..."]),
        (PARTS, "".join(part(*field) for field in Q.items()) + "--x--\r\n", "le chien dort."),
        (PARTS, "".join(part(*field) for field in [("q", "…"), *Q.items()]) + "--x--", ["…", "le chien dort."]),
        (JSON, {**Q, "q": ["The dog sleeps.", *map(str, range(99))]}, ["le chien dort.", *map(str, range(99))]),
    ],
)
def test_other_forms_of_a_request_are_read(kind: str, body: Any, answer: Any, client: TestClient) -> None:
    assert send(client, LIBRE, kind, body).json()["translatedText"] == answer


@pytest.mark.parametrize("path", [API, LIBRE])
def test_pages_of_other_sites_are_refused_unless_cors_names_them(serve: Any, path: str) -> None:
    def ask(client: TestClient, origin: str, method: str = "POST") -> Any:
        headers = {"Origin": origin, "Access-Control-Request-Method": "POST", "Content-Type": JSON}
        return client.request(method, path, json={"sentences": ["a"], **Q}, headers=headers)

    here, there, other = "http://localhost:8000", "https://there.example", "http://other.example"
    for named, statuses in (((), [200, 403, 403]), ((there,), [200, 200, 403]), (("*",), [200, 200, 200])):
        client = serve(cors=named)
        assert [ask(client, origin).status_code for origin in (here, there, other)] == statuses
        assert ask(client, there, "OPTIONS").status_code == statuses[1]
        allowed = ask(client, there).headers.get("Access-Control-Allow-Origin")
        assert allowed == (None if not named else named[0])
    assert "--cors http://other.example" in ask(serve(), other).json()["error"]


@pytest.mark.parametrize(("path", "status"), [("/", 200), ("/api/model", 200), ("/docs", 404), ("/page.py", 404)])
def test_only_names_of_this_machine_are_answered(path: str, status: int, client: TestClient) -> None:
    for host in ("127.0.0.1", "localhost:8000", "[::1]:8000", "[::1]"):
        assert client.get(path, headers={"Host": host}).status_code == status
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8000", "", "[::2]"):
        assert client.get(path, headers={"Host": host}).status_code == 400
