"""The server as a process: noise, many users, a real browser."""

import http.client
import json
import re
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from recipes.benchmark import serving_load
from tests.serve.fuzz_page import check, growth
from tests.serve.live import Live, serving
from tests.trained import PARSES, train

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--window-size=1280,900"]
PATIENCE = 20


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A server of a model that reads trees; without them, it is like any other."""
    folder = tmp_path_factory.mktemp("live")
    checkpoint = train(folder / "run", "tree2seq_small") / "checkpoints" / "checkpoint_best.pt"
    with serving(checkpoint, folder / "log", "--max-len-b", "30") as running:
        yield running


# Noise and users


def test_every_noise_is_answered_or_refused_and_memory_does_not_grow(live: Live) -> None:
    outcomes, memory = check(live, lines=600)
    assert outcomes.total() == 600
    assert min(outcomes["answered"], outcomes["refused"]) > 100
    before, after = growth(memory)
    assert after < before + 64 * 2**20


def test_fifty_users_at_a_time_meet_no_error(
    live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text"
    text.write_text("The dog sleeps.\nThe black cat eats.\n\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["load", live.url, str(text), "--users", "50", "--seconds", "2"])
    status = serving_load.main()
    first, second = capsys.readouterr().out.splitlines()
    assert status == 0, first
    assert int(first.split()[0].replace(",", "")) >= 50
    assert first.endswith(" 0 errors")
    assert re.fullmatch(r"median \d\.\d{3} s, 95th percentile \d\.\d{3} s", second)


def test_errors_are_told_from_being_busy(live: Live) -> None:
    assert serving_load.ask(live.url, "The dog sleeps.") == ""
    assert serving_load.ask(live.url, "a " * 200).startswith("sentence 1 has 200 words")
    assert serving_load.ask(live.url, "a" * 10**6).startswith("sentence 1 has 1,000,000 characters")
    assert serving_load.ask(live.url, "a" * 10**7).startswith("413: the request has more than 8,388,608 bytes")
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    assert serving_load.ask(f"http://127.0.0.1:{port}/", "a").startswith("ConnectionRefusedError")
    answers = serving_load.Answers([1.0, 2.0, 3.0], busy=2)
    answers.errors["500: a mistake"] += 1
    assert answers.summary().splitlines() == [
        "3 translations, 2 times busy, 1 errors",
        "median 2.000 s, 95th percentile 2.900 s",
        "1 x 500: a mistake",
    ]


def test_slow_and_vanishing_users_do_not_stop_it(live: Live) -> None:
    place = urlsplit(live.url)
    address = (str(place.hostname), place.port)
    body = json.dumps({"sentences": ["The dog sleeps."] * 32}).encode()
    head = b"POST /api/translate/stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    whole = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    hanging = [socket.create_connection(address) for _ in range(20)]
    for number, connection in enumerate(hanging):
        connection.sendall((whole, whole[:-5], head, b"\x16\x03\x01\x00" * 9)[number % 4])
        if number % 2:
            connection.close()
    started = time.monotonic()
    assert serving_load.ask(live.url, "The dog sleeps.") == ""
    assert time.monotonic() - started < PATIENCE
    for connection in hanging:
        connection.close()
    connection = http.client.HTTPConnection(*address, timeout=PATIENCE)
    connection.request("GET", "/", headers={"Host": "evil.example"})
    assert connection.getresponse().status == 400
    connection.close()


# The page


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

    def __init__(self, browser: webdriver.Chrome, live: Live, width: int = 1280) -> None:
        self.browser = browser
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        browser.get(live.url)
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

    def settled(self) -> bool:
        said = self["translation"].text or self["problem"].text
        return bool(said) and self["translation"].get_attribute("aria-busy") == "false"

    def translate(self, sentence: str, parse: str = "") -> str:
        for field, text in (("sentence", sentence), ("parse", parse)):
            # Typed keys cannot be of every character.
            self.script("arguments[0].value = arguments[1]", self[field], text)
        self.script("document.getElementById('translation').textContent = ''")
        self.script("document.getElementById('problem').textContent = ''")
        self["sentence"].send_keys(Keys.ENTER)
        self.wait(self.settled)
        return self["translation"].text

    def weights(self, table: str = "word-weights") -> list[list[float]]:
        rows = self.all(f"#{table} tbody tr")
        return [[float(cell.text or 0) for cell in row.find_elements(By.TAG_NAME, "td")] for row in rows]


@pytest.fixture
def page(browser: webdriver.Chrome, live: Live) -> Iterator[Page]:
    browser.get_log("browser")
    page = Page(browser, live)
    yield page
    problems = [entry for entry in browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    assert problems == [], "the browser complains"


def test_the_page_translates_and_draws_the_alignment(page: Page) -> None:
    assert page["languages"].text == "English to French"
    assert page.translate("The black zebra eats.").startswith("le ")
    headers = [cell.get_attribute("textContent") for cell in page.all("#word-weights thead th")]
    assert headers == ["the", "black", "zebra (unknown)", "eats", ".", "end"]
    names = [cell.text for cell in page.all("#word-weights tbody th")]
    assert names[-1] == "end"
    squares = page.all("#word-weights tbody tr")
    assert len(squares) == len(names)
    for row in squares:
        texts = [cell.get_attribute("textContent") for cell in row.find_elements(By.TAG_NAME, "td")]
        assert sum(map(float, texts)) == pytest.approx(1, abs=0.05)
    assert [mark.get_attribute("title") for mark in page.all("thead .unknown")] == ["The model does not know this word"]
    # A greater weight is a darker square.
    cells = sorted(page.all("#word-weights .weight"), key=lambda cell: float(cell.get_attribute("textContent")))
    light, dark = (page.script("return getComputedStyle(arguments[0]).backgroundColor", cells[n]) for n in (0, -1))
    assert light != dark
    assert page["announcement"].get_attribute("textContent") == page["translation"].text


def test_all_of_it_goes_by_keyboard_and_is_labelled(page: Page) -> None:
    page.script("document.activeElement.blur()")
    page["sentence"].send_keys("The dog eats.", Keys.TAB)
    reached = []
    for _ in range(8):
        reached.append(page.focused.get_attribute("id") or page.focused.tag_name)
        if page.focused.tag_name == "button":
            break
        page.press(Keys.TAB)
    assert reached == ["summary", "button"]
    page.press(Keys.ENTER)
    page.wait(page.settled)
    page.press(Keys.TAB)
    assert page.focused.get_attribute("id") == "more"
    page.press(Keys.ENTER)
    page.wait(lambda: page.all("#nbest input"))
    page.wait(lambda: page.focused.get_attribute("type") == "radio")
    first = page["translation"].text
    page.press(Keys.ARROW_DOWN)
    page.wait(lambda: page["translation"].text != first)
    chosen = page.all("#nbest label")[1].text
    assert page["translation"].text in chosen
    page.press(Keys.TAB)
    assert page.focused.get_attribute("class").startswith("weight")
    page.press(Keys.ARROW_RIGHT)
    page.press(Keys.ARROW_DOWN)
    cell = page.focused
    place = page.script("return [arguments[0].parentElement.sectionRowIndex, arguments[0].cellIndex]", cell)
    assert place == [1, 2]
    target, source = page.all("#word-weights tbody th")[1].text, page.all("#word-weights thead th")[1].text
    assert page["readout"].text == f"{target} ← {source}: {cell.get_attribute('textContent')}"
    page.press(Keys.END)
    page.press(Keys.ARROW_RIGHT)  # there is no more
    assert page.script("return arguments[0].cellIndex", page.focused) == len(page.all("#word-weights thead th"))
    tree = page.browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    roles = {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if not node.get("ignored")}
    assert ("textbox", "Sentence") in roles
    assert ("button", "Translate") in roles
    assert ("grid", "Weight of each source word for each target word") in roles
    assert {role for role, _ in roles} >= {
        "columnheader",
        "rowheader",
        "gridcell",
        "radio",
        "status",
        "heading",
        "main",
    }
    unnamed = [role for role, name in roles if role in ("textbox", "button", "radio", "link", "grid") and not name]
    assert unnamed == []


def test_the_weight_is_shown_on_hover(page: Page) -> None:
    page.translate("The dog sleeps.")
    cell = page.all("#word-weights .weight")[3]
    page.script("arguments[0].dispatchEvent(new MouseEvent('mouseover', {bubbles: true}))", cell)
    assert page["readout"].text == cell.get_attribute("title")
    assert page["readout"].text.endswith(cell.get_attribute("textContent"))


def test_phrases_are_drawn_with_the_parse(page: Page) -> None:
    assert not page["phrases"].is_displayed()
    page.translate("The black cat eats.", PARSES[2])
    headers = [cell.get_attribute("textContent") for cell in page.all("#phrase-weights thead th")]
    assert headers == ["the black cat eats .", "the black cat", "black cat", "eats ."]
    page.translate("The black cat eats.", "(S the dog)")
    assert page["problem"].text.startswith("The sentence: leaf 2 of its parse is 'dog', but word 2 is 'black'")
    assert not page["result"].is_displayed()
    page.translate("The black cat eats.")
    assert not page["phrases"].is_displayed()


@pytest.mark.parametrize("width", [360, 1280])
def test_it_fits_the_screen_and_text_is_readable(page: Page, browser: webdriver.Chrome, live: Live, width: int) -> None:
    page = Page(browser, live, width)
    page.translate("the black dog eats the black cat . " * 4)
    assert page.script("return document.documentElement.scrollWidth") <= width
    assert page.script("return document.querySelector('#word-weights').scrollWidth") > 300
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        selectors = ["h1", "label", "#hint", "#translation", "#quality", "th", "button", ".weight:not(.slight)"]
        low = page.script(CONTRASTS, selectors)
        assert low == [], f"{scheme}: text of too little contrast"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


# Contrast as WCAG 2 defines it, of text with the background that it stands on; less than 4.5 is named.
CONTRASTS = """
const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
function rgb(color) {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = color;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
}
function luminance(color) {
  const [r, g, b] = color.map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function ground(element) {
  for (; element; element = element.parentElement) {
    const color = rgb(getComputedStyle(element).backgroundColor);
    if (color[3] === 255) return color;
  }
  return rgb("Canvas");
}
document.getAnimations().forEach((animation) => animation.finish());
return arguments[0].flatMap((selector) => [...document.querySelectorAll(selector)]).flatMap((element) => {
  const text = rgb(getComputedStyle(element).color).slice(0, 3);
  const [a, b] = [luminance(text), luminance(ground(element).slice(0, 3))].sort((x, y) => y - x);
  const contrast = (a + 0.05) / (b + 0.05);
  return contrast < 4.5 ? [`${element.tagName} ${element.textContent.slice(0, 20)} ${contrast.toFixed(2)}`] : [];
});
"""


@pytest.mark.parametrize(
    "sentence", ["<img src=x onerror=alert(1)>", "\u202eكلب ينام\u202c", "\0\x1b[31m", "&lt;script&gt;", "🐕" * 40]
)
def test_hostile_text_is_only_text(page: Page, sentence: str) -> None:
    assert page.translate(sentence)
    assert page.all("#result img, #result script") == []
    assert page.script("return document.querySelector('#word-weights table').dir") == (
        "rtl" if "ك" in sentence else "ltr"
    )


def test_what_is_refused_is_said_once_and_the_page_goes_on(page: Page) -> None:
    page.translate("a " * 101)
    assert page["problem"].text.startswith("The sentence has 101 words, and at most 100 are read")
    assert page["problem"].get_attribute("role") == "alert"
    assert page.translate("The dog sleeps.") == "le chien dort."
    assert not page["problem"].is_displayed()
