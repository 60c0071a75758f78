"""The JSON API and what keeps the server alive, without a network."""

import asyncio
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("httpx")  # the test client asks for it
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from fastapi import FastAPI
from fastapi.testclient import TestClient

from rnnsearch_fairseq.corpus.link_grammar import Failure
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.translator import Translator, load
from rnnsearch_fairseq.serve import main as command
from rnnsearch_fairseq.serve import server, worker
from rnnsearch_fairseq.serve.messages import Limits
from rnnsearch_fairseq.serve.server import LOOPBACK, make_app
from rnnsearch_fairseq.serve.turns import Abandoned, Job, Pending
from tests.serve.live import PATIENCE
from tests.trained import PAIRS, PARSES, train

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore::UserWarning")]

SENTENCES = ["The black cat eats.", "It's a zebra."]
STREAM, PLAIN = "/api/translate/stream", "/api/translate"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return load(train(tmp_path_factory.mktemp("plain") / "run"))


@pytest.fixture(scope="module")
def tree_translator(model: Path) -> Translator:
    return load(model)


@pytest.fixture
def serve(translator: Translator) -> Iterator[Callable[..., TestClient]]:
    """Starts servers with some limits changed."""
    started: list[TestClient] = []

    def start(
        model: Translator = translator, hosts: Sequence[str] = LOOPBACK, dictionary: Any = None, **limits: Any
    ) -> TestClient:
        works = worker.Worker(model, Limits(**limits), dictionary=dictionary)
        app = make_app(works, hosts, ["The dog sleeps."])
        client = TestClient(app, base_url="http://localhost:8000", raise_server_exceptions=False)
        started.append(client.__enter__())
        return client

    yield start
    for client in started:
        client.__exit__(None, None, None)


@pytest.fixture
def client(serve: Callable[..., TestClient]) -> TestClient:
    return serve()


def ask(client: TestClient, *sentences: str, path: str = PLAIN, **fields: Any) -> list[dict[str, Any]]:
    response = client.post(path, json={"sentences": list(sentences), **fields})
    assert response.status_code == 200, response.text
    answer = json.loads(response.text.splitlines()[-1])
    assert len(answer["sentences"]) == len(sentences)
    return answer["sentences"]


