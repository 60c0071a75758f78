"""The JSON API and what keeps the server alive, without a network."""

import asyncio
import json
import logging
import math
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx")  # the test client asks for it
pytest.importorskip("jsonschema")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

import jsonschema
from starlette.applications import Starlette
from starlette.testclient import TestClient

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference import translator as hub_module
from rnnsearch_fairseq.inference.translator import Translator as TranslationHub
from rnnsearch_fairseq.serve import examples, server, translator
from rnnsearch_fairseq.serve import main as command
from rnnsearch_fairseq.serve.batching import Batcher
from rnnsearch_fairseq.serve.server import LOOPBACK, make_app
from rnnsearch_fairseq.serve.translator import Limits
from rnnsearch_fairseq.text.link_grammar import Failure
from tests.serve.live import PATIENCE
from tests.trained import PAIRS, PARSES, train

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore::UserWarning")]

SENTENCES = ["The black cat eats.", "It's a zebra."]
STREAM, PLAIN = "/api/translate/stream", "/api/translate"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("plain") / "run")


@pytest.fixture(scope="module")
def hub(folder: Path) -> TranslationHub:
    return hub_module.load(folder)


@pytest.fixture(scope="module")
def tree_hub(tmp_path_factory: pytest.TempPathFactory) -> TranslationHub:
    return hub_module.load(train(tmp_path_factory.mktemp("tree") / "run", "tree2seq_small"))


@pytest.fixture
def serve(hub: TranslationHub) -> Iterator[Callable[..., TestClient]]:
    """Starts servers with some limits changed."""
    started: list[TestClient] = []

    def start(
        model: TranslationHub = hub, hosts: Sequence[str] = LOOPBACK, parser: Any = None, **limits: Any
    ) -> TestClient:
        app = make_app(model, replace(Limits(), **limits), hosts, ["The dog sleeps."], parser)
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
    check(client, "Answer", answer)
    assert len(answer["sentences"]) == len(sentences)
    return answer["sentences"]


def check(client: TestClient, schema: str, document: Any) -> None:
    """``document`` is one of those that /openapi.json describes by this name."""
    described = client.get("/openapi.json").json()
    jsonschema.validate(document, {"$ref": f"#/components/schemas/{schema}", "components": described["components"]})


class Endless:
    """A search for "slow" that ends only when it is stopped; other sentences are searched for as ever."""

    def __init__(self, hub: TranslationHub, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hub, self.searches = hub, 0
        self.begun, self.ended = threading.Event(), threading.Event()
        monkeypatch.setattr(hub, "search", self.search)

    def search(self, sources: Any, generator: Any, nbest: int, on_step: Callable[..., None]) -> Any:
        if sources[0].words != ["slow"]:
            return TranslationHub.search(self.hub, sources, generator, nbest, on_step)
        self.searches += 1
        self.begun.set()
        try:
            for _ in range(100 * PATIENCE):
                on_step({0: self.hub.tgt_dict.encode_line("le", add_if_not_exist=False)})
                time.sleep(0.01)
        finally:
            self.ended.set()


async def request(
    app: Starlette, path: str, chunks: Sequence[bytes], left: Callable[[], Any], whole: bool = True
) -> list[dict[str, Any]]:
    """Send a request as uvicorn does, and leave when ``left()`` is over.

    Returns:
        The messages of the answer.
    """
    sent: list[dict[str, Any]] = []
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages[-1]["more_body"] = not whole

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop(0)
        await left()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b"", "app": app}
    await app(scope | {"asgi": {"version": "3.0", "spec_version": "2.3"}}, receive, send)
    return sent


# Answers


