"""Unknown words of translations are replaced by means of the alignment."""

import json
from pathlib import Path

import pytest

from recipes.reproduce.unknown_words import main
from rnnsearch_fairseq.errors import InputError
from tests.recipes.reproduce.builders import printed_by, write

SOURCE = ["the cat Tom", "Tom eats"]


def generated(path: Path, alignment: str) -> Path:
    block = "S-{0}\t{1}\nH-{0}\t-1\t{2}\nA-{0}\t{3}"
    first = block.format(0, "the cat <unk>", "le <unk> <unk>", alignment)
    return write(path, [block.format(1, "<unk> eats", "il mange", "1,0,0 0,1,0 0,0,1"), first])


def test_unknown_words_are_copied_or_looked_up(tmp_path: Path) -> None:
    source, target = write(tmp_path / "en", SOURCE), write(tmp_path / "fr", ["le chat Thomas", "Thomas mange"])
    records = [
        {"source": "the cat <unk> </s>", "target": "le chat <unk> </s>", "alignment": [[1, 0, 0, 0], [0, 1, 0, 0]]},
        {"source": "<unk> eats </s>", "target": "<unk> mange </s>", "alignment": [[1, 0, 0]]},
    ]
    records[0]["alignment"] += [[0, 0, 1, 0], [0, 0, 0, 1]]
    records[1]["alignment"] += [[0, 0.4, 0.6], [0, 0, 1]]  # "mange" looks at end-of-sentence
    for number, record in enumerate(records):
        record |= {"id": number, "source": record["source"].split(), "target": record["target"].split()}
    scores = write(tmp_path / "scores", [json.dumps(record) for record in records])
    printed_by(main, "learn", scores, "--source", source, "--target", target, "--output", tmp_path / "dictionary")
    assert (tmp_path / "dictionary").read_text().splitlines() == ["Tom Thomas", "cat chat", "the le"]

    out = generated(tmp_path / "out", "1,0,0,0 0,1,0,0 0,0,0.4,0.6 0,0,0,1")
    replace = ["replace", out, "--source", source]
    assert printed_by(main, *replace).splitlines() == ["le cat Tom", "il mange"]
    looked_up = printed_by(main, *replace, "--dictionary", tmp_path / "dictionary").splitlines()
    assert looked_up == ["le chat Thomas", "il mange"]


def test_text_and_alignments_of_other_sentences_are_refused(tmp_path: Path) -> None:
    out = generated(tmp_path / "out", "1,0 0,1")
    with pytest.raises(InputError, match="out, sentence 0: no alignment of its words"):
        printed_by(main, "replace", out, "--source", write(tmp_path / "en", SOURCE))
    with pytest.raises(InputError, match="en, line 1: not the words that the model read"):
        printed_by(main, "replace", out, "--source", write(tmp_path / "en", ["the dog Tom", "Tom eats"]))
    with pytest.raises(InputError, match=r"out has 2 sentences and .*en has 1"):
        printed_by(main, "replace", out, "--source", write(tmp_path / "en", SOURCE[:1]))
