"""The order of a batch's words in the loops without padding."""

from itertools import pairwise

import pytest
import torch

from rnnsearch_fairseq.modules.fused.packing import packing

SENTENCES = {  # words, numbered as the loops take them; zero is padding
    "right": [[2, 5, 0, 0], [1, 4, 6, 7], [3, 0, 0, 0]],
    "left": [[0, 0, 2, 5], [1, 4, 6, 7], [0, 0, 0, 3]],
    "none": [[1, 4, 7], [2, 5, 8], [3, 6, 9]],
}


@pytest.mark.parametrize("side", SENTENCES)
def test_longest_sentences_come_first_at_each_position(side: str) -> None:
    batch = torch.tensor(SENTENCES[side])
    words = packing(batch > 0, batch.device)
    packed = words.pack(batch)
    assert packed.tolist() == list(range(1, int(batch.max()) + 1))
    assert words.unpack(packed).equal(batch)
    assert words.counts == ([3, 3, 3] if side == "none" else [3, 2, 1, 1])
    assert words.sentences.tolist() == ([0, 1, 2] if side == "none" else [1, 0, 2])
    (parts,) = words.split(packed)
    before = [part[: len(later)] for part, later in pairwise(parts)]
    assert packed[words.previous].equal(torch.cat(before))
