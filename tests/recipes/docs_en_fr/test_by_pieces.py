"""The tables by pieces, and within the limit of the training, of the stored translations."""

import re
import tarfile
from pathlib import Path

from recipes.docs_en_fr.by_pieces import differences_within, table_by_pieces
from recipes.reproduce.runs import BahdanauRuns

RECIPE = Path(__file__).parents[3] / "recipes/docs_en_fr"
NUMBER = re.compile(r"\d+\.\d\d\b")


def test_evidence_has_the_numbers_of_the_stored_translations(tmp_path: Path) -> None:
    seeds = []
    for number in (1, 2, 3):
        with tarfile.open(RECIPE / f"report/runs-{number}.tar.xz") as archive:
            archive.extractall(tmp_path / str(number), filter="data")
        seeds.append(BahdanauRuns(tmp_path / str(number), "en", "fr"))
    text = (RECIPE / "EVIDENCE.md").read_text()
    for row in table_by_pieces(seeds):
        assert row.removeprefix("| phrase-based").partition("|")[2] in text or "RNNencdec-30" in row
    for penalised in (True, False):
        for line in differences_within(seeds, penalised):
            difference, low, high = NUMBER.findall(line.partition(": ")[2])[-3:]
            assert re.search(rf"[+−]{difference} \(−?{low} to −?{high}\)", text), line
