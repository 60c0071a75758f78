"""What the tests of pictures share."""

import sys
from collections.abc import Callable, Iterator

import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Calls a command's ``main`` with these words, and returns what it printed."""

    def run(main: Callable[[], None], *words: object) -> str:
        monkeypatch.setattr(sys, "argv", ["plot", *map(str, words)])
        main()
        return capsys.readouterr().out

    return run


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Figure]]:
    """The figures that were drawn and are closed after the test."""
    closed: list[Figure] = []
    with monkeypatch.context() as patched:
        patched.setattr(plt, "close", closed.append)
        yield closed
    plt.close("all")
