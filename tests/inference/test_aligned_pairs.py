"""Files of scores, read."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.aligned_pairs import AlignedPair, join_pairs, read_scores


def record(number: int, **changes: Any) -> dict[str, Any]:
    """A line of three source and two target words and a phrase; a change to ``...`` takes the field out."""
    fields = {
        "id": number,
        "source": ["a", "<unk>", "</s>"],
        "target": ["x", "</s>"],
        "alignment": [[0.25, 0.25, 0.25], [0.5, 0, 0]],
        "phrases": [[0, 2]],
        "phrase_attention": [[0.25], [0.5]],
        **changes,
    }
    return {name: value for name, value in fields.items() if value is not ...}


def test_the_weights_of_a_long_text_are_made_when_they_are_asked_for() -> None:
    """All of them would be 40 GB."""
    one = AlignedPair(["a", "</s>"], ["b", "</s>"], score=-1.0, logprobs=torch.zeros(2), blocks=[torch.eye(2)])
    joined = join_pairs([one] * 50_000)
    assert (len(joined.source), len(joined.blocks), joined.score) == (100_000, 50_000, -1)
    assert join_pairs([one] * 2).weights.equal(torch.eye(4))


def test_pieces_of_a_source_word_add_their_weights_and_those_of_a_target_word_share_them() -> None:
    weights = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
    source, target, by_word = AlignedPair(["a@@", "b", "</s>"], ["x@@", "y", "</s>"], blocks=[weights]).by_word()
    assert (source, target) == (["ab", "</s>"], ["xy", "</s>"])
    np.testing.assert_array_equal(by_word, [[0.625, 0.375], [0, 1]])
    with pytest.raises(InputError, match="no alignment"):
        AlignedPair(["a", "</s>"], ["b", "</s>"]).by_word()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"-3.2\t2\t-1 -2", "Extra data"),
        (b"\xff", "Decode"),
        (record(1, id=...), "'id'"),
        (record(0), "sentence 0 and not 1"),
        (record(1, alignment=None), "without attention"),
        (record(1, phrase_attention=...), "'phrase_attention'"),
        (record(1, alignment=[[0, None, 1]] * 2), "no 2 rows of 3 weights"),
        (record(1, alignment=[[0, 1]] * 3), "no 2 rows of 3 weights"),
        (record(1, phrases=[]), "no 2 rows of 0 weights"),
    ],
)
def test_a_line_that_is_no_score_is_named_when_it_comes(tmp_path: Path, line: dict[str, Any] | bytes, why: str) -> None:
    lines = [json.dumps(record(0)).encode(), line if isinstance(line, bytes) else json.dumps(line).encode()]
    (tmp_path / "bad").write_bytes(b"\n".join(lines))
    scores = read_scores(tmp_path / "bad")
    assert next(scores).number == 0
    with pytest.raises(InputError, match=rf"bad, line 2: not a score that can be used \(.*{why}.*\); give what"):
        next(scores)


def test_a_file_without_scores_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none").touch()
    with pytest.raises(InputError, match="none: the file is empty; give what"):
        list(read_scores(tmp_path / "none"))
