"""Gradients in float64 against finite differences, for both scans, with padding."""

from typing import Any

import pytest
import torch
from torch.autograd import gradcheck
from torch.func import functional_call

from tests.builders import pad, randomize
from tests.modules.builders import ORDERS, Whole


@pytest.mark.slow
@pytest.mark.parametrize("alignment_size", [3, 0], ids=["rnnsearch", "rnnencdec"])
@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("fused", [False, True], ids=["reference", "fused"])
@pytest.mark.parametrize("left", [False, True], ids=["right-padded", "left-padded"])
def test_every_parameter(alignment_size: int, order: dict[str, Any], fused: bool, left: bool) -> None:
    whole = Whole(alignment_size, fused, **order).double()
    randomize(whole)
    source, target = pad([[2, 3, 4], [5, 2]], left), pad([[2, 5], [3, 4]])
    names = [name for name, _ in whole.named_parameters()]

    def features(*parameters: torch.Tensor) -> torch.Tensor:
        given = dict(zip(names, parameters))
        for side in ("encoder", "decoder"):  # the row of padding has no gradient on purpose; differences would find one
            table = given[f"{side}.embedding.table.weight"]
            given[f"{side}.embedding.table.weight"] = torch.cat([table[:1], torch.zeros_like(table[:1]), table[2:]])
        return functional_call(whole, given, (source, target))[0]

    used = [name for name in names if "to_vocabulary" not in name]
    assert gradcheck(features, [whole.get_parameter(name).detach().requires_grad_(name in used) for name in names])