def test_translations_are_those_of_the_api_with_words_and_weights(client: TestClient, hub: TranslationHub) -> None:
    answers = ask(client, *SENTENCES)
    found = hub.translations(SENTENCES, nbest=1)
    expected = hub.align_words([(hub.read_source(line), best.words) for line, (best,) in zip(SENTENCES, found)])
    for answer, (best,), alignment in zip(answers, found, expected):
        (translation,) = answer["translations"]
        assert translation["text"] == best.text
        assert translation["score"] == pytest.approx(best.score, abs=1e-4)
        assert translation["logprob"] == pytest.approx(alignment.logprobs.sum().item(), abs=1e-4)
        assert sum(word["logprob"] for word in translation["words"]) == pytest.approx(translation["logprob"], abs=1e-3)
        assert [len(row) for row in translation["alignment"]] == [len(answer["source"])] * len(translation["words"])
        for ours, theirs in zip(translation["alignment"], alignment.weights.tolist()):
            assert ours == pytest.approx(theirs, abs=1e-4)
        assert "phrases" not in answer
    assert [word["text"] for word in answers[1]["source"]] == ["it", "'s", "a", "zebra", ".", "</s>"]
    assert [word["unknown"] for word in answers[1]["source"]] == [False, False, False, True, False, False]


def test_the_stream_ends_in_the_same_answer(client: TestClient) -> None:
    assert ask(client, *SENTENCES, path=STREAM) == ask(client, *SENTENCES)


