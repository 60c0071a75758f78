"""Make the pictures of rnnsearch_fairseq/serve/README.md again: python -m tests.serve.screenshots"""

import base64
import tempfile
from pathlib import Path

from rnnsearch_fairseq import serve
from tests.serve.live import serving
from tests.serve.test_page import Page, start_browser
from tests.trained import PARSES, SHIPPED_MODEL, train

FOLDER = Path(serve.__file__).parent


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        tree_model, browser = train(Path(name, "tree"), "tree2seq_small"), start_browser(Path(name, "profile"))
        for model, sentence, parse, width, picture in (
            (SHIPPED_MODEL, "Return the current working directory of a `subprocess`.", "", 760, "page_rnnsearch.png"),
            (tree_model, "The black cat eats.", PARSES[2], 560, "page_tree.png"),
        ):
            with serving(model, Path(name, "log")) as live:
                browser.set_window_size(width, 1200)
                page = Page(browser, live)
                page.translate(sentence, parse)
                page.script("for (const name of ['examples', 'about']) document.getElementById(name).hidden = true")
                height = page.script("return document.documentElement.scrollHeight")
                place = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
                browser.set_window_size(width, height + 200)
                taken = browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": place})
                (FOLDER / picture).write_bytes(base64.b64decode(taken["data"]))
        browser.quit()


if __name__ == "__main__":
    main()
