"""Stored reports, and the numbers of pages, are made again from the translations that are kept beside them."""

import re
import shlex
import shutil
import tarfile
from collections import defaultdict
from pathlib import Path

import pytest

from recipes.docs_en_fr.by_pieces import differences_within, table_by_pieces
from recipes.reproduce import compare, eriguchi_tables, report
from recipes.reproduce.bleu import scored_by_bleu
from recipes.reproduce.runs import BahdanauRuns
from rnnsearch_fairseq.errors import InputError
from tests.commands import printed_by
from tests.recipes.reproduce.builders import record, write

RECIPES = Path(__file__).resolve().parents[3] / "recipes"
# What a report needs weights or links for; the archives of WITHOUT_LINKS, of older runs, have none.
ALIGNMENTS = re.compile(r"(RUNS \d, )?(Figure 3|Alignment error rate|Monotony)")
FAST = ("adadelta", "best", "unparsed")
WITHOUT_LINKS = ("reproduce/adadelta", "reproduce/long_sentences")
PROGRAMS = {"report": report, "compare": compare, "eriguchi_tables": eriguchi_tables}
CLAIMS = RECIPES / "reproduce/CLAIMS.md"
REPORTS = sorted([*RECIPES.glob("**/report.md"), *RECIPES.glob("**/tables.md")])


