"""The tables by pieces, and within the limit of the training, of the stored translations."""

import re
from pathlib import Path

from recipes.docs_en_fr.by_pieces import differences_within, table_by_pieces
from recipes.reproduce.runs import BahdanauRuns
from tests.recipes.reproduce.test_stored_reports import unpack

RECIPE = Path(__file__).parents[3] / "recipes/docs_en_fr"
NUMBER = re.compile(r"\d+\.\d\d\b")


def test_evidence_has_the_numbers_of_the_stored_translations(tmp_path: Path) -> None:
    seeds = []
    for number in (1, 2, 3):
        folder = unpack(RECIPE / f"report/runs-{number}.tar.xz", tmp_path / str(number))
        seeds.append(BahdanauRuns(folder, "en", "fr"))
    text = (RECIPE / "EVIDENCE.md").read_text()
    for row in table_by_pieces(seeds).splitlines()[2:]:
        assert row.removeprefix("| phrase-based").partition("|")[2] in text
    for penalised in (True, False):
        for line in differences_within(seeds, penalised):
            difference, low, high = NUMBER.findall(line.partition(": ")[2])[-3:]
            assert re.search(rf"[+−]{difference} \(−?{low} to −?{high}\)", text), line
