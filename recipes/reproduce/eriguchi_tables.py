"""The tables of the tree-to-sequence paper, Eriguchi et al. (2016), of one's own runs, in Markdown.

``python -m recipes.reproduce.eriguchi_tables RUNS --reference FILE [--output FILE]``

RUNS has a folder for each run, named MODEL-OBJECTIVE: MODEL is tree2seq (the paper's), anmt (the sequential model),
anmt_reversed (the same, reading backwards) or phrases_only (the paper's without sequential LSTMs); OBJECTIVE is softmax
or blackoutK, K being the number of negatives. MODEL-OBJECTIVE-seedN is a further run with another seed. In each folder
are

train.log    the log of fairseq-train
beam20.tok   translations of the development set by --search tree2seq with length statistics, beam 20
simple6.tok, simple20.tok, lengths6.tok, lengths20.tok
             for Table 4: translations by beams of 6 and 20, without and with length statistics

Translations and the reference are tokens of the same tokeniser, one sentence a line. Under each table stand the runs
and files that are missing, and whether the numbers agree with the paper's claims, do not agree, or decide nothing.
"""

import itertools
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from recipes.reproduce.bootstrap import RESAMPLES, Difference, draw
from recipes.reproduce.command import command_line
from recipes.reproduce.document import Bullets, Section, Table, to_markdown, write_text
from recipes.reproduce.epochs import best_epoch, read_train_log
from recipes.reproduce.token_scores import TokenScores, score_tokens
from rnnsearch_fairseq.errors import InputError, print_without_traceback
from rnnsearch_fairseq.text.lines import read_parallel

MODELS = {
    "tree2seq": "proposed",
    "anmt": "ANMT",
    "anmt_reversed": "ANMT, source reversed",
    "phrases_only": "proposed, without sequential LSTMs",
}
TABLE_3 = ("tree2seq", "anmt", "anmt_reversed")
TABLE_5 = ("tree2seq", "phrases_only")
OBJECTIVES = ("blackout500", "blackout2000", "softmax")
NAME = re.compile(rf"({'|'.join(MODELS)})-(softmax|blackout[1-9][0-9]*)(-seed[0-9]+)?")
BEST = "tree2seq-softmax"
SEARCHED = "tree2seq-blackout2000"  # the model of the paper's Table 4

LOG = "train.log"
TRANSLATIONS = "beam20.tok"
SEARCHES = {
    "simple6": ("simple", 6),
    "simple20": ("simple", 20),
    "lengths6": ("length statistics", 6),
    "lengths20": ("length statistics", 20),
}
# The paper searches with length statistics by a beam of 20 only.
SEARCH_CLAIMS = (("lengths20", "simple6"), ("lengths20", "simple20"), ("lengths6", "simple6"))
ABOUT_THREE = (2, 4)
HOW = (
    "In brackets stand two scores, their difference, and its 95 % interval by paired bootstrap "
    f"({RESAMPLES:,} resamples). A claim agrees if the interval is above zero, does not agree if it is below zero, and "
    "is undecided otherwise. Perplexity decides no claim: a log has no interval of it, and in the paper, too, it gets "
    "worse with more negatives (Section 5.1)."
)


@dataclass(frozen=True)
class EriguchiRun:
    """A run that has all of its files.

    perplexity: of the development set, by the epoch of lowest loss there.
    seconds: the median over the epochs.
    """

    perplexity: float
    seconds: float
    epochs: int
    scores: TokenScores

    @property
    def measures(self) -> dict[str, float]:
        """The measures of a model in the tables."""
        return {"perplexity": self.perplexity, "RIBES": self.scores.ribes, "BLEU": self.scores.bleu}


