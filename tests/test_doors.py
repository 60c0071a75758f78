"""One text has one translation, whatever its door: Python, lines, PO, XLIFF, the JSON API, LibreTranslate's API."""

from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from lxml import etree
from translate.storage.pypo import pofile

import rnnsearch_fairseq
from rnnsearch_fairseq.documents import translate
from rnnsearch_fairseq.serve.server import make_app
from rnnsearch_fairseq.serve.worker import Worker
from tests.commands import printed_by
from tests.trained import SHIPPED_MODEL, needs_shipped_model

TEXTS = [
    "The public attribute is *age* and the private one is *_age*.",
    "Search options…",
    "E&xit",
    "%d files were deleted from %s.",
    "Click on the <b>Save</b> button to go on.",
    "See :ref:`the guide <guide>` and ``None``::",
    "Never share your password!",
    "- First item of the list",
    "1.5 | --help",
    "Open the file. " * 12 + "Close it.",
]


@needs_shipped_model
def test_one_text_has_one_translation_by_all_doors(tmp_path: Path) -> None:
    model = rnnsearch_fairseq.load(SHIPPED_MODEL)
    expected = model.translate(TEXTS)

    def run(name: str, content: str) -> Path:
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        printed_by(translate.main, path, "--model", SHIPPED_MODEL, "--output", f"{path}.out")
        return Path(f"{path}.out")

    assert run("a.txt", "".join(f"{text}\n" for text in TEXTS)).read_text().split("\n")[:-1] == expected
    po = pofile()
    po.updateheader(add=True, content_type="text/plain; charset=UTF-8", language="fr")
    for text in TEXTS:
        po.addsourceunit(text)
    filled = pofile.parsefile(str(run("a.po", bytes(po).decode())))
    assert [str(unit.target) for unit in filled.units if not unit.isheader()] == expected
    units = "".join(f"<trans-unit><source>{escape(text)}</source></trans-unit>" for text in TEXTS)
    xliff = run("a.xlf", f'<xliff version="1.2"><file target-language="fr"><body>{units}</body></file></xliff>')
    assert ["".join(target.itertext()) for target in etree.parse(xliff).iter("target")] == expected
    pytest.importorskip("httpx2", reason="the test client needs it")
    from fastapi.testclient import TestClient

    with TestClient(make_app(Worker(model)), "http://localhost:8000") as client:
        found = client.post("/api/translate", json={"sentences": TEXTS}).json()["sentences"]
        assert [sentence["translations"][0]["text"] for sentence in found] == expected
        asked = {"q": TEXTS, "source": "en", "target": "fr"}
        assert client.post("/translate", json=asked).json()["translatedText"] == expected
