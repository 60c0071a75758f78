"""The JSON API and what keeps the server alive, without a network."""

import asyncio
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx")  # the test client asks for it
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from fastapi import FastAPI
from fastapi.testclient import TestClient

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.translator import Translator, load
from rnnsearch_fairseq.serve import connections, scheduler, worker
from rnnsearch_fairseq.serve import main as command
from rnnsearch_fairseq.serve.server import MAX_BYTES, make_app
from tests.serve.live import PATIENCE
from tests.trained import PAIRS, PARSES

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore::UserWarning")]

SENTENCES = ["The black cat eats.", "It's a zebra."]
STREAM, PLAIN = "/api/translate/stream", "/api/translate"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def client(serve: Callable[..., TestClient]) -> TestClient:
    return serve()


def ask(client: TestClient, *sentences: str, path: str = PLAIN, **fields: Any) -> list[dict[str, Any]]:
    response = client.post(path, json={"sentences": list(sentences), **fields})
    assert response.status_code == 200, response.text
    answer = json.loads(response.text.splitlines()[-1])
    assert len(answer["sentences"]) == len(sentences)
    return answer["sentences"]


# Answers


def test_translations_are_those_of_the_translator_with_words_and_weights(
    client: TestClient, translator: Translator
) -> None:
    answers = ask(client, *SENTENCES)
    best = [best for (best,) in translator.translations(SENTENCES, nbest=1)]
    for answer, one, alignment in zip(answers, best, translator.align(SENTENCES)):
        (translation,) = answer["translations"]
        assert translation["text"] == one.text
        assert translation["score"] == pytest.approx(one.score, abs=1e-4)
        assert translation["logprob"] == pytest.approx(alignment.logprobs.sum().item(), abs=1e-4)
        assert sum(word["logprob"] for word in translation["words"]) == pytest.approx(translation["logprob"], abs=1e-3)
        for ours, theirs in zip(translation["alignment"], alignment.weights.tolist(), strict=True):
            assert ours == pytest.approx(theirs, abs=1e-4)
        assert answer["phrases"] is None
    assert [word["text"] for word in answers[1]["source"]] == ["it", "'s", "a", "zebra", ".", "</s>"]
    assert [word["unknown"] for word in answers[1]["source"]] == [False, False, False, True, False, False]
    assert ask(client, *SENTENCES, path=STREAM) == answers


def test_the_stream_shows_unfinished_translations(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "SECONDS_BETWEEN_PARTIALS", 0)
    response = client.post(STREAM, json={"sentences": ["", "The black cat eats."]})
    *partials, answer = map(json.loads, response.text.splitlines())
    assert response.headers["content-type"] == "application/jsonl"
    assert partials and {partial["sentence"] for partial in partials} == {1}
    assert all(partial["text"].startswith("le") for partial in partials)
    assert [result["translations"][0]["text"] for result in answer["sentences"]] == ["", "le chat noir mange."]


def test_the_nbest_come_when_asked_for(client: TestClient, translator: Translator) -> None:
    ((one,), several) = (ask(client, "the dog eats .", nbest=n)[0]["translations"] for n in (1, 4))
    texts = [best.text for best in translator.translations("the dog eats .", nbest=4)]
    assert [translation["text"] for translation in several] == texts
    assert several[0] == one


def test_unknown_words_are_replaced_and_stay_marked(serve: Callable[..., TestClient], unknown_model: Path) -> None:
    client = serve(load(unknown_model, max_len_b=6), dictionary={"dog": "chien"})
    (translation,) = ask(client, "The dog .")[0]["translations"]
    *words, _ = translation["words"]
    assert all(word["unknown"] and word["text"] in ("the", "chien", ".") for word in words)
    assert translation["text"].replace(".", " .").split() == [word["text"] for word in words]


class Parser:
    """Stands in for link-parser: the parses of PAIRS, and none for other sentences."""

    closed = False

    def parse(self, words: Sequence[str]) -> str | None:
        return dict(zip(PAIRS, PARSES)).get(" ".join(words))

    def close(self) -> None:
        self.closed = True


