"""The page, in a real browser."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("selenium")

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests import trained
from tests.serve.live import PATIENCE, Live, serving
from tests.trained import PARSES

pytestmark = [pytest.mark.browser, pytest.mark.train, pytest.mark.filterwarnings("ignore::UserWarning")]

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--window-size=1280,900"]


def start_browser(profile: Path) -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=Service(DRIVER))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no chromium and chromedriver (Debian: apt-get install chromium chromium-driver)")
    driver = start_browser(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


class Page:
    """What a person does on the page, and sees there."""

    def __init__(self, browser: webdriver.Chrome, live: Live) -> None:
        self.browser = browser
        browser.get(live.url)
        self.wait(lambda: self["languages"].text)

    def __getitem__(self, name: str) -> WebElement:
        return self.browser.find_element(By.ID, name)

    def wait(self, condition: Any) -> Any:
        return WebDriverWait(self.browser, PATIENCE, 0.02).until(lambda _: condition())

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """The texts of these elements, hidden ones included."""
        return [element.get_attribute("textContent") for element in self.all(selector)]

    def script(self, text: str, *arguments: Any) -> Any:
        return self.browser.execute_script(text, *arguments)

    def translate(self, sentence: str, parse: str = "") -> list[str]:
        """Type sentences and their parses; return what is shown as their translations."""
        for field, text in (("sentence", sentence), ("parse", parse)):
            # Typed keys cannot be of every character.
            self.script("arguments[0].value = arguments[1]", self[field], text)
        self.script("document.getElementById('results').replaceChildren()")
        self["sentence"].send_keys(Keys.ENTER)
        self.wait(lambda: self.all(".found:not([hidden]), .problem:not([hidden])"))
        self.wait(lambda: self["results"].get_attribute("aria-busy") == "false")
        return [translation.text for translation in self.all(".translation")]

    def row_sums(self) -> list[float]:
        cells = [row.find_elements(By.TAG_NAME, "td") for row in self.all("tbody tr")]
        return [sum(float(cell.get_attribute("title").rpartition(" ")[2]) for cell in row) for row in cells]


def test_sentences_are_translated_with_alignments_and_other_translations(browser: webdriver.Chrome, live: Live) -> None:
    page = Page(browser, live)
    assert page["languages"].text == "English to French"
    assert page.translate("The black zebra eats.")[0].startswith("le ")
    assert page.texts(".names th") == ["the", "black", "zebra", "eats", ".", "end"]
    assert page.texts(".names mark") == page.texts(".source mark") == ["zebra"]
    assert page.row_sums() == pytest.approx([1] * len(page.texts("tbody th")), abs=0.05)
    colours = {
        page.script("return getComputedStyle(arguments[0]).backgroundColor", cell) for cell in page.all(".weight")
    }
    assert len(colours) > 2  # a greater weight is a darker square
    page.all(".others summary")[0].click()
    labels = page.all(".others label")
    assert len(labels) == 5
    labels[1].click()
    assert page.all(".translation")[0].text in labels[1].text
    # Each line is a sentence. Their alignments are drawn when they are opened.
    hostile = "<img src=x onerror=alert(1)>"
    assert page.translate(f" The dog sleeps.\n\n {hostile}\n" + "x" * 10_001)[0] == "le chien dort."
    assert page.texts("#results h2")[:2] == ["1. The dog sleeps.", f"2. {hostile}"]
    assert page.all("#results img, table") == []
    assert "The text has 10,001 characters" in page.texts("#results .problem")[2]
    page.all(".alignment summary")[0].click()
    page.wait(lambda: page.all("table"))
    page.translate("The dog sleeps.\nThe dog `sleeps`.")
    faults = [[item.text for item in article.find_elements(By.TAG_NAME, "li")] for article in page.all("article")]
    assert faults == [[], ["This translation lacks `sleeps`."]]
    # Mistakes are told in the page's words, and the page goes on.
    for text, problem in (("a\n" * 33, "There are 33 lines, and at most 32"), (" ", "There is no text to translate.")):
        page.translate(text)
        assert page["problem"].text.startswith(problem) and page.all("#results article") == []
    assert page.translate("The dog sleeps.") == ["le chien dort."]
    assert not page["problem"].is_displayed()


@trained.needs_shipped_model
def test_on_a_phone_the_translation_is_in_view_and_markup_is_shown_in_the_alignment(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    phone = {"width": 375, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    with serving(trained.SHIPPED_MODEL, tmp_path / "log") as live:
        page = Page(browser, live)
        page.translate("Return a copy of the <b>list</b> with `code` and 😀.")
        assert page.script("return document.documentElement.scrollWidth") == 375
        place = page.script("return document.querySelector('.translation').getBoundingClientRect().bottom")
        assert place < 740
        names = " ".join(page.texts(".names th"))
        assert "`code`" in names and "😀" in names and "⟦" not in names + "".join(page.texts("tbody th"))
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_tree_is_drawn_above_words_and_phrases(browser: webdriver.Chrome, live: Live) -> None:
    page = Page(browser, live)
    page.translate("The black cat eats.", PARSES[2])
    names = [name.get_attribute("title") for name in page.all(".names th")]
    cat, all_of_it = "“black cat”", "“the black cat eats .”"
    assert names == ["the", "“the black cat”", "black", cat, "cat", all_of_it, "eats", "“eats .”", ".", "</s>"]
    assert page.row_sums() == pytest.approx([1] * len(page.texts("tbody th")), abs=0.05)
    # A phrase is a node at the middle of its column, and its edges end in the columns of its two parts.
    lines = page.script("return [...document.querySelectorAll('path')].map((path) => path.getAttribute('d'))")
    nodes = [line.split()[1:3] for line in lines if line.endswith("h 0")]
    assert nodes == [["5.5", "1"], ["1.5", "2"], ["3.5", "3"], ["7.5", "3"]]
    edges = [(line.split()[1], line.split()[4]) for line in lines if "H" in line]
    ends = [("1.5", "7.5"), ("0.5", "3.5"), ("2.5", "4.5"), ("6.5", "8.5")]
    assert edges == [(x, end) for (x, _), pair in zip(nodes, ends) for end in pair]
    page.translate("The black cat eats.")
    assert page.all("svg") == []


def test_pieces_are_joined_to_words(browser: webdriver.Chrome, live: Live) -> None:
    browser.get(live.url)

    def join(pieces: str, language: str = "fr") -> list[tuple[str, list[int]]]:
        script = "const [pieces, language, done] = arguments;"
        script += "import('/words.js').then((words) => done(words.joinPieces(pieces, [], language)));"
        words = browser.execute_async_script(script, pieces.split(), language)
        return [(word["text"], word["pieces"]) for word in words]

    assert join("▁Al pine ▁skis . </s>") == [("Alpine", [0, 1]), ("skis.", [2, 3]), ("</s>", [4])]
    assert join("Al@@ pine skis </s>") == [("Alpine", [0, 1]), ("skis", [2]), ("</s>", [3])]
    assert join("▁私 は", "ja_JP") == [("私", [0]), ("は", [1])]