def test_the_stream_shows_what_is_found_so_far(
    client: TestClient, hub: TranslationHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, until = threading.Semaphore(0), server._PartialTexts.until

    async def watched(*args: Any) -> AsyncIterator[bytes]:
        async for line in until(*args):
            yield line
            sent.release()

    def search(sources: Any, generator: Any, nbest: int, on_step: Callable[..., None]) -> Any:
        for words in range(1, 4):
            on_step({1: hub.tgt_dict.encode_line("le chat noir", add_if_not_exist=False).long()[:words]})
            assert sent.acquire(timeout=PATIENCE)
        return TranslationHub.search(hub, sources, generator, nbest)

    monkeypatch.setattr(translator, "SECONDS_BETWEEN_PARTIALS", 0)
    monkeypatch.setattr(server._PartialTexts, "until", watched)
    monkeypatch.setattr(hub, "search", search)
    response = client.post(STREAM, json={"sentences": SENTENCES})
    *partials, answer = map(json.loads, response.text.splitlines())
    assert response.headers["content-type"] == "application/x-ndjson"
    assert [partial["text"] for partial in partials] == ["le", "le chat", "le chat noir"]
    for partial in partials:
        check(client, "Partial", partial)
        assert partial["sentence"] == 1
    check(client, "Answer", answer)


def test_the_nbest_come_when_asked_for(client: TestClient, hub: TranslationHub) -> None:
    ((one,), several) = (ask(client, "the dog eats .", nbest=n)[0]["translations"] for n in (1, 4))
    texts = [[best.text for best in found] for found in hub.translations(["the dog eats ."], nbest=4)]
    assert [[translation["text"] for translation in several]] == texts
    assert several[0] == one
    (bare,) = ask(client, "the dog eats .", alignment=False)[0]["translations"]
    assert bare == {name: value for name, value in one.items() if name != "alignment"}


def test_phrases_come_with_the_parse(serve: Callable[..., TestClient], tree_hub: TranslationHub) -> None:
    client = serve(tree_hub)
    with_parse, without, wrong = ask(client, *["the black cat eats ."] * 3, trees=[PARSES[2], None, PARSES[3]])
    assert with_parse["phrases"] == [[0, 5], [0, 3], [1, 3], [3, 5]]
    (translation,) = with_parse["translations"]
    assert {len(row) for row in translation["phrase_alignment"]} == {4}
    assert without["phrases"] == []
    assert wrong["error"].startswith("sentence 3: leaf 3 of its parse is 'dog', but word 3 is 'cat'")
    assert client.get("/api/model").json()["reads_trees"] is True


class Parser:
    """Stands in for link-parser: the parses of PAIRS, and none for other sentences."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.closed = False

    def parse(self, words: Sequence[str]) -> str | Failure:
        self.asked.append(" ".join(words))
        parses = dict(zip(PAIRS, PARSES))
        return parses.get(self.asked[-1], Failure.TIMEOUT)

    def close(self) -> None:
        self.closed = True


def test_sentences_without_a_tree_are_parsed_when_asked_for(tree_hub: TranslationHub) -> None:
    parser = Parser()
    with TestClient(make_app(tree_hub, parser=parser), base_url="http://localhost") as client:
        sentences = ["the dog sleeps .", "the black cat eats .", "the dog eats ."]
        given, parsed, failed = ask(client, *sentences, trees=["(S (X the dog) sleeps .)", None, None], parse=True)
        assert given["phrases"] == [[0, 4], [0, 2], [2, 4]]
        assert parsed["phrases"] == [[0, 5], [0, 3], [1, 3], [3, 5]]
        assert failed["phrases"] == []
        assert failed["translations"]
        assert parser.asked == sentences[1:]
        (unparsed,) = ask(client, sentences[1])
        assert unparsed["phrases"] == []
        assert parser.asked == sentences[1:]
        assert client.get("/api/model").json()["parses"] is True
    assert parser.closed


def test_a_batch_is_not_parsed_for_long(
    serve: Callable[..., TestClient], tree_hub: TranslationHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translator, "SECONDS_TO_PARSE", 0)
    parser = Parser()
    (answer,) = ask(serve(tree_hub, parser=parser), "the dog sleeps .", parse=True)
    assert (answer["phrases"], parser.asked) == ([], [])


def test_the_model_is_described(client: TestClient) -> None:
    model = client.get("/api/model").json()
    check(client, "Model", model)
    assert (model["source_lang"], model["target_lang"], model["beam"]) == ("en", "fr", 5)
    assert (model["reads_trees"], model["parses"], model["examples"]) == (False, False, ["The dog sleeps."])


def test_examples_are_sentences_of_known_words_the_most_usual_first(
    hub: TranslationHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = ["The cat sleeps.", "The zebra sleeps.", "The dog sleeps.", "It's a cat.", "The cat."]
    monkeypatch.setitem(examples.SENTENCES, "en", usual)
    assert examples.choose_examples(hub) == ["The cat.", "The cat sleeps.", "The dog sleeps."]
    monkeypatch.delitem(examples.SENTENCES, "en")
    assert examples.choose_examples(hub) == []


def test_the_document_is_whole(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    text = json.dumps(document)
    for name in document["components"]["schemas"]:
        assert f'"#/components/schemas/{name}"' in text or name == "Partial"
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    assert set(document["paths"]) == {"/api/model", PLAIN, STREAM}


# Refusals


@pytest.mark.parametrize("path", [PLAIN, STREAM])
def test_bad_sentences_are_refused_by_number_and_the_others_answered(client: TestClient, path: str) -> None:
    bad = ["漢" * 10**6, "a " * 101, "\ud800", "the dog"]
    trees = [None, None, None, "(" * 10**6]
    fields = {"sentences": [*bad, "the dog sleeps ."], "trees": [*trees, None]}
    response = client.post(path, content=json.dumps(fields), headers={"Content-Type": "application/json"})
    *refused, good = json.loads(response.text.splitlines()[-1])["sentences"]
    assert [answer["error"].partition(";")[0] for answer in refused] == [
        "sentence 1 has 1,000,000 characters, and at most 2,000 are read",
        "sentence 2 has 101 words, and at most 100 are read",
        "sentence 3: character 1 is half of a surrogate pair",
        "the parse of sentence 4 has 1,000,000 characters, and at most 40,000 are read",
    ]
    assert good["translations"][0]["text"] == "le chien dort."


@pytest.mark.parametrize("path", [PLAIN, STREAM])
def test_a_blank_sentence_has_an_empty_translation(client: TestClient, path: str) -> None:
    *blank, good = ask(client, "", " \u2028\t\0", "the dog sleeps .", path=path)
    for answer in blank:
        (translation,) = answer["translations"]
        assert (translation["text"], translation["score"]) == ("", 0)
        assert [word["text"] for word in translation["words"]] == ["</s>"]
    assert good["translations"][0]["text"] == "le chien dort."


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "not an object"),
        (b"{}", "not a list of strings"),
        (b'{"sentences": "the dog"}', "not a list of strings"),
        (b'{"sentences": [1]}', "not a list of strings"),
        (b'{"sentences": []}', "there are 0 sentences; send 1 to 32"),
        (json.dumps({"sentences": ["a"] * 33}).encode(), "there are 33 sentences"),
        (b'{"sentences": ["a"], "nbest": 6}', "not a number from 1 to 5"),
        (b'{"sentences": ["a"], "nbest": true}', "not a number from 1 to 5"),
        (b'{"sentences": ["a"], "alignment": 1}', '"alignment" is neither true nor false'),
        (b'{"sentences": ["a"], "parse": null}', '"parse" is neither true nor false'),
        (b'{"sentences": ["a"], "parse": true}', "this server parses no sentences"),
        (b'{"sentences": ["a"], "trees": [1]}', "not a list of strings and nulls"),
        (b'{"sentences": ["a"], "trees": []}', "1 sentences and 0 trees"),
        (b'{"sentences": ["a"], "beam": 3}', 'the unknown field "beam"'),
        (b'{"sentences": ["a"], "\\ud800' + b"x" * 1000 + b'": 3}', 'the unknown field "\\ud800xxx'),
    ],
)
def test_requests_of_another_form_are_refused_in_one_sentence(client: TestClient, body: bytes, message: str) -> None:
    response = client.post(PLAIN, content=body, headers={"Content-Type": "application/json; charset=utf-8"})
    assert response.status_code == 400
    check(client, "Error", response.json())
    assert message in response.json()["error"]
    assert len(response.json()["error"]) < 150


def test_other_methods_paths_and_kinds_are_refused_in_json(client: TestClient) -> None:
    assert client.post(PLAIN, content=b"sentences=x").status_code == 415
    form = {"Content-Type": "text/plain"}
    assert client.post(PLAIN, content=b'{"sentences": ["a"]}', headers=form).status_code == 415
    for path in (PLAIN, STREAM):
        response = client.get(path)
        assert (response.status_code, response.headers["Allow"]) == (405, "POST")
        message = "the request's method is GET; send POST, as /openapi.json describes"
        assert response.json() == {"error": message}
    for response, status in ((client.get("/nowhere"), 404), (client.get("/api/nowhere"), 404), (client.post("/"), 405)):
        assert response.status_code == status
        check(client, "Error", response.json())


@pytest.mark.parametrize("size", [6, 15, 1000])
def test_a_large_request_is_refused_and_not_held(serve: Callable[..., TestClient], size: int) -> None:
    client = serve(bytes=5000, all_bytes=5000)
    kind = {"Content-Type": "application/json"}
    for _ in range(3):
        response = client.post(PLAIN, content=(b" " * 1000 for _ in range(size)), headers=kind)
        assert response.status_code == 413
        assert response.json()["error"].startswith("the request has more than 5,000 bytes")
    assert ask(client, "the dog sleeps .")[0]["translations"]


def test_requests_that_are_too_large_together_are_politely_refused(serve: Callable[..., TestClient]) -> None:
    response = serve(all_bytes=20).post(PLAIN, json={"sentences": ["the dog sleeps ."]})
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    client = serve(all_bytes=60)
    for _ in range(3):  # what was read makes room again
        assert ask(client, "the dog sleeps .")[0]["translations"]


def test_a_full_queue_is_politely_busy(
    serve: Callable[..., TestClient], hub: TranslationHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, opened, submitted = threading.Event(), threading.Event(), threading.Semaphore(0)

    def search(*args: Any) -> Any:
        entered.set()
        assert opened.wait(PATIENCE)
        return TranslationHub.search(hub, *args)

    class Told(Batcher[Any, Any]):
        def submit(self, items: Sequence[Any]) -> Any:
            futures = super().submit(items)
            submitted.release()
            return futures

    monkeypatch.setattr(hub, "search", search)
    monkeypatch.setattr(server, "Batcher", Told)
    client = serve(waiting=2, at_once=1)
    results: list[Any] = []
    users = [threading.Thread(target=lambda: results.append(ask(client, "the dog sleeps ."))) for _ in range(3)]
    users[0].start()
    assert entered.wait(PATIENCE)
    for user in users[1:]:
        user.start()
    for _ in users:
        assert submitted.acquire(timeout=PATIENCE)
    for path in (PLAIN, STREAM):
        response = client.post(path, json={"sentences": ["the dog"]})
        assert response.status_code == 503
        assert response.headers["Retry-After"] == "1"
        check(client, "Error", response.json())
        assert "busy; please try again" in response.json()["error"]
    opened.set()
    for user in users:
        user.join(PATIENCE)
    assert [answer["translations"][0]["text"] for (answer,) in results] == ["le chien dort."] * 3


@pytest.fixture
def endless(hub: TranslationHub, monkeypatch: pytest.MonkeyPatch) -> Endless:
    return Endless(hub, monkeypatch)


@pytest.mark.parametrize(("path", "status"), [(PLAIN, 503), (STREAM, 200)])
def test_what_takes_too_long_is_given_up(
    client: TestClient, endless: Endless, caplog: pytest.LogCaptureFixture, path: str, status: int
) -> None:
    api = client.app.routes[0].routes[0].endpoint.__self__
    api._limits = replace(Limits(), seconds=0.1)
    response = client.post(path, json={"sentences": ["slow"] * 2})
    assert response.status_code == status
    assert response.headers.get("Retry-After") == ("1" if status == 503 else None)
    error = json.loads(response.text.splitlines()[-1])
    check(client, "Error", error)
    assert error["error"].startswith("the server did not finish in time; please send fewer sentences")
    assert endless.ended.wait(PATIENCE), "the search goes on for nobody"
    api._limits = Limits()
    assert ask(client, "the dog sleeps .", path=path)[0]["translations"][0]["text"] == "le chien dort."
    assert endless.searches == 1
    assert [record for record in caplog.records if record.name.startswith("rnnsearch")] == []


@pytest.mark.parametrize("path", [PLAIN, STREAM])
def test_what_the_client_has_left_is_given_up(
    hub: TranslationHub, endless: Endless, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    async def leave() -> None:
        left = asyncio.Event()
        body = json.dumps({"sentences": ["slow"] * 2}).encode()
        asking = asyncio.create_task(request(app, path, [body], left.wait))
        async with app.router.lifespan_context(app):
            await asyncio.to_thread(endless.begun.wait, PATIENCE)
            left.set()
            await asyncio.wait_for(asking, PATIENCE)
            assert await asyncio.to_thread(endless.ended.wait, PATIENCE)

    app = make_app(hub, Limits(seconds=10 * PATIENCE))
    asyncio.run(leave())
    assert endless.searches == 1
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []


def test_a_request_that_comes_too_slowly_is_refused(hub: TranslationHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SECONDS_TO_READ", 0.01)
    never = asyncio.Event()
    start, body = asyncio.run(request(make_app(hub), PLAIN, [b'{"sentences": '], never.wait, whole=False))
    assert start["status"] == 408
    assert (b"connection", b"close") in start["headers"]
    assert json.loads(body["body"]) == {"error": "the request came too slowly; send it again"}


@pytest.mark.parametrize("error", [RuntimeError("out of memory"), MemoryError(), SystemExit(1), KeyboardInterrupt()])
def test_a_failure_costs_only_its_sentence(
    client: TestClient, hub: TranslationHub, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def search(sources: Any, *args: Any) -> Any:
        if any("zebra" in source.words for source in sources):
            raise error
        return TranslationHub.search(hub, sources, *args)

    monkeypatch.setattr(hub, "search", search)
    for path in (PLAIN, STREAM):
        good, bad, other = ask(client, "the dog sleeps .", "a zebra", "the cat sleeps .", path=path)
        assert bad["error"].startswith("sentence 2 cannot be translated: the server failed")
        assert [found["translations"][0]["text"] for found in (good, other)] == ["le chien dort.", "le chat dort."]


def test_a_mistake_of_the_server_is_no_traceback(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_jobs", lambda *args: 1 / 0)
    response = client.post(PLAIN, json={"sentences": ["a"]})
    assert (response.status_code, response.json()) == (500, {"error": "the server failed; its log has the error"})
    assert response.headers["X-Content-Type-Options"] == "nosniff"


# Safety


def test_other_sites_cannot_reach_it_by_a_name_of_their_own(
    client: TestClient, serve: Callable[..., TestClient]
) -> None:
    for host in ("127.0.0.1", "localhost:8000", "[::1]:8000", "[::1]", "LOCALHOST"):
        assert client.get("/", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8000", "", "[::2]", "localhost:a"):
        for path in ("/", "/api/model"):
            response = client.get(path, headers={"Host": host})
            assert response.status_code == 400
            check(client, "Error", response.json())
    assert serve(hosts=["*"]).get("/", headers={"Host": "translate.example"}).status_code == 200


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        *((address, True) for address in ("127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.3")),
        *((address, False) for address in ("0.0.0.0", "::", "192.168.1.7", "fe80::1%lo")),
    ],
)
def test_addresses_that_only_this_machine_reaches_are_known(address: str, loopback: bool) -> None:
    assert command.is_loopback(address) == loopback


@pytest.mark.parametrize("path", ["/", "/page.js", "/page.css", "/api/model", "/nowhere"])
def test_every_response_forbids_what_the_page_does_not_need(client: TestClient, path: str) -> None:
    for headers in ({}, {"Origin": "http://evil.example"}, {"Host": "evil.example"}):
        response = client.get(path, headers=headers)
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert not [name for name in response.headers if name.startswith("access-control")]


def test_the_page_needs_nothing_from_elsewhere() -> None:
    page = Path(server.__file__).parent / "page"
    for path in page.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "//" not in "".join(line for line in text.splitlines() if "http" in line or "url(" in line)
        assert not any(word in text for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write"))
        assert " style=" not in text
        assert " onclick=" not in text


# The command


def parse(*words: str) -> tuple[Any, dict[str, Any]]:
    return command.parse_arguments(["--path", "x.pt", *words])


def test_only_options_that_are_given_are_passed_on() -> None:
    args, options = parse()
    assert (args.host, args.port, options) == ("127.0.0.1", 8000, {})
    words = ["--beam", "12", "--search", "groundhog", "--unkpen", "inf", "--unnormalized"]
    _, options = parse(*words, "--tokenizer", "moses", "--moses-no-escape", "--bpe", "none")
    assert options == {
        "beam": 12,
        "search": "groundhog",
        "unkpen": math.inf,
        "unnormalized": True,
        "tokenizer": "moses",
        "moses_no_escape": True,
        "bpe": None,
    }


def test_examples_can_be_given() -> None:
    args, _ = parse("--example", "The dog sleeps.", "--example", "It's a cat.")
    assert args.example == ["The dog sleeps.", "It's a cat."]


def test_link_parser_is_started_for_models_that_read_english_trees(
    hub: TranslationHub,
    tree_hub: TranslationHub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.start_parser(hub) is None
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command.start_parser(tree_hub) is None
    message = "sentences are not parsed: link-parser is not on the PATH; install it"
    assert capsys.readouterr().err.startswith(message)
    monkeypatch.setattr(command, "check_installed", lambda: None)
    monkeypatch.setattr(command.LinkParser, "parse", lambda self, words: "(S (X hello))")
    assert isinstance(command.start_parser(tree_hub), command.LinkParser)
    monkeypatch.setattr(tree_hub.task.cfg, "source_lang", "de")
    assert command.start_parser(tree_hub) is None


def test_a_checkpoint_is_loaded_from_where_it_lies(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    args, options = command.parse_arguments(["--path", "checkpoints/checkpoint_best.pt", "--beam", "3", "--cpu"])
    loaded = command.load_model(args, options)
    assert loaded.cfg.generation.beam == 3
    assert loaded.translate("The dog sleeps.") == "le chien dort."


def test_an_address_in_use_is_refused_in_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"--host 127.0.0.1 --port {port}: cannot listen there"):
            command.listen("127.0.0.1", port)
    for host, port in (("127.0.0.1", 99999), ("203.0.113.1", 0), ("no.such.host.invalid", 0)):
        with pytest.raises(InputError, match="cannot listen there"):
            command.listen(host, port)


@pytest.mark.parametrize(
    ("words", "message"), [(["--max-words", "0"], "--max-words is 0"), (["--path", "nowhere/x.pt"], "no such folder")]
)
def test_the_command_refuses_in_one_sentence(monkeypatch: pytest.MonkeyPatch, words: list[str], message: str) -> None:
    monkeypatch.setattr(sys, "argv", ["serve", "--path", "x.pt", *words])
    with pytest.raises(InputError, match=message):
        command.main()


def test_without_the_web_library_the_command_names_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["serve", "--path", "x.pt"])
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(InputError, match=r"pip install 'rnnsearch-fairseq\[serve\]'"):
        command.main()
