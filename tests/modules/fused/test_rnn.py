"""The fused loops equal the reference loops, forward and backward."""

from typing import Any

import pytest

from tests.modules.builders import (
    ORDERS,
    SOURCES,
    assert_fused_follows_autocast,
    assert_fused_is_reference,
)


@pytest.mark.parametrize("alignment_size", [4, 0], ids=["rnnsearch", "rnnencdec"])
@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("tgt_len", [1, 2, 5])
def test_fused_is_reference(alignment_size: int, order: dict[str, Any], source: str, left: bool, tgt_len: int) -> None:
    assert_fused_is_reference(alignment_size, order, source, left, tgt_len)


@pytest.mark.parametrize("alignment_size", [4, 0], ids=["rnnsearch", "rnnencdec"])
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_fused_follows_autocast(alignment_size: int, order: dict[str, Any]) -> None:
    assert_fused_follows_autocast(alignment_size, order)
