"""The page, in a real browser."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("selenium")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.serve.conftest import EXAMPLE
from tests.serve.live import PATIENCE, Live, serving
from tests.trained import PARSES, train

pytestmark = [pytest.mark.browser, pytest.mark.train, pytest.mark.filterwarnings("ignore::UserWarning")]

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--window-size=1280,900"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no chromium and chromedriver (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


class Page:
    """What a person does on the page, and sees there."""

    def __init__(self, browser: webdriver.Chrome, live: Live, width: int = 1280, link: str = "") -> None:
        self.browser = browser
        browser.get("about:blank")  # another link to the same page would not load it anew
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get(live.url + link)
        self.wait(lambda: self["languages"].text)

    def __getitem__(self, name: str) -> WebElement:
        return self.browser.find_element(By.ID, name)

    def wait(self, condition: Any) -> Any:
        return WebDriverWait(self.browser, PATIENCE, 0.02).until(lambda _: condition())

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def script(self, text: str, *arguments: Any) -> Any:
        return self.browser.execute_script(text, *arguments)

    @property
    def focused(self) -> WebElement:
        return self.browser.switch_to.active_element

    def press(self, *keys: str) -> None:
        self.focused.send_keys(*keys)

    def part(self, selector: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """What is read of these elements, hidden text included."""
        return [element.get_attribute("textContent") for element in self.all(selector)]

    def settled(self) -> bool:
        said = self.all(".found:not([hidden]), .problem:not([hidden])")
        return bool(said) and self["results"].get_attribute("aria-busy") == "false"

    def translate(self, sentence: str, parse: str = "") -> list[str]:
        """Type sentences and their parse; return what is shown as their translations."""
        for field, text in (("sentence", sentence), ("parse", parse)):
            # Typed keys cannot be of every character.
            self.script("arguments[0].value = arguments[1]", self[field], text)
        self.script("document.getElementById('results').replaceChildren()")
        self["sentence"].send_keys(Keys.ENTER)
        self.wait(self.settled)
        return [translation.text for translation in self.all(".translation")]

    def weights(self) -> list[list[float]]:
        rows = self.all("tbody tr")
        texts = ([cell.get_attribute("textContent") for cell in row.find_elements(By.TAG_NAME, "td")] for row in rows)
        return [list(map(float, row)) for row in texts]


@pytest.fixture
def page(browser: webdriver.Chrome, live: Live) -> Iterator[Page]:
    browser.get_log("browser")
    page = Page(browser, live)
    yield page
    problems = [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    assert problems == [], "the browser complains"


def test_the_page_translates_and_draws_the_alignment(page: Page) -> None:
    assert page["languages"].text == "English to French"
    (translation,) = page.translate("The black zebra eats.")
    assert translation.startswith("le ")
    assert page.texts(".names th") == ["the", "black", "zebra (unknown)", "eats", ".", "end"]
    names = page.texts("tbody th")
    assert names[-1] == "end"
    assert [sum(row) for row in page.weights()] == pytest.approx([1] * len(names), abs=0.05)
    # A greater weight is a darker square.
    cells = sorted(page.all(".weight"), key=lambda cell: float(cell.get_attribute("textContent")))
    light, dark = (page.script("return getComputedStyle(arguments[0]).backgroundColor", cells[n]) for n in (0, -1))
    assert light != dark
    page.script("arguments[0].dispatchEvent(new MouseEvent('mouseover', {bubbles: true}))", page.all(".weight")[3])
    assert page.part(".readout").text.startswith("le ← eats: ")
    assert page.texts("#announcement") == [translation]


def test_unknown_words_are_marked_by_their_style(page: Page) -> None:
    page.translate("The black zebra eats.")
    (mark,) = page.all(".names .unknown")
    assert (mark.text, mark.get_attribute("title")) == ("zebra", "The model does not know this word")
    style = "const style = getComputedStyle(arguments[0]); return [style.color, style.borderLeftStyle]"
    assert page.script(style, mark)[1] == "dashed"  # below the word, which is turned
    assert page.script(style, mark)[0] != page.script(style, page.part(".names th"))[0]
    assert page.part(".legend").is_displayed()
    # The source is shown, and nothing is called sure.
    assert page.part(".source").text.startswith("the black zebra")
    assert page.part(".source .unknown").text == "zebra"
    assert page.part(".quality summary").text.startswith("Not sure, as words are unknown: ")
    page.translate("The dog sleeps.")
    assert not page.part(".legend").is_displayed() and not page.part(".source").is_displayed()


def test_nothing_is_sure_where_the_translation_has_unknown_words(
    browser: webdriver.Chrome, unknown_model: Path, tmp_path: Path
) -> None:
    with serving(unknown_model, tmp_path / "log", "--max-len-b", "6", "--replace-unknown") as live:
        page = Page(browser, live)
        page.translate("The dog sleeps.")
        marked = [mark.text for mark in page.all(".translation .unknown")]
        assert marked and marked == page.part(".translation").text.replace("(unknown)", "").split()
        assert set(marked) <= {"the", "dog", "sleeps", "."}
        assert page.part(".quality summary").text.startswith("Not sure, as words are unknown: ")
        browser.get("about:blank")


def test_all_of_it_goes_by_keyboard_and_is_labelled(page: Page) -> None:
    page.script("document.activeElement.blur()")
    page["sentence"].send_keys("The dog eats.", Keys.TAB)
    reached = []
    for _ in range(8):
        reached.append(page.focused.get_attribute("type") or page.focused.tag_name)
        if page.focused.tag_name == "button":
            break
        page.press(Keys.TAB)
    assert reached == ["summary", "submit"]
    page.press(Keys.ENTER)
    page.wait(page.settled)
    reached = []
    while "Other" not in page.focused.text:
        page.press(Keys.TAB)
        reached.append(page.focused.text)
    assert reached[0] == EXAMPLE
    assert reached[1:] == ["Copy", page.part(".quality summary").text, "Other translations"]
    page.press(Keys.ENTER)
    page.wait(lambda: page.all(".others input"))
    page.press(Keys.TAB)
    first = page.part(".translation").text
    page.press(Keys.ARROW_DOWN)
    page.wait(lambda: page.part(".translation").text != first)
    assert page.part(".translation").text in page.all(".others label")[1].text
    page.press(Keys.TAB, Keys.TAB)
    assert page.focused.get_attribute("class").startswith("weight")
    page.press(Keys.ARROW_RIGHT)
    page.press(Keys.ARROW_DOWN)
    cell = page.focused
    place = page.script("return [arguments[0].parentElement.sectionRowIndex, arguments[0].cellIndex]", cell)
    assert place == [1, 2]
    target, source = page.all("tbody th")[1].text, page.all(".names th")[1].text
    assert page.part(".readout").text == f"{target} ← {source}: {cell.get_attribute('textContent')}"
    page.press(Keys.END)
    page.press(Keys.ARROW_RIGHT)  # there is no more
    assert page.script("return arguments[0].cellIndex", page.focused) == len(page.all(".names th"))
    tree = page.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    roles = {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if not node.get("ignored")}
    assert ("textbox", "Sentences, one on each line") in roles
    assert ("button", "Translate") in roles
    assert ("grid", "Weight of each source word for each target word") in roles
    names = ["columnheader", "rowheader", "gridcell", "radio", "status", "heading", "main"]
    assert {role for role, _ in roles} >= set(names)
    unnamed = [role for role, name in roles if role in ("textbox", "button", "radio", "link", "grid") and not name]
    assert unnamed == []


def test_other_translations_can_be_chosen_and_how_sure_each_is_is_said(page: Page) -> None:
    page.translate("The dog sleeps.")
    summary = page.part(".quality summary")
    assert re.fullmatch(r"Sure: \d+% a word", summary.text)
    summary.click()
    assert "The log-probability of the translation is −0." in page.part(".quality p").text
    page.part(".others summary").click()
    page.wait(lambda: page.all(".others input"))
    labels = page.all(".others label")
    assert len(labels) == 5
    assert labels[0].text.startswith("le chien dort.")
    for label in labels:
        label.click()
        assert page.part(".translation").text in label.text
        percent = label.find_element(By.CLASS_NAME, "score").text
        number = int(percent.removesuffix("%"))
        words = "Sure" if number > 80 else "Fairly sure" if number > 50 else "Unsure" if number > 25 else "Very unsure"
        assert summary.text == f"{words}: {percent} a word"
    assert words != "Sure"
    page.part(".others summary").click()
    assert not labels[0].is_displayed()
    page.part(".others summary").click()
    assert labels[4].find_element(By.TAG_NAME, "input").is_selected()


def test_translations_and_links_are_copied(page: Page, browser: webdriver.Chrome, live: Live) -> None:
    permissions = {"origin": live.url.rstrip("/"), "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    browser.execute_cdp_cmd("Browser.grantPermissions", permissions)

    def copied(button: WebElement) -> str:
        button.click()
        page.wait(lambda: button.text == "Copied")
        return browser.execute_async_script("navigator.clipboard.readText().then(arguments[0])")

    page.translate("The dog sleeps.\nThe black cat eats.")
    assert copied(page.part(".copy")) == "le chien dort."
    assert copied(page["copy-all"]) == "le chien dort.\nle chat noir mange."
    assert copied(page["copy-link"]) == browser.current_url
    page.translate("The dog sleeps.")
    assert not page["copy-all"].is_displayed()


def test_each_line_is_a_sentence(page: Page) -> None:
    page["sentence"].send_keys("The dog sleeps.", Keys.SHIFT + Keys.ENTER)
    assert page["sentence"].get_attribute("value") == "The dog sleeps.\n"
    assert page.translate(" The dog sleeps.\n\n  The zebra \t eats.\n" + "a " * 101)[0] == "le chien dort."
    assert page.texts("#results h2")[:2] == ["1. The dog sleeps.", "2. The zebra eats."]
    assert [problem.text for problem in page.all("#results .problem")][:2] == ["", ""]
    assert page.all("#results .problem")[2].text.startswith("The sentence has 101 words, and at most 100 are read")
    # Their alignments are drawn when they are opened.
    assert page.all("table") == []
    page.all(".alignment summary")[1].click()
    page.wait(lambda: page.texts(".names th") == ["the", "zebra (unknown)", "eats", ".", "end"])
    page.all(".others summary")[1].click()
    page.wait(lambda: page.all(".others input"))
    assert page.translate("The dog sleeps.\nThe black cat eats.", f"\n{PARSES[2]}") == [
        "le chien dort.",
        "le chat noir mange.",
    ]
    for summary in page.all(".alignment summary"):
        summary.click()
    page.wait(lambda: len(page.all("table")) == 2)
    assert len(page.all("svg")) == 1


def test_a_link_holds_what_is_typed(page: Page, browser: webdriver.Chrome, live: Live) -> None:
    sentence = "The black cat\u00a0eats & é 漢 #1."
    page.translate(sentence, "(S the dog)")
    assert page.part("#results .problem").is_displayed()
    linked = browser.current_url
    page.translate("The dog sleeps.")
    assert browser.current_url != linked
    browser.back()
    page.wait(lambda: page["sentence"].get_attribute("value") == sentence)
    page = Page(browser, live, link=linked.removeprefix(live.url))
    page.wait(page.settled)
    assert page["sentence"].get_attribute("value") == sentence
    assert page["parse"].get_attribute("value") == "(S the dog)"
    assert page["parse"].is_displayed()
    assert page.part("#results .problem").text.startswith("The sentence: leaf 2 of its parse is 'dog'")


def test_an_example_is_translated(page: Page) -> None:
    (button,) = page.all("#examples button")
    button.click()
    page.wait(page.settled)
    assert page.part(".translation").text == "le chien dort."
    assert page["sentence"].get_attribute("value") == EXAMPLE


def test_the_tree_is_drawn_above_words_and_phrases(page: Page) -> None:
    page.translate("The black cat eats.", PARSES[2])
    headers = page.texts(".names th")
    cat, all_of_it = ("“black cat”", "“the black cat eats .”")
    assert headers == ["the", "“the black cat”", "black", cat, "cat", all_of_it, "eats", "“eats .”", ".", "end"]
    assert [sum(row) for row in page.weights()] == pytest.approx([1] * len(page.texts("tbody th")), abs=0.05)
    # A phrase is a node at the middle of its column, and its edges end in the columns of its two parts.
    lines = page.script("return [...document.querySelectorAll('path')].map((path) => path.getAttribute('d'))")
    nodes = [line.split()[1:3] for line in lines if line.endswith("h 0")]
    assert nodes == [["5.5", "1"], ["1.5", "2"], ["3.5", "3"], ["7.5", "3"]]
    edges = {line.split()[1]: [] for line in lines if "H" in line}
    for line in lines:
        if "H" in line:
            edges[line.split()[1]].append(line.split()[4])
    assert edges == {"5.5": ["1.5", "7.5"], "1.5": ["0.5", "3.5"], "3.5": ["2.5", "4.5"], "7.5": ["6.5", "8.5"]}
    left = "const box = arguments[0].getBoundingClientRect(); return box.left + box.width / 2"
    for node, column in zip(page.all("path.node"), (6, 2, 4, 8)):
        assert page.script(left, node) == pytest.approx(page.script(left, page.all(".names > *")[column]), abs=2)
    page.translate("The black cat eats.", "(S the dog)")
    assert page.part("#results .problem").text.startswith(
        "The sentence: leaf 2 of its parse is 'dog', but word 2 is 'black'"
    )
    page.translate("The black cat eats.")
    assert page.all("svg") == []
    assert "this sentence has no parse" in page.part(".explanation").text


@pytest.mark.skipif(shutil.which("link-parser") is None, reason="no link-parser (Debian: apt-get install link-grammar)")
def test_a_sentence_is_parsed_by_link_parser(browser: webdriver.Chrome, model: Path, tmp_path: Path) -> None:
    with serving(model, tmp_path / "log", "--max-len-b", "30", parses=True) as live:
        page = Page(browser, live)
        page.translate("The black cat eats.")
        assert "“the black cat”" in page.texts(".names th")
        assert len(page.all("svg")) == 1
        browser.get("about:blank")


@pytest.mark.parametrize("width", [360, 1280, 1600])
def test_it_fits_the_screen(page: Page, browser: webdriver.Chrome, live: Live, width: int) -> None:
    page = Page(browser, live, width)
    page.translate("the black zebra eats the black cat . " * 4)
    assert page.script("return document.documentElement.scrollWidth") <= width
    inside = page.script("const map = document.querySelector('.scroll'); return [map.scrollWidth, map.clientWidth]")
    assert inside[0] <= inside[1] if width > 1000 else inside[0] > inside[1]


def test_the_words_stay_in_sight_when_the_picture_is_scrolled(browser: webdriver.Chrome, live: Live) -> None:
    page = Page(browser, live, 360)
    page.translate("the black dog eats the black cat . " * 8)
    page.script("const map = document.querySelector('.scroll'); map.style.maxHeight = '9rem'; map.scrollTo(500, 999)")
    place = "const box = arguments[0].getBoundingClientRect(); return [box.left, box.top]"
    for name, side in ((page.part("tbody th"), 0), (page.part(".names th"), 1)):
        assert page.script(place, name)[side] == pytest.approx(page.script(place, page.part(".scroll"))[side], abs=1)


def test_a_model_without_attention_says_why_there_is_no_alignment(browser: webdriver.Chrome, tmp_path: Path) -> None:
    model = train(tmp_path / "run", "rnnencdec")
    with serving(model, tmp_path / "log", "--max-len-b", "30") as live:
        page = Page(browser, live)
        assert page.translate("The dog sleeps.") == ["le chien dort."]
        assert page.part(".explanation").text.startswith("This model has no alignment. It is an RNNencdec")
        assert page.all("table") == []
        assert not page["parse-field"].is_displayed()
        browser.get("about:blank")


def test_japanese_and_chinese_are_shown_without_blanks(page: Page) -> None:
    written = """
        const [text, language, done] = arguments;
        import("/words.js").then((words) => done(words.written(text, language)));
    """

    def shown(text: str, language: str) -> str:
        return page.browser.execute_async_script(written, text, language)

    assert shown("私 は テニス 部員 で す 。", "ja") == "私はテニス部員です。"
    assert shown("<unk> 是 New York 的 人 , 3 个 。", "zh_CN") == "<unk>是New York的人, 3个。"
    assert shown("un chien dort .", "fr") == "un chien dort ."


@pytest.mark.parametrize(
    "sentence", ["<img src=x onerror=alert(1)>", "\u202eكلب ينام\u202c", "\0\x1b[31m", "&lt;script&gt;", "🐕" * 40]
)
def test_hostile_text_is_only_text(page: Page, sentence: str) -> None:
    assert page.translate(sentence)
    assert page.all("#results img, #results script") == []
    assert page.script("return document.querySelector('table').dir") == ("rtl" if "ك" in sentence else "ltr")


def test_what_is_refused_is_said_once_and_the_page_goes_on(page: Page) -> None:
    page.translate("a " * 101)
    (problem,) = [problem for problem in page.all(".problem") if problem.is_displayed()]
    assert problem.text.startswith("The sentence has 101 words, and at most 100 are read")
    assert problem.get_attribute("role") == "alert"
    for text, reason in (
        ("a\n" * 33, "There are 33 sentences, and at most 32"),
        ("a" * 2001, "Sentence 1 has more than 2000"),
    ):
        page.script("arguments[0].value = arguments[1]", page["sentence"], text)
        page["sentence"].send_keys(Keys.ENTER)
        page.wait(lambda reason=reason: page["problem"].text.startswith(reason))
        assert page.all("#results article") == []
    assert page.translate("The dog sleeps.") == ["le chien dort."]
    assert [problem for problem in page.all(".problem") if problem.is_displayed()] == []
