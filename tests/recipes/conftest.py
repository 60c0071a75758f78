"""Fixtures of the tests of pictures."""

from tests.plots.conftest import figures, run  # noqa: F401