class Endless:
    """A search for "slow" that ends only when it is stopped; other sentences are searched for as ever."""

    def __init__(self, translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
        self.searches, self._search = 0, translator.search
        self.begun, self.ended = threading.Event(), threading.Event()
        monkeypatch.setattr(translator, "search", self.search)

    def search(self, sources: Any, nbest: int, on_step: Callable[..., None]) -> Any:
        if sources[0].words != ["slow"]:
            return self._search(sources, nbest=nbest, on_step=on_step)
        self.searches += 1
        self.begun.set()
        try:
            for _ in range(100 * PATIENCE):
                on_step({0: [4]})
                time.sleep(0.01)
        finally:
            self.ended.set()


@pytest.fixture
def endless(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> Endless:
    return Endless(translator, monkeypatch)


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


# Answers


def test_translations_are_those_of_the_translator_with_words_and_weights(
    client: TestClient, translator: Translator
) -> None:
    answers = ask(client, *SENTENCES)
    best = [best for (best,) in translator.translations(SENTENCES, nbest=1)]
    pairs = [(translator.read_source(sentence), each.words) for sentence, each in zip(SENTENCES, best)]
    for answer, each, alignment in zip(answers, best, translator.align_words(pairs)):
        (translation,) = answer["translations"]
        assert translation["text"] == each.text
        assert translation["score"] == pytest.approx(each.score, abs=1e-4)
        assert translation["logprob"] == pytest.approx(alignment.logprobs.sum().item(), abs=1e-4)
        assert sum(word["logprob"] for word in translation["words"]) == pytest.approx(translation["logprob"], abs=1e-3)
        for ours, theirs in zip(translation["alignment"], alignment.weights.tolist(), strict=True):
            assert ours == pytest.approx(theirs, abs=1e-4)
        assert answer["phrases"] is None
    assert [word["text"] for word in answers[1]["source"]] == ["it", "'s", "a", "zebra", ".", "</s>"]
    assert [word["unknown"] for word in answers[1]["source"]] == [False, False, False, True, False, False]
    assert ask(client, *SENTENCES, path=STREAM) == answers


def test_the_stream_shows_unfinished_translations(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    show = Pending.show

    def show_until_sent(request: Pending, place: int, text: str) -> None:
        show(request, place, text)
        until = time.monotonic() + 10
        while request._partials and time.monotonic() < until:
            time.sleep(0.001)

    monkeypatch.setattr(worker, "SECONDS_BETWEEN_PARTIALS", 0)
    monkeypatch.setattr(Pending, "show", show_until_sent)
    response = client.post(STREAM, json={"sentences": ["", "The black cat eats."]})
    *partials, answer = map(json.loads, response.text.splitlines())
    assert response.headers["content-type"] == "application/jsonl"
    assert partials and {partial["sentence"] for partial in partials} == {1}
    assert all(partial["text"].startswith("le") for partial in partials)
    assert [each["translations"][0]["text"] for each in answer["sentences"]] == ["", "le chat noir mange."]


def test_the_nbest_come_when_asked_for(client: TestClient, translator: Translator) -> None:
    ((one,), several) = (ask(client, "the dog eats .", nbest=n)[0]["translations"] for n in (1, 4))
    texts = [each.text for each in translator.translations("the dog eats .", nbest=4)]
    assert [translation["text"] for translation in several] == texts
    assert several[0] == one
    assert len(ask(client, "the dog eats .", nbest=30)[0]["translations"]) == 5


def test_unknown_words_are_replaced_and_stay_marked(serve: Callable[..., TestClient], unknown_model: Path) -> None:
    client = serve(load(unknown_model, max_len_b=6), dictionary={"dog": "chien"})
    (translation,) = ask(client, "The dog .")[0]["translations"]
    *words, _ = translation["words"]
    assert all(word["unknown"] and word["text"] in ("the", "chien", ".") for word in words)
    assert translation["text"].replace(".", " .").split() == [word["text"] for word in words]


def test_phrases_come_with_the_parse(serve: Callable[..., TestClient], tree_translator: Translator) -> None:
    client = serve(tree_translator)
    with_parse, without, wrong = ask(client, *["the black cat eats ."] * 3, trees=[PARSES[2], None, PARSES[3]])
    assert with_parse["phrases"] == [[0, 5], [0, 3], [1, 3], [3, 5]]
    (translation,) = with_parse["translations"]
    assert {len(row) for row in translation["phrase_alignment"]} == {4}
    assert without["phrases"] == []
    assert wrong["detail"].startswith("sentence 3: leaf 3 of its parse is 'dog', but word 3 is 'cat'")
    assert client.get("/api/model").json()["reads_trees"] is True


class Parser:
    """Stands in for link-parser: the parses of PAIRS, and none for other sentences."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.closed = False

    def parse(self, words: Sequence[str]) -> str | Failure:
        self.asked.append(" ".join(words))
        return dict(zip(PAIRS, PARSES)).get(self.asked[-1], Failure.TIMEOUT)

    def close(self) -> None:
        self.closed = True


def test_sentences_without_a_tree_are_parsed_while_there_is_time(
    tree_translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = Parser()
    with TestClient(make_app(worker.Worker(tree_translator, parser=parser)), base_url="http://localhost") as client:
        sentences = ["the dog sleeps .", "the black cat eats .", "the dog eats ."]
        answers = ask(client, *sentences, trees=["(S (X the dog) sleeps .)", None, None])
        assert [answer["phrases"] for answer in answers] == [
            [[0, 4], [0, 2], [2, 4]],
            [[0, 5], [0, 3], [1, 3], [3, 5]],
            [],
        ]
        assert parser.asked == sentences[1:]
        assert client.get("/api/model").json()["parses"] is True
        monkeypatch.setattr(worker, "SECONDS_TO_PARSE", 0)
        assert ask(client, sentences[1])[0]["phrases"] == []
        assert parser.asked == sentences[1:]
    assert parser.closed


def test_the_model_and_the_api_are_described(client: TestClient) -> None:
    model = client.get("/api/model").json()
    assert (model["source_lang"], model["target_lang"], model["beam"]) == ("en", "fr", 5)
    assert (model["reads_trees"], model["parses"], model["examples"]) == (False, False, ["The dog sleeps."])
    document = client.get("/openapi.json").json()
    assert set(document["paths"]) == {"/api/model", PLAIN, STREAM}
    assert "swagger" in client.get("/docs").text


def test_examples_are_sentences_of_known_words_the_most_frequent_first(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = ["It's a cat.", "The cat sleeps.", "The zebra sleeps.", "The dog sleeps.", "The black cat eats."]
    monkeypatch.setattr(command.json, "loads", lambda text: {"en": sentences})
    assert command.choose_examples(translator) == ["The dog sleeps.", "The cat sleeps.", "The black cat eats."]
    monkeypatch.setattr(command.json, "loads", lambda text: {})
    assert command.choose_examples(translator) == []


# Refusals


@pytest.mark.parametrize("path", [PLAIN, STREAM])
def test_bad_sentences_are_refused_by_number_and_the_others_answered(client: TestClient, path: str) -> None:
    long, blank, other = ask(client, "a " * 101, " \u2028\t\0", "the dog sleeps .", path=path)
    assert long == {"detail": "sentence 1 has 101 words, and at most 100 are read; split it"}
    (translation,) = blank["translations"]
    assert (translation["text"], translation["score"]) == ("", 0)
    assert other["translations"][0]["text"] == "le chien dort."


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[" * 100_000, "There was an error parsing the body"),
        (b"{", "JSON decode error"),
        (b'{"sentences": [1]}', "sentences.0: Input should be a valid string"),
        (b'{"sentences": ["\\ud800"]}', "sentences.0: Input should be a valid string"),
        (json.dumps({"sentences": ["a"] * 33}).encode(), "sentences: List should have at most 32 items"),
        (json.dumps({"sentences": ["a" * 2001]}).encode(), "sentences.0: String should have at most 2000 characters"),
        (b'{"sentences": ["a"], "nbest": true}', "nbest: Input should be a valid integer"),
        (json.dumps({"sentences": ["a " * 99] * 32, "nbest": 12}).encode(), "sentences times nbest is 384; send at"),
        (b'{"sentences": ["a"], "trees": []}', "there are 1 sentences and 0 trees"),
        (b'{"sentences": ["a"], "' + b"x" * 10_000 + b'": 3}', "Extra inputs are not permitted"),
        (b'{"sentences": ["a"], "\\ud800": 3}', "unable to parse raw data"),
    ],
)
def test_requests_of_another_form_are_refused_in_one_sentence(client: TestClient, body: bytes, message: str) -> None:
    response = client.post(PLAIN, content=body, headers=JSON)
    assert response.status_code in (400, 422)
    assert message in response.json()["detail"]
    assert len(response.text) < 1000


def test_what_another_site_can_send_without_asking_is_refused(serve: Callable[..., TestClient]) -> None:
    client = serve()
    body = b'{"sentences": ["a"]}'
    for headers in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}):
        assert client.post(PLAIN, content=body, headers=headers).status_code == 422
    assert client.post(PLAIN, content=body, headers=JSON).status_code == 200
    for host in ("127.0.0.1", "localhost:8000", "[::1]:8000", "[::1]", "LOCALHOST"):
        assert client.get("/", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8000", "", "[::2]", "localhost:a"):
        for path in ("/", "/api/model"):
            assert client.get(path, headers={"Host": host}).status_code == 400
    assert serve(hosts=["*"]).get("/", headers={"Host": "translate.example"}).status_code == 200


def test_large_requests_are_refused_and_not_kept(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_BYTES", 5_000)
    for _ in range(3):
        response = client.post(PLAIN, content=(b" " * 1000 for _ in range(6)), headers=JSON)
        assert response.status_code == 413
        assert response.json()["detail"].startswith("the request has more than 5,000 bytes")
    monkeypatch.setattr(server, "MOST_BYTES_TOGETHER", 50)
    for _ in range(3):  # what was read makes room again
        assert ask(client, "the dog sleeps .")[0]["translations"]
    monkeypatch.setattr(server, "MOST_BYTES_TOGETHER", 20)
    response = client.post(PLAIN, json={"sentences": ["the dog sleeps ."]})
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")


@pytest.mark.parametrize("path", [PLAIN, STREAM])
def test_a_full_queue_is_politely_busy(serve: Callable[..., TestClient], endless: Endless, path: str) -> None:
    client = serve(waiting=1, seconds=1.0)
    slow = threading.Thread(target=client.post, args=(path,), kwargs={"json": {"sentences": ["slow"]}})
    slow.start()
    assert endless.begun.wait(PATIENCE)
    response = client.post(path, json={"sentences": ["a", "b"]})
    slow.join(PATIENCE)  # the client may not be closed while it sends
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    assert response.json() == {"detail": server.BUSY}


def test_a_sentence_that_is_translated_in_the_pauses_of_another_changes_neither(translator: Translator) -> None:
    long, short = ([translator.read_source(text)] for text in ("the black cat eats ." * 3, "the dog sleeps ."))
    expected, within = [translator.search(sources, nbest=3) for sources in (long, short)], []
    again = translator.search(long, nbest=3, on_step=lambda best: within.append(translator.search(short, nbest=3)))
    for (one,), (other,) in [(again, expected[0]), *((each, expected[1]) for each in within)]:
        assert [(each.text, each.score) for each in one] == [(each.text, each.score) for each in other]


@pytest.mark.parametrize("path", [PLAIN, STREAM])
def test_what_the_client_has_left_is_given_up(
    translator: Translator, endless: Endless, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    asyncio.run(leave(make_app(worker.Worker(translator, Limits(seconds=10 * PATIENCE))), path, endless))
    assert endless.searches == 1
    assert not any(record.name.startswith("rnnsearch") for record in caplog.records)


@pytest.mark.parametrize("number", [1, 2])
def test_a_client_that_has_left_ends_each_part_of_the_work(
    translator: Translator, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    parts, done = ["read_source", "search"], []
    for name in parts:
        part = getattr(translator, name)
        monkeypatch.setattr(translator, name, lambda *a, n=name, p=part, **k: [done.append(n), p(*a, **k)][1])

    def pause() -> None:
        if len(done) == number:
            raise Abandoned

    job = Job(SimpleNamespace(abandoned=False, show=print), 0, 2, "the dog sleeps .", None, 7)
    with pytest.raises(Abandoned):
        worker.Worker(translator)([job], pause)
    assert done == parts[:number]


# Safety of the page


@pytest.mark.parametrize("path", ["/", "/page.js", "/api/model", "/nowhere"])
def test_every_response_forbids_what_the_page_does_not_need(client: TestClient, path: str) -> None:
    for headers in ({}, {"Origin": "http://evil.example"}, {"Host": "evil.example"}):
        response = client.get(path, headers=headers)
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy and "unsafe" not in policy and "http" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert not [name for name in response.headers if name.startswith("access-control")]


# The command


def test_addresses_that_only_this_machine_reaches_are_known() -> None:
    assert all(map(command.is_loopback, ("127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.3")))
    assert not any(map(command.is_loopback, ("0.0.0.0", "::", "192.168.1.7", "fe80::1%lo")))


def test_link_parser_is_started_for_models_that_read_english_trees(
    translator: Translator, tree_translator: Translator, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    assert command.start_parser(translator) is None
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("PATH", "/nowhere")
    assert command.start_parser(tree_translator) is None
    message = "sentences are not parsed: link-parser is not on the PATH; install it"
    assert capsys.readouterr().err.startswith(message)
    monkeypatch.setattr(command, "check_installed", lambda: None)
    monkeypatch.setattr(command.LinkParser, "parse", lambda self, words: "(S (X hello))")
    assert isinstance(command.start_parser(tree_translator), command.LinkParser)


def test_an_address_in_use_is_refused_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"--host 127.0.0.1 --port {port}: cannot listen there"):
            command.listen("127.0.0.1", port)


def test_without_the_web_library_the_command_names_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["serve", "--model", "x.pt"])
    monkeypatch.setitem(sys.modules, "rnnsearch_fairseq.serve.connections", None)
    with pytest.raises(InputError, match=r"pip install 'rnnsearch-fairseq\[serve\]'"):
        command.main()