def unpack(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder


def sections(path: Path) -> dict[str, str]:
    """The text under each heading, but for the commit and the command line."""
    text = re.sub("^Commit: .*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(section.split("\n", 1) for section in re.split("^## ", text, flags=re.MULTILINE)[1:])


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[] if path.parent.name in FAST else pytest.mark.slow) for path in REPORTS],
    ids=lambda path: str(path.parent.relative_to(RECIPES)),
)
def test_a_stored_report_is_made_again(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(r"^Commit: .* Command: (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    program, *words = shlex.split(re.sub(r"\\(.)", r"\1", command))
    runs = [unpack(archive, Path(archive.name[:6])) for archive in sorted(path.parent.glob("runs-*.tar.xz"))]
    if program == "eriguchi_tables":
        runs[0].rename("runs")
    elif program == "compare":
        shutil.copytree(path.parent, tmp_path / "recipes/multi30k_en_fr/best")
    packs = path.parent.name == "adadelta"  # once, since it takes long
    if not packs:
        monkeypatch.setattr(BahdanauRuns, "translations_kept", lambda runs: b"")
        monkeypatch.setattr(eriguchi_tables, "packed", lambda files: b"")
    with_links = str(path.parent.relative_to(RECIPES)) not in WITHOUT_LINKS
    if program == "report" and with_links:  # instead of the weights that Figure 3 shows, which no archive has
        monkeypatch.setattr(report, "plot_alignment", lambda *_: None)
        sentences = len((runs[0] / "data/test.en").read_text(encoding="utf-8").splitlines())
        lines = [record(number, "a", "b", [[1.0, 0.0]] * 2) for number in range(sentences)]
        write(runs[0] / "RNNsearch-50/groundhog.jsonl", lines)
    printed_by(PROGRAMS[program].main, *words)
    out = Path(words[-1])
    stored, made = sections(path), sections(out / "report.md" if out.is_dir() else out)
    assert list(made) == list(stored)
    for title in stored:
        assert made[title] == stored[title] or (ALIGNMENTS.match(title) and not with_links), title
    if packs:
        again = unpack(out / "runs-1.tar.xz", Path("again"))
        files = {file.relative_to(runs[0]): file.read_bytes() for file in runs[0].rglob("*") if file.is_file()}
        assert files == {file.relative_to(again): file.read_bytes() for file in again.rglob("*") if file.is_file()}


def test_intervals_and_verdicts_in_the_tables_of_claims_are_those_of_the_reports() -> None:
    number = r"([+-]?\d+\.\d\d)"
    reported: dict[tuple[float, ...], set[str]] = defaultdict(set)
    for path in REPORTS:
        text = path.read_text(encoding="utf-8")
        for verdict, numbers in re.findall(r"(agrees|undecided|does not agree)[^()\n]*\(([^()\n]*)\)", text):
            for found in re.findall(rf"{number}, 95 % interval {number} to {number}", numbers):
                reported[tuple(map(float, found))].add(verdict)
    rows = [line for line in CLAIMS.read_text(encoding="utf-8").replace("−", "-").splitlines() if line.startswith("|")]
    claimed = [(row, found) for row in rows for found in re.findall(rf"{number}[^()|]* \({number} to {number}\)", row)]
    assert len(claimed) > 90
    for row, (apart, low, high) in ((row, map(float, found)) for row, found in claimed):
        # A loss is told without its sign, and a claim the other way round with the opposite one.
        signs = [(apart, low, high), (-apart, low, high), (-apart, -high, -low), (apart, -high, -low)]
        verdicts = set().union(*(reported[sign] for sign in signs))
        told = set(re.findall("agrees|does not agree|undecided", row.split("|")[-2]))  # two if BLEU and RIBES differ
        assert verdicts, row
        if "brevity penalty has a large impact" not in row:  # the opposite of what the report tests
            assert told & verdicts, row


@pytest.fixture
def adadelta(tmp_path: Path) -> Path:
    return unpack(RECIPES / "reproduce/adadelta/runs-1.tar.xz", tmp_path / "runs")


def test_alignments_are_drawn_compared_with_gold_ones_and_kept_as_links(adadelta: Path, tmp_path: Path) -> None:
    columns = [(adadelta / f"data/test.{ending}").read_text().splitlines() for ending in ("en", "fr", "align")]
    perfect, equal = [], []
    for number, (line, translation, links) in enumerate(zip(*columns)):
        first = {int(target): int(source) for source, target in (link.split("-") for link in reversed(links.split()))}
        words = len(line.split())
        targets = [first.get(place, words) for place in range(len(translation.split()))]
        weights = [[float(i == place) for i in range(words + 1)] for place in (*targets, words)]
        perfect.append(record(number, line, translation, weights))
        equal.append(record(number, line, translation, [[1.0] * (words + 1)] * len(weights)))
    write(adadelta / "Adam/score.jsonl", perfect)
    write(adadelta / "Adam/groundhog.jsonl", equal)
    printed_by(report.main, adadelta, "-s", "en", "-t", "fr", "--output", tmp_path / "out")
    made = sections(tmp_path / "out/report.md")
    pictures = re.findall(r"\]\((figure-3-\d+\.png)\)", made["Figure 3: alignments"])
    assert len(pictures) == 4 and all((tmp_path / "out" / name).read_bytes()[1:4] == b"PNG" for name in pictures)
    assert re.search(r"\| Adam \| \d\.\d\d \| 100\.00 \| ", made["Alignment error rate"])
    assert "Missing: Adadelta (no score.jsonl)." in made["Alignment error rate"]
    by_model, by_gold = re.findall(r"^\| (?:Adam|gold) \| [\d,]+ \| (.*)$", made["Monotony of alignments"], re.M)
    assert by_model == by_gold
    kept = unpack(tmp_path / "out/runs-1.tar.xz", tmp_path / "kept")
    assert not (kept / "Adam/score.jsonl").exists()
    assert BahdanauRuns(kept, "en", "fr").links == BahdanauRuns(adadelta, "en", "fr").links


def test_missing_files_are_named_and_bad_runs_refused(adadelta: Path, tmp_path: Path) -> None:
    for path in ("Adam/groundhog.tok", "Adam/nounk.tok", "data/dict.fr.txt", "data/test.align"):
        (adadelta / path).unlink()
    options = ["-s", "en", "-t", "fr", "--long", 61, "--output", tmp_path / "out"]
    printed_by(report.main, adadelta, *options)
    made = sections(tmp_path / "out/report.md")
    lacking = "the dictionaries, which tell unknown words, Adam (no groundhog.tok, no nounk.tok)"
    assert f"Missing: {lacking}." in made["Table 1: BLEU"]
    assert "Missing: a model with groundhog.jsonl." in made["Figure 3: alignments"]
    assert "No sentence has 61 words or more; the longest has 60." in made["Table 3: long sentences"]
    write(adadelta / "others/moses", ["un"])
    with pytest.raises(InputError, match="moses: ends at line 1"):
        printed_by(report.main, adadelta, *options)


@pytest.mark.parametrize(("recipe", "long"), [("reproduce", 30), ("multi30k_en_fr", 20)])
def test_the_scores_of_the_tuned_baseline_are_those_of_its_translations(recipe: str, long: int, tmp_path: Path) -> None:
    report = RECIPES / recipe / "report"
    tuned = unpack(report / "tuned.tar.xz", tmp_path / "tuned")
    test = BahdanauRuns(unpack(report / "runs-1.tar.xz", tmp_path / "runs"), "en", "fr").test
    page = (RECIPES / recipe / "EVIDENCE.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("|")]
    for folder in tuned.iterdir():
        lines = (folder / "groundhog.tok").read_text(encoding="utf-8").splitlines()
        scored = scored_by_bleu(lines, test.reference_words)
        scores = [scored.on(test.select_length(*span)).score for span in ((0,), (0, long - 1), (long,))]
        options, numbers = folder.name.split("_"), [f"{score:.2f}" for score in scores]
        assert [row[4:] for row in rows if row[:3] == options] == [numbers], folder


def test_the_documentations_numbers_by_pieces_are_those_of_its_translations(tmp_path: Path) -> None:
    archives = [RECIPES / f"docs_en_fr/report/runs-{number}.tar.xz" for number in (1, 2, 3)]
    seeds = [BahdanauRuns(unpack(archive, tmp_path / archive.name[:6]), "en", "fr") for archive in archives]
    text = (RECIPES / "docs_en_fr/EVIDENCE.md").read_text(encoding="utf-8")
    for row in table_by_pieces(seeds).splitlines()[2:]:
        assert row.removeprefix("| phrase-based").partition("|")[2] in text
    for penalised in (True, False):
        for line in differences_within(seeds, penalised):
            difference, low, high = re.findall(r"\d+\.\d\d\b", line.partition(": ")[2])[-3:]
            assert re.search(rf"[+−]{difference} \(−?{low} to −?{high}\)", text), line
