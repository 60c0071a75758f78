"""The JSON API, without a network, and the command's addresses."""

import html
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("httpx")  # the test client asks for it

import uvicorn
from fastapi.testclient import TestClient

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.translator import Translator, load
from rnnsearch_fairseq.serve import server, worker
from tests.trained import PARSES

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore::UserWarning")]

SENTENCES = ["The black cat eats.", "It's a zebra."]
API = "/api/translate"


def ask(client: TestClient, *sentences: str, **fields: Any) -> list[dict[str, Any]]:
    response = client.post(API, json={"sentences": list(sentences), **fields})
    assert response.status_code == 200, response.text
    answers = response.json()["sentences"]
    assert len(answers) == len(sentences)
    return answers


def test_translations_words_and_weights_are_those_of_the_translator(client: TestClient, translator: Translator) -> None:
    answers = ask(client, *SENTENCES, nbest=4)
    for answer, expected in zip(answers, translator.translations(SENTENCES, nbest=4)):
        for translation, pair in zip(answer["translations"], expected, strict=True):
            assert (translation["text"], translation["target"]) == (pair.text, [*map(html.unescape, pair.target)])
            assert translation["target_unknown"] == pair.target_unknown
            assert translation["score"] == pytest.approx(pair.score, abs=1e-4)
            assert translation["logprobs"] == pytest.approx(pair.logprobs.tolist(), abs=1e-4)
            torch.testing.assert_close(torch.tensor(translation["weights"]), pair.weights, atol=1e-4, rtol=0)
        assert answer["phrases"] is None
    assert answers[1]["source"] == ["it", "'s", "a", "zebra", ".", "</s>"]
    assert answers[1]["source_unknown"] == [False, False, False, True, False, False]


def test_too_many_weights_are_left_out(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of two sentences, whose matrix has zeros between them, and one of them alone."""
    text = "The black cat eats.\nThe dog sleeps."
    monkeypatch.setattr(worker, "MAX_WEIGHTS", 36)
    alone, together = ask(client, "The black cat eats.", text)
    assert len(alone["translations"][0]["weights"]) == 6
    assert together["translations"][0]["weights"] is None and together["translations"][0]["logprobs"]


def test_phrases_come_with_a_given_parse(serve: Callable[..., TestClient], model: Path) -> None:
    client = serve(load(model))
    sentences = ["the dog sleeps .", "the black cat eats .", "the dog eats .", "the cat sleeps ."]
    *answers, wrong = ask(client, *sentences, trees=["(S (X the dog) sleeps .)", PARSES[2], None, PARSES[3]])
    phrases = [[[0, 4], [0, 2], [2, 4]], [[0, 5], [0, 3], [1, 3], [3, 5]], []]
    assert [answer["phrases"] for answer in answers] == phrases
    assert {len(row) for row in answers[1]["translations"][0]["phrase_weights"]} == {4}
    assert "the text: leaf 2 of the parse" in wrong["error"]
    assert client.get("/api/model").json()["reads_trees"] is True


def test_the_model_and_the_api_are_described(
    serve: Callable[..., TestClient], translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translator, "examples", ["The dog sleeps."])
    monkeypatch.setattr(translator, "description", "Trained on\ndogs.\n\nMore of it.")
    client = serve()
    model = {"source_lang": "en", "target_lang": "fr", "beam": 5, "reads_trees": False, "examples": ["The dog sleeps."]}
    assert client.get("/api/model").json() == {**model, "about": "Trained on dogs.", "max_translations": 32}
    assert {"/api/model", API} < {*client.get("/openapi.json").json()["paths"]}
    assert client.get("/").text.startswith("<!DOCTYPE html>")


def test_bad_sentences_are_refused_and_the_others_answered_until_the_queue_is_full(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    long, blank, other = ask(client, "x" * 10_001, " \u2028\t", "the dog sleeps .")
    assert "the text has 10,001 characters" in long["error"]
    (many,) = ask(client, "a " * 4_500)
    assert "subwords; at most 4,000 are translated" in many["error"]
    assert [blank["translations"][0][name] for name in ("text", "score")] == [" \u2028\t", 0]
    assert other["translations"][0]["text"] == "le chien dort."
    monkeypatch.setattr(worker, "MAX_WAITING", 0)
    response = client.post(API, json={"sentences": ["a", "b"]})
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    assert "busy" in response.json()["error"]


@pytest.mark.parametrize(("host", "answered"), [("127.0.0.2", ["127.0.0.2", "localhost"]), ("0.0.0.0", ["other"])])
def test_at_a_loopback_address_only_its_names_are_answered(
    host: str, answered: list[str], translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    apps = []
    monkeypatch.setattr(sys, "argv", ["serve", "--model", "m", "--host", host, "--port", "0"])
    monkeypatch.setattr(server, "load_with_replacements", lambda args: translator)
    monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: apps.append(server.config.app))
    server.main()
    client = TestClient(apps[0])
    for name in ("127.0.0.2", "localhost", "127.0.0.3", "other"):
        status = client.get("/", headers={"Host": name}).status_code
        assert status == (200 if name in answered or "other" in answered else 400), name
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"--host 127.0.0.1 --port {port}"):
            server.open_socket("127.0.0.1", port)
