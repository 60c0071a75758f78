"""The search step equals the decoder at every position."""

from typing import Any

import pytest
import torch

from rnnsearch_fairseq.modules.fused import search_step
from rnnsearch_fairseq.modules.fused.search_step import RecurrentState, SearchStep
from tests.builders import pad
from tests.modules.builders import ORDERS, Whole

VOCABULARY = 7


@pytest.mark.parametrize("alignment_size", [4, 0], ids=["rnnsearch", "rnnencdec"])
@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 3), (3, 1)], ids=str)
@pytest.mark.parametrize("table", [True, False], ids=["table of words", "none"])
def test_it_is_the_decoder(
    alignment_size: int,
    order: dict[str, Any],
    left: bool,
    sizes: tuple[int, int],
    table: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not table:
        monkeypatch.setattr(search_step, "MAX_TABLE_BYTES", 0)
    torch.manual_seed(0)
    whole = Whole(alignment_size, fused=False, **order).double().eval()
    for parameter in whole.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    source = pad([[2, 3, 4, 6], [5, 2]], left)
    target = torch.randint(2, VOCABULARY, (sum(sizes), 5))
    with torch.no_grad():
        state, memory = whole.decoder.start(whole.encoder(source))
        state = state.repeat_interleave(torch.tensor(sizes), dim=0)
        expected = whole.decoder(target, state, repeated(memory, sizes))
        scores = whole.decoder.readout.to_vocabulary(expected.features)

        step, recurrent = SearchStep(whole.decoder), RecurrentState(state)
        prepared = step.prepare_memory(memory)
        for position, words in enumerate(target.T):
            found, weights, recurrent = step(words, recurrent, prepared, sizes)
            torch.testing.assert_close(found, scores[:, position], rtol=0, atol=1e-10)
            if alignment_size:
                torch.testing.assert_close(weights, expected.weights[:, position], rtol=0, atol=1e-10)
            else:
                assert weights is None


def repeated(memory: Any, sizes: tuple[int, int]) -> Any:
    by_row = torch.tensor(sizes)
    return type(memory)(*(None if tensor is None else tensor.repeat_interleave(by_row, dim=0) for tensor in memory))