def test_phrases_come_with_a_given_parse_or_by_link_parser_in_time(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = Parser()
    app = make_app(worker.Worker(load(model), parser=parser))
    with TestClient(app, "http://localhost") as client:
        sentences = ["the dog sleeps .", "the black cat eats .", "the dog eats .", "the cat sleeps ."]
        trees = ["(S (X the dog) sleeps .)", None, None, PARSES[3]]
        *answers, wrong = ask(client, *sentences, trees=trees)
        phrases = [[[0, 4], [0, 2], [2, 4]], [[0, 5], [0, 3], [1, 3], [3, 5]], []]
        assert [answer["phrases"] for answer in answers] == phrases
        assert {len(row) for row in answers[1]["translations"][0]["phrase_alignment"]} == {4}
        assert "sentence 4" in wrong["error"] and "parse" in wrong["error"]
        assert client.get("/api/model").json()["reads_trees"] is True
        monkeypatch.setattr(worker, "SECONDS_TO_PARSE", 0)
        assert ask(client, sentences[1])[0]["phrases"] == []
    assert parser.closed


def test_the_model_and_the_api_are_described(
    serve: Callable[..., TestClient], translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translator, "examples", ["The dog sleeps."], raising=False)
    client = serve()
    model = client.get("/api/model").json()
    assert (model["source_lang"], model["target_lang"], model["beam"]) == ("en", "fr", 5)
    assert (model["reads_trees"], model["examples"]) == (False, ["The dog sleeps."])
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) == {"/api/model", PLAIN, STREAM, "/translate", "/languages", "/health"}
    assert "swagger" in client.get("/docs").text
    assert client.get("/").text.startswith("<!DOCTYPE html>")


# Refusals


@pytest.mark.parametrize("path", [PLAIN, STREAM])
def test_bad_sentences_are_refused_by_number_and_the_others_answered(client: TestClient, path: str) -> None:
    long, blank, other = ask(client, "a " * 101, " \u2028\t\0", "the dog sleeps .", path=path)
    assert "sentence 1 has 101 words" in long["error"]
    (translation,) = blank["translations"]
    assert (translation["text"], translation["score"]) == ("", 0)
    assert other["translations"][0]["text"] == "le chien dort."


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"[" * 100_000, "body"),
        (b"{", "JSON"),
        (b'{"sentences": [1]}', "sentences.0"),
        (b'{"sentences": ["\\ud800"]}', "sentences.0"),
        (json.dumps({"sentences": ["a"] * 33}).encode(), "sentences"),
        (json.dumps({"sentences": ["a" * 2001]}).encode(), "sentences.0"),
        (b'{"sentences": ["a"], "nbest": true}', "nbest"),
        (json.dumps({"sentences": ["a " * 99] * 32, "nbest": 12}).encode(), "384"),
        (b'{"sentences": ["a"], "trees": []}', "0 trees"),
    ],
)
def test_requests_of_another_form_are_refused_in_one_sentence(client: TestClient, body: bytes, named: str) -> None:
    response = client.post(PLAIN, content=body, headers=JSON)
    assert response.status_code in (400, 422)
    assert named in response.json()["error"]
    assert len(response.text) < 1000


@pytest.mark.parametrize(
    "body",
    [
        b'{"sentences": ["a"], "trees": [' + b",".join([b"1"] * 120_000) + b"]}",
        b'{"sentences": ["a"], "trees": [' + b",".join([b"{}"] * 80_000) + b"]}",
        b'{"sentences": [' + b",".join([b"[]"] * 80_000) + b"]}",
        b"{" + b",".join(b'"%d":1' % number for number in range(25_000)) + b"}",
    ],
    ids=["numbers", "objects", "lists", "keys"],
)
def test_many_wrong_items_cost_no_time(client: TestClient, body: bytes) -> None:
    assert len(body) < MAX_BYTES
    started = time.process_time()
    for path in (PLAIN, "/translate"):
        assert client.post(path, content=body, headers=JSON).status_code in (400, 422)
    assert time.process_time() - started < 1


def test_a_large_request_is_refused_before_it_is_read(client: TestClient) -> None:
    response = client.post(PLAIN, content=b" " * (MAX_BYTES + 1), headers=JSON)
    assert response.status_code == 413
    assert f"{MAX_BYTES:,}" in response.json()["error"]


