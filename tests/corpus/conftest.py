"""What the tests of ``rnnsearch prepare`` share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rnnsearch_fairseq.corpus.prepare import main
from tests.corpus.builders import LANGUAGES


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that runs the command on these words."""

    def run_main(*words: str | Path, languages: tuple[str, str] = LANGUAGES) -> None:
        source, target = languages
        monkeypatch.setattr("sys.argv", ["rnnsearch prepare", "-s", source, "-t", target, *map(str, words)])
        main()

    return run_main