class EriguchiRuns:
    """The runs in a folder: ``complete`` has those with all files, ``searches`` the scores for Table 4.

    Raises:
        InputError: the folder holds no run, or a file is bad.
    """

    def __init__(self, folder: Path, reference: Path) -> None:
        self.folder, self.reference = folder, reference
        folders = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
        names = [name for name in folders if NAME.fullmatch(name)]
        if not names:
            raise InputError(f"{folder}: holds no run; give the folder of those named MODEL-OBJECTIVE, as {BEST}")
        self.others = [name for name in folders if name not in names]
        self.objectives = sorted({*OBJECTIVES, *(name.split("-")[1] for name in names)}, key=_order)
        self.seeds = sorted({"", *(NAME.fullmatch(name)[3] or "" for name in names)})
        self.complete = {name: self._read(name) for name in names if not self.lacks(name)}
        self.searches = {name: self._searches(name) for name in names}

    def lacks(self, name: str) -> str:
        """The missing files of a run, in words; empty if there are none."""
        if not (self.folder / name).is_dir():
            return "no folder"
        missing = [file for file in (LOG, TRANSLATIONS) if not (self.folder / name / file).exists()]
        return f"no {' and no '.join(missing)}" if missing else ""

    def _read(self, name: str) -> EriguchiRun:
        log = self.folder / name / LOG
        epochs = read_train_log(log)
        best = best_epoch(epochs)
        if best is None or best.dev_ppl is None:
            raise InputError(f"{log}: no epoch was validated; train without --disable-validation")
        seconds = statistics.median(epoch.seconds for epoch in epochs)
        return EriguchiRun(best.dev_ppl, seconds, epochs[-1].number, self._score(self.folder / name / TRANSLATIONS))

    def _searches(self, name: str) -> dict[str, TokenScores]:
        paths = {search: self.folder / name / f"{search}.tok" for search in SEARCHES}
        return {search: self._score(path) for search, path in paths.items() if path.exists()}

    def _score(self, path: Path) -> TokenScores:
        return score_tokens(*read_parallel(self.reference, path))


def _order(objective: str) -> tuple[bool, int]:
    """The order of the paper's tables: BlackOut by the number of negatives, then softmax."""
    negatives = objective.removeprefix("blackout")
    return (False, int(negatives)) if negatives.isdigit() else (True, 0)


def table_3(runs: EriguchiRuns) -> Section:
    """Models and objectives: development set perplexity, RIBES, BLEU, and time."""
    header = ["model", "objective", "perplexity", "RIBES", "BLEU", "seconds an epoch", "epochs"]
    rows, missing = _model_rows(runs, TABLE_3)
    rows = [[*cells, f"{run.seconds:g}", str(run.epochs)] for cells, run in rows]
    claims = []
    for objective in runs.objectives:
        for seed in runs.seeds:
            claims += _claim(runs, f"tree2seq-{objective}{seed}", f"anmt-{objective}{seed}")
    for objective in runs.objectives:
        claims += _claim(runs, f"anmt-{objective}", f"anmt_reversed-{objective}")
    for fewer, more in itertools.pairwise(runs.objectives[:-1]):
        claims += _claim(runs, f"tree2seq-{more}", f"tree2seq-{fewer}")
    for model in TABLE_3:
        for objective in runs.objectives[:-1]:
            claims += _claim(runs, f"{model}-softmax", f"{model}-{objective}")
            claims += _time_claim(runs, f"{model}-softmax", f"{model}-{objective}")
    return _section("Table 3: models and objectives", Table(header, rows), missing, claims)


def table_4(runs: EriguchiRuns) -> Section:
    """Searches: RIBES, BLEU, BLEU's brevity penalty, and the length of the translations over the references'."""
    header = ["run", "search", "beam", "RIBES", "BLEU", "brevity penalty", "length ratio"]
    rows, missing, claims = [], [], []
    for name, searches in {SEARCHED: {}, **runs.searches}.items():
        if not searches and name != SEARCHED:
            continue
        missing += [f"{name} (no {search}.tok)" for search in SEARCHES if search not in searches]
        for search, scores in searches.items():
            lengths = [f"{scores.brevity_penalty:.3f}", f"{scores.length_ratio:.3f}"]
            label, beam = SEARCHES[search]
            rows.append([name, label, str(beam), f"{scores.ribes:.2f}", f"{scores.bleu:.2f}", *lengths])
        for better, worse in SEARCH_CLAIMS:
            if better in searches and worse in searches:
                claims.append(agreement(f"{name}: {better} beats {worse}", searches[better], searches[worse]))
    return _section("Table 4: searches", Table(header, rows), missing, claims)


