"""LibreTranslate's API, without a network."""

import pytest

pytest.importorskip("httpx")  # the test client asks for it

from fastapi.testclient import TestClient
from pydantic import TypeAdapter

from rnnsearch_fairseq.serve.messages import Words
from rnnsearch_fairseq.text.piece import Piece

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore::UserWarning")]

EN_FR = {"source": "en", "target": "fr"}


def test_long_texts_are_translated_in_parts(client: TestClient) -> None:
    lines = "".join(f"{number} The dog sleeps.\n\n" for number in range(240))
    texts = [lines, "The dog sleeps. " * 300, *lines.splitlines()]
    answer = client.post("/translate", json={"q": texts, **EN_FR}).json()["translatedText"]
    assert answer[0].count("\n\n") == 240 and answer[1] == "le chien dort. " * 300
    assert [bool(text) for text in answer[2:]] == [True, False] * 240


def test_a_text_that_cannot_be_translated_refuses_no_other_one(client: TestClient) -> None:
    good, bad = texts = ["The dog sleeps.", "x" * 10_001]
    both, one, none = (client.post("/translate", json={"q": q, **EN_FR}).json() for q in (texts, good, bad))
    assert both["translatedText"] == ["le chien dort.", bad]
    assert both["faults"][0] == [] and "10,001 characters" in both["faults"][1][0]
    assert one == {"translatedText": "le chien dort.", "faults": []} and "10,001 characters" in none["error"]


def test_what_a_translation_lacks_is_named_in_both_apis(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Piece, "find_faults", lambda *_: (["lacks 37"], []))
    text = "The dog sleeps (37)."
    answer = client.post("/translate", json={"q": text, **EN_FR}).json()
    (sentence,) = client.post("/api/translate", json={"sentences": [text]}).json()["sentences"]
    assert answer["faults"] == sentence["translations"][0]["faults"] == ["lacks 37"]


def test_html_is_read_as_pages_are_and_what_is_no_text_stays(client: TestClient) -> None:
    text = "<p class='a'>The dog sleeps.<br>\n<b> The black cat eats. </b></p> &amp; <!-- the dog <b> -->"
    text += "<script>var dog = '<p>The dog sleeps.';</script><a title='1 > 2'>1</a> &#" + "9" * 5_000 + ";"
    answer = client.post("/translate", json={"q": text, **EN_FR, "format": "html"}).json()
    expected = text.replace("The dog sleeps.<", "le chien dort.<").replace("The black cat eats.", "le chat noir mange.")
    assert answer == {"translatedText": expected, "faults": []}
    assert TypeAdapter(Words).validate_python(["&#" + "9" * 5_000 + ";", "&apos;"]) == ["\ufffd", "'"]


def test_alternatives_and_the_detected_language_are_given_if_asked_for(client: TestClient) -> None:
    fields = {"q": ["The dog sleeps.\n- -", ""], "source": "auto", "target": "fr-CA", "alternatives": 3}
    answer = client.post("/translate", json=fields).json()
    (first, *others), none = answer["alternatives"]
    assert answer["translatedText"] == ["le chien dort.\n- -", ""]
    assert len({first, *others, answer["translatedText"][0]}) == 4 and none == []
    assert all(text.endswith("\n- -") for text in (first, *others))
    assert answer["detectedLanguage"] == [{"confidence": 0, "language": "en"}] * 2


def test_the_languages_and_the_health_of_the_server(client: TestClient) -> None:
    english, french = {"code": "en", "name": "English"}, {"code": "fr", "name": "French"}
    assert client.get("/languages").json() == [{**english, "targets": ["fr"]}, {**french, "targets": []}]
    assert client.get("/health").json() == {"status": "ok"}
    answer = client.post("/translate?q=The+dog+sleeps.&source=en&target=fr")  # of deep-translator
    assert answer.json()["translatedText"] == "le chien dort."
