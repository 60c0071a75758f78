"""LibreTranslate's API, without a network."""

import pytest

pytest.importorskip("httpx")  # the test client asks for it

from fastapi.testclient import TestClient

pytestmark = [pytest.mark.train, pytest.mark.filterwarnings("ignore::UserWarning")]

EN_FR = {"source": "en", "target": "fr"}


def test_a_text_and_several_by_json_and_by_form(client: TestClient) -> None:
    one, two = "The dog sleeps.", "The black cat eats."
    assert client.post("/translate", json={"q": one, **EN_FR}).json() == {"translatedText": "le chien dort."}
    several = client.post("/translate", json={"q": [one, two, "", "..."], **EN_FR, "api_key": None}).json()
    assert several == {"translatedText": ["le chien dort.", "le chat noir mange.", "", "..."]}
    assert client.post("/translate", data={"q": two, **EN_FR}).json() == {"translatedText": "le chat noir mange."}


def test_texts_may_have_more_sentences_than_take_a_turn(client: TestClient) -> None:
    texts = ["\n".join(f"{number} {line} dog" for line in range(3)) for number in range(20)]
    answer = client.post("/translate", json={"q": texts, **EN_FR}).json()
    assert [text.count("\n") for text in answer["translatedText"]] == [2] * 20


def test_the_tags_and_entities_of_html_stay(client: TestClient) -> None:
    text = "<p class='a'>The dog sleeps.<br>\n<b> The black cat eats. </b></p> &amp; <!-- -->"
    answer = client.post("/translate", json={"q": text, **EN_FR, "format": "html"}).json()
    expected = "<p class='a'>le chien dort.<br>\n<b> le chat noir mange. </b></p> &amp; <!-- -->"
    assert answer == {"translatedText": expected}


def test_alternatives_and_the_detected_language_are_given_if_asked_for(client: TestClient) -> None:
    fields = {"q": ["The dog sleeps.\n- -", ""], "source": "auto", "target": "fr-CA", "alternatives": 3}
    answer = client.post("/translate", json=fields).json()
    (first, *others), none = answer["alternatives"]
    assert answer["translatedText"] == ["le chien dort.\n- -", ""]
    assert len({first, *others, answer["translatedText"][0]}) == 4 and none == []
    assert all(text.endswith("\n- -") for text in (first, *others))
    assert answer["detectedLanguage"] == [{"confidence": 0, "language": "en"}] * 2


def test_the_languages_the_settings_and_the_health_of_the_server(client: TestClient) -> None:
    english, french = {"code": "en", "name": "English"}, {"code": "fr", "name": "French"}
    assert client.get("/languages").json() == [{**english, "targets": ["fr"]}, {**french, "targets": []}]
    assert client.get("/frontend/settings").json()["language"] == {"source": english, "target": french}
    assert client.get("/health").json() == {"status": "ok"}