def table_5(runs: EriguchiRuns) -> Section:
    """With and without sequential LSTMs: development set perplexity, RIBES, BLEU."""
    header = ["model", "objective", "perplexity", "RIBES", "BLEU"]
    rows, missing = _model_rows(runs, TABLE_5)
    claims = []
    for objective in runs.objectives:
        claims += _claim(runs, f"tree2seq-{objective}", f"phrases_only-{objective}")
    table = Table(header, [cells for cells, _ in rows])
    return _section("Table 5: the sequential LSTMs", table, missing, claims)


def _model_rows(runs: EriguchiRuns, models: Iterable[str]) -> tuple[list[tuple[list[str], EriguchiRun]], list[str]]:
    """The first cells of each run's row, with the run; and the runs that are missing, with the reason."""
    rows, missing = [], []
    for model, objective, seed in itertools.product(models, runs.objectives, runs.seeds):
        name = f"{model}-{objective}{seed}"
        run = runs.complete.get(name)
        if run is not None:
            numbers = [f"{number:.2f}" for number in run.measures.values()]
            rows.append(([MODELS[model], objective + seed.replace("-seed", ", seed "), *numbers], run))
        elif (objective in OBJECTIVES and not seed) or runs.lacks(name) != "no folder":
            missing.append(f"{name} ({runs.lacks(name)})")
    return rows, missing


def _section(title: str, table: Table, missing: Sequence[str], claims: Sequence[str]) -> Section:
    """A table, the runs that are missing in it, and the claims."""
    section = Section(title, [table])
    section.missing(missing)
    section.blocks += ["The paper's claims:", Bullets(claims or ["nothing to compare"])]
    return section


def agreement(claim: str, better: TokenScores, worse: TokenScores) -> str:
    """The claim, and for RIBES and BLEU whether ``better`` is better, by paired bootstrap of the sentences."""
    verdicts = []
    for measure, scored in better.measures.items():
        (drawn,) = draw(len(scored.statistics))
        difference = Difference.between(scored.scores(drawn), worse.measures[measure].scores(drawn))
        verdicts.append(f"{measure} {difference.verdict()} ({difference})")
    return f"{claim}: {', '.join(verdicts)}"


def _claim(runs: EriguchiRuns, better: str, worse: str) -> list[str]:
    """The agreement with a claim, in a list that is empty if a run is missing."""
    if better not in runs.complete or worse not in runs.complete:
        return []
    return [agreement(f"{better} beats {worse}", runs.complete[better].scores, runs.complete[worse].scores)]


def _time_claim(runs: EriguchiRuns, slow: str, fast: str) -> list[str]:
    """The agreement with a claim, in a list that is empty if a run is missing."""
    if slow not in runs.complete or fast not in runs.complete:
        return []
    taken, less = runs.complete[slow].seconds, runs.complete[fast].seconds
    claim = f"{slow} takes about three times as long as {fast}"
    if less == 0:
        return [f"{claim}: not compared ({taken:g} s, {less:g} s)"]
    low, high = ABOUT_THREE
    holds = "agrees" if low <= taken / less <= high else "does not agree"
    return [f"{claim}: {holds} ({taken:g} s, {less:g} s: {taken / less:.1f} times; {low} to {high} agree)"]


def report(runs: EriguchiRuns) -> str:
    """All tables, as Markdown."""
    sections = [table(runs) for table in (table_3, table_4, table_5)]
    if runs.others:
        sections[-1].blocks.append(f"In no table: {', '.join(runs.others)}.")
    return to_markdown([*sections, Section("How claims are tested", [HOW])])


def main() -> None:
    """The command line of this module."""
    parser = command_line(__doc__)
    parser.add_argument("runs", type=Path, help="folder of runs; see above")
    tokens = "the development set's target side, as tokens"
    parser.add_argument("--reference", type=Path, metavar="FILE", required=True, help=tokens)
    args = parser.parse_args()
    inputs = (args.reference, *args.runs.glob("*/*"))
    write_text(report(EriguchiRuns(args.runs, args.reference)), args.output, inputs)
    if args.output is not None:
        print(f"tables of {args.runs} -> {args.output}")


if __name__ == "__main__":
    print_without_traceback()
    main()
