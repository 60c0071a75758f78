"""Each stored report is made again from the translations that are kept beside it."""

import re
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from recipes.reproduce import compare, eriguchi_tables, report
from recipes.reproduce.runs import BahdanauRuns
from rnnsearch_fairseq.errors import InputError
from tests.recipes.reproduce.builders import record, write

RECIPES = Path(__file__).resolve().parents[3] / "recipes"
# What a report needs weights or links for; the archives of WITHOUT_LINKS, of older runs, have none.
ALIGNMENTS = re.compile(r"(RUNS \d, )?(Figure 3|Alignment error rate|Monotony)")
WITHOUT_LINKS = ("reproduce/adadelta", "reproduce/long_sentences")


def call(main: Callable[[], None], *words: object) -> None:
    with mock.patch.object(sys, "argv", ["program", *map(str, words)]):
        main()


def unpack(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder


def sections(path: Path) -> dict[str, str]:
    """The text under each heading, but for the commit and the command line."""
    text = re.sub("^Commit: .*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(section.split("\n", 1) for section in re.split("^## ", text, flags=re.MULTILINE)[1:])


@pytest.mark.parametrize(
    ("folder", "options"),
    [
        ("reproduce/adadelta", ()),
        pytest.param("reproduce/report", (), marks=pytest.mark.slow),
        pytest.param("reproduce/long_sentences", (), marks=pytest.mark.slow),
        pytest.param("multi30k_en_fr/report", ("--long", 20), marks=pytest.mark.slow),
        pytest.param("docs_en_fr/report", ("--longest", 70), marks=pytest.mark.slow),
    ],
)
def test_reports_on_the_first_paper(
    folder: str, options: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packs = folder == "reproduce/adadelta"  # once, since it takes long
    if not packs:
        monkeypatch.setattr(BahdanauRuns, "translations_kept", lambda runs: b"")
    out, archives = tmp_path / "out", sorted((RECIPES / folder).glob("runs-*.tar.xz"))
    runs = [unpack(archive, tmp_path / archive.stem) for archive in archives]
    with_links = folder not in WITHOUT_LINKS
    if with_links:  # instead of the weights that Figure 3 shows, which no archive has
        monkeypatch.setattr(report, "plot_alignment", lambda *_: None)
        sentences = len((runs[0] / "data/test.en").read_text(encoding="utf-8").splitlines())
        lines = [record(number, "a", "b", [[1.0, 0.0]] * 2) for number in range(sentences)]
        write(runs[0] / "RNNsearch-50/groundhog.jsonl", lines)
    call(report.main, *runs, "-s", "en", "-t", "fr", *options, "--output", out)
    stored, made = sections(RECIPES / folder / "report.md"), sections(out / "report.md")
    assert list(made) == list(stored)
    for title in stored:
        assert made[title] == stored[title] or (ALIGNMENTS.match(title) and not with_links), title
    if packs:
        again = unpack(out / archives[0].name, tmp_path / "again")
        files = {path.relative_to(runs[0]): path.read_bytes() for path in runs[0].rglob("*") if path.is_file()}
        assert files == {path.relative_to(again): path.read_bytes() for path in again.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["", "to_the_end", "to_the_end/unparsed"])
def test_tables_of_the_second_paper(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eriguchi_tables, "packed", lambda files: b"")
    stored = RECIPES / "tanaka_en_ja" / folder
    runs = unpack(stored / "runs-1.tar.xz", tmp_path / "runs")
    reference = runs / eriguchi_tables.REFERENCE
    call(eriguchi_tables.main, runs, "--reference", reference, "--output", tmp_path / "tables.md")
    assert sections(tmp_path / "tables.md") == sections(stored / "tables.md")


def test_comparison_with_other_systems(tmp_path: Path) -> None:
    best = RECIPES / "multi30k_en_fr/best"
    systems = {
        "RNNsearch": ("rnnsearch-1", "rnnsearch-2"),
        "RNNsearch, ensemble": ("rnnsearch-ensemble",),
        "lstm, usual settings": ("lstm-usual",),
        "lstm": ("lstm-1", "lstm-2"),
        "transformer": ("transformer",),
        "transformer, published settings": ("transformer-published-1", "transformer-published-2"),
        "Moses": ("moses",),
    }
    words = [f"{name}={','.join(str(best / f'{file}.fr') for file in files)}" for name, files in systems.items()]
    call(compare.main, best / "reference.fr", *words, "--output", tmp_path / "report.md")
    assert sections(tmp_path / "report.md") == sections(best / "report.md")
    with pytest.raises(InputError, match=r"short.* 1"):
        call(compare.main, best / "reference.fr", f"A={write(tmp_path / 'short', ['un'])}")


def test_intervals_in_the_table_of_claims_stand_in_the_reports() -> None:
    paths = [
        *RECIPES.glob("*/report/report.md"),
        *RECIPES.glob("reproduce/*/report.md"),
        *RECIPES.glob("tanaka_en_ja/**/tables.md"),
    ]
    text = "".join(path.read_text(encoding="utf-8") for path in paths)
    number = r"([+-]?\d+\.\d\d)"
    reported = {
        tuple(map(float, found)) for found in re.findall(rf"{number}, 95 % interval {number} to {number}", text)
    }
    readme = (RECIPES / "reproduce/README.md").read_text(encoding="utf-8").replace("−", "-")
    table = readme.partition("## Every claim")[2].partition("## Enough")[0]
    claimed = re.findall(rf"{number}[^()|]* \({number} to {number}\)", table)
    assert len(claimed) > 90
    for apart, low, high in (map(float, numbers) for numbers in claimed):
        # A loss is told without its sign, and a claim the other way round with the opposite one.
        assert {(apart, low, high), (-apart, low, high), (-apart, -high, -low), (apart, -high, -low)} & reported, apart


@pytest.fixture
def adadelta(tmp_path: Path) -> Path:
    return unpack(RECIPES / "reproduce/adadelta/runs-1.tar.xz", tmp_path / "runs")


def test_alignments_are_drawn_compared_with_gold_ones_and_kept_as_links(adadelta: Path, tmp_path: Path) -> None:
    source, reference, gold = (
        (adadelta / f"data/test.{ending}").read_text().splitlines() for ending in ("en", "fr", "align")
    )
    translations = (adadelta / "Adam/groundhog.tok").read_text().splitlines()
    perfect = []
    for number, (line, translation, links) in enumerate(zip(source, reference, gold)):
        first = {int(link.split("-")[1]): int(link.split("-")[0]) for link in reversed(links.split())}
        words = len(line.split())
        targets = [first.get(place, words) for place in range(len(translation.split()))]
        weights = [[float(i == place) for i in range(words + 1)] for place in (*targets, words)]
        perfect.append(record(number, line, translation, weights))
    write(adadelta / "Adam/score.jsonl", perfect)
    equal = [
        record(number, line, translation, [[1.0] * (len(line.split()) + 1)] * (len(translation.split()) + 1))
        for number, (line, translation) in enumerate(zip(source, translations))
    ]
    write(adadelta / "Adam/groundhog.jsonl", equal)
    call(report.main, adadelta, "-s", "en", "-t", "fr", "--output", tmp_path / "out")
    made = sections(tmp_path / "out/report.md")
    pictures = re.findall(r"\]\((figure-3-\d+\.png)\)", made["Figure 3: alignments"])
    assert len(pictures) == 4 and all((tmp_path / "out" / name).read_bytes()[1:4] == b"PNG" for name in pictures)
    assert re.search(r"\| Adam \| \d\.\d\d \| 100\.00 \| ", made["Alignment error rate"])
    assert "Missing: Adadelta (no score.jsonl)." in made["Alignment error rate"]
    by_model, by_gold = re.findall(r"^\| (?:Adam|gold) \| [\d,]+ \| (.*)$", made["Monotony of alignments"], re.M)
    assert by_model == by_gold
    unpack(tmp_path / "out/runs-1.tar.xz", tmp_path / "kept")
    assert not (tmp_path / "kept/Adam/score.jsonl").exists()
    assert BahdanauRuns(tmp_path / "kept", "en", "fr").links == BahdanauRuns(adadelta, "en", "fr").links


def test_missing_files_are_named_and_bad_runs_refused(adadelta: Path, tmp_path: Path) -> None:
    for path in ("Adam/groundhog.tok", "Adam/nounk.tok", "data/dict.fr.txt", "data/test.align"):
        (adadelta / path).unlink()
    (adadelta / "old").mkdir()
    call(report.main, adadelta, "-s", "en", "-t", "fr", "--long", 61, "--output", tmp_path / "out")
    made = sections(tmp_path / "out/report.md")
    lacking = "the dictionaries, which tell unknown words, Adam (no groundhog.tok, no nounk.tok)"
    assert f"Missing: {lacking}." in made["Table 1: BLEU"]
    assert "Missing: a model with groundhog.jsonl." in made["Figure 3: alignments"]
    assert "In no table: old." in made["Monotony of alignments"]
    assert "No sentence has 61 words or more; the longest has 60." in made["Table 3: long sentences"]
    with pytest.raises(InputError, match="runs"):
        eriguchi_tables.EriguchiRuns(adadelta, adadelta / "data/test.fr")
    with pytest.raises(InputError, match="nowhere"):
        call(report.main, tmp_path / "nowhere", "-s", "en", "-t", "fr", "--output", tmp_path / "out")
    write(adadelta / "others/moses", ["un"])
    with pytest.raises(InputError, match="moses"):
        call(report.main, adadelta, "-s", "en", "-t", "fr", "--output", tmp_path / "out")
