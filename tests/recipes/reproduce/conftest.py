"""What the tests of pictures share."""

from tests.plots.conftest import figures, run  # noqa: F401