def test_other_hosts_and_what_another_site_can_send_without_asking_are_refused(
    client: TestClient, translator: Translator
) -> None:
    body = b'{"sentences": ["a"]}'
    for headers in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}):
        assert client.post(PLAIN, content=body, headers=headers).status_code == 422
    for host in ("127.0.0.1", "localhost:8000", "[::1]:8000", "[::1]", "LOCALHOST"):
        assert client.get("/", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8000", "", "[::2]", "localhost:a"):
        for path in ("/", "/api/model"):
            assert client.get(path, headers={"Host": host}).status_code == 400
    with TestClient(make_app(worker.Worker(translator), hosts=["*"]), "http://translate.example") as anywhere:
        assert anywhere.get("/").status_code == 200


# Waiting


class Endless:
    """A search for "slow" that ends only when it is stopped."""

    def __init__(self) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()

    def __call__(self, sources: Any, nbest: int, on_step: Callable[..., None]) -> Any:
        self.begun.set()
        try:
            for _ in range(100 * PATIENCE):
                on_step({0: [4]})
                time.sleep(0.01)
        finally:
            self.ended.set()


@pytest.fixture
def endless(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> Endless:
    search = Endless()
    monkeypatch.setattr(translator, "search", search)
    return search


@pytest.mark.parametrize("path", [PLAIN, STREAM])
def test_a_full_queue_is_politely_busy(
    client: TestClient, endless: Endless, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "MAX_WAITING", 0)
    response = client.post(path, json={"sentences": ["a", "b"]})
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    assert "busy" in response.json()["error"]


async def leave(app: FastAPI, path: str, endless: Endless) -> None:
    """Send a request as uvicorn does, and leave when the search has begun."""
    messages = [{"type": "http.request", "body": json.dumps({"sentences": ["slow"] * 2}).encode()}]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        while not endless.begun.is_set():
            await asyncio.sleep(0.01)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        pass

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b"", "app": app}
    scope["asgi"] = {"version": "3.0", "spec_version": "2.3"}
    async with app.router.lifespan_context(app):
        await asyncio.wait_for(app(scope, receive, send), PATIENCE)
        assert await asyncio.to_thread(endless.ended.wait, PATIENCE)


@pytest.mark.parametrize("path", [PLAIN, STREAM])
def test_what_the_client_has_left_is_given_up(
    translator: Translator, endless: Endless, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    asyncio.run(leave(make_app(worker.Worker(translator)), path, endless))
    assert not any(record.name.startswith("rnnsearch") for record in caplog.records)


# The command


@pytest.mark.parametrize(("host", "answered"), [("127.0.0.2", ["127.0.0.2", "localhost"]), ("0.0.0.0", ["other"])])
def test_at_a_loopback_address_only_its_names_are_answered(
    host: str, answered: list[str], translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    apps = []
    monkeypatch.setattr(sys, "argv", ["serve", "--model", "m", "--host", host, "--port", "0"])
    monkeypatch.setattr(command, "load_with_replacements", lambda args: (translator, None))
    monkeypatch.setattr(connections.Server, "run", lambda server, sockets: apps.append(server.config.app))
    command.main()
    client = TestClient(apps[0])
    for name in ("127.0.0.2", "localhost", "127.0.0.3", "other"):
        status = client.get("/", headers={"Host": name}).status_code
        assert status == (200 if name in answered or "other" in answered else 400), name


def test_link_parser_is_for_models_that_read_english_trees(
    translator: Translator, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert command.make_link_parser(translator) is None
    assert command.make_link_parser(load(model)) is not None
    monkeypatch.setattr(command.shutil, "which", lambda name: None)
    assert command.make_link_parser(load(model)) is None


def test_an_address_in_use_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"--host 127.0.0.1 --port {port}"):
            command.open_socket("127.0.0.1", port)


def test_without_the_web_library_the_command_names_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["serve", "--model", "x.pt"])
    monkeypatch.setitem(sys.modules, "rnnsearch_fairseq.serve.connections", None)
    with pytest.raises(InputError, match=r"pip install 'rnnsearch-fairseq\[serve\]'"):
        command.main()
