"""The fault run trains on the small data of the tests of recovery."""

from tests.patches.recovery.conftest import data

__all__ = ["data"]
