"""The tables of the tree-to-sequence paper, Eriguchi et al. (2016), of one's own runs, in Markdown.

RUNS has a folder for each run, named MODEL-OBJECTIVE: MODEL is tree2seq (the paper's), anmt (the sequential model),
anmt_reversed (the same, reading backwards) or phrases_only (the paper's without sequential LSTMs); OBJECTIVE is
softmax, blackout500 or blackout2000, by the number of negatives. MODEL-OBJECTIVE-seedN is a further run with another
seed; claims pool all seeds. In each folder are

train.log    the log of fairseq-train
lengths20.tok
             translations of the test set by --search tree2seq with length statistics, beam 20
simple6.tok, simple20.tok, lengths6.tok
             for Table 4: translations by beams of 6 and 20, without and with length statistics
score.jsonl  of a model with trees, the output of rnnsearch score: the share of attention on phrases

Translations and the reference are tokens of the same tokeniser, one sentence a line. Under each table stand the runs
and files that are missing, and whether the numbers agree with the paper's claims, do not agree, or decide nothing. The
reference and all translations are kept in runs-1.tar.xz beside --output.

  python -m recipes.reproduce.eriguchi_tables RUNS --reference test.ja --output tables.md
"""

import itertools
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from recipes.reproduce.bootstrap import INTERVAL, PAIRED, Difference, count_intervals, in_words
from recipes.reproduce.document import Section, bullets, escape, missing, provenance, table, to_markdown
from recipes.reproduce.epochs import best_epoch, read_train_log
from recipes.reproduce.logs import read_log
from recipes.reproduce.runs import packed
from recipes.reproduce.systems import read_parallel
from recipes.reproduce.token_scores import BLEU, MEASURES, RIBES, TokenScores, score_tokens
from rnnsearch_fairseq.command_line import make_parser, print_without_traceback
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.aligned_pairs import read_scores
from rnnsearch_fairseq.output import open_output

MODELS = {
    "tree2seq": "proposed",
    "anmt": "ANMT",
    "anmt_reversed": "ANMT, source reversed",
    "phrases_only": "proposed, without sequential LSTMs",
}
TABLE_3 = ("tree2seq", "anmt", "anmt_reversed")
TABLE_5 = ("tree2seq", "phrases_only")
OBJECTIVES = ("blackout500", "blackout2000", "softmax")
NAME = re.compile(rf"({'|'.join(MODELS)})-({'|'.join(OBJECTIVES)})(-seed[0-9]+)?")
BEST = "tree2seq-softmax"
SEARCHED = "tree2seq-blackout2000"  # the model of the paper's Table 4
PARAMETERS = re.compile(r"num\. shared model params: ([0-9,]{1,20})")

LOG, SCORES, REFERENCE = "train.log", "score.jsonl", "reference.tok"
TRANSLATIONS = "lengths20.tok"
SEARCHES = {
    "simple6": ("simple", 6),
    "simple20": ("simple", 20),
    "lengths6": ("length statistics", 6),
    "lengths20": ("length statistics", 20),
}
# The paper searches with length statistics by a beam of 20 only, and says that BLEU falls with a simple beam.
SEARCH_CLAIMS = (("lengths20", "simple6"), ("lengths20", "simple20"), ("simple6", "simple20"))
HEADER = ("model", "objective", "million parameters", "best epoch", "perplexity", *MEASURES, "brevity penalty")
HOW = (
    f"In brackets: two scores, their difference, and {INTERVAL}. {PAIRED} A claim agrees if the whole interval is "
    "above zero, does not agree if it is below, and is undecided otherwise. BLEU is the product of its brevity penalty "
    "and BLEU/BP. Perplexity decides no claim: a log has no interval of it, and in the paper, too, it gets worse with "
    "more negatives (Section 5.1)."
)


@dataclass(frozen=True)
class EriguchiRun:
    """A run that has all of its files: perplexity of the development set, by the epoch of lowest loss there."""

    parameters: str
    best: int
    epochs: int
    perplexity: float
    scores: TokenScores

    @property
    def cells(self) -> list[str]:
        """The measures of a model in the tables."""
        return [
            self.parameters,
            f"{self.best} of {self.epochs}",
            f"{self.perplexity:.2f}",
            *(f"{score:.2f}" for score in self.scores.scores.values()),
            f"{self.scores.brevity_penalty:.3f}",
        ]


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
        self.seeds = sorted({"", *(NAME.fullmatch(name)[3] or "" for name in names)})
        self._scored = cache(self._score)  # Tables 3 and 4 both need TRANSLATIONS
        self.complete = {name: self._read(name) for name in names if not self.lacks(name)}
        self.searches = {name: self._searches(name) for name in names}

    def find_seeds(self, name: str) -> list[EriguchiRun]:
        """The complete runs of MODEL-OBJECTIVE."""
        return [self.complete[f"{name}{seed}"] for seed in self.seeds if f"{name}{seed}" in self.complete]

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
        counts = [f"{int(count.replace(',', '')) / 1e6:.2f}" for count in PARAMETERS.findall(read_log(log))]
        scores = self._scored(self.folder / name / TRANSLATIONS)
        return EriguchiRun((counts or ["–"])[-1], best.number, epochs[-1].number, best.dev_ppl, scores)

    def _searches(self, name: str) -> dict[str, TokenScores]:
        paths = {search: self.folder / name / f"{search}.tok" for search in SEARCHES}
        others = [path for path in paths.values() if path.exists() and path.name != TRANSLATIONS]
        return {search: self._scored(path) for search, path in paths.items() if path.exists()} if others else {}

    def _score(self, path: Path) -> TokenScores:
        return score_tokens(*read_parallel(self.reference, path))


def table_3(runs: EriguchiRuns) -> Section:
    """Models and objectives."""
    pairs = [(f"tree2seq-{name}", f"{other}-{name}") for other in TABLE_3[1:] for name in OBJECTIVES]
    pairs += [(f"anmt-{name}", f"anmt_reversed-{name}") for name in OBJECTIVES]
    pairs += [(f"tree2seq-{more}", f"tree2seq-{fewer}") for fewer, more in itertools.pairwise(OBJECTIVES[:-1])]
    pairs += [(f"{model}-softmax", f"{model}-{name}") for model in TABLE_3 for name in OBJECTIVES[:-1]]
    title, blocks = _model_table(runs, "Table 3: models and objectives", TABLE_3, pairs)
    models = {
        objective: [[run.scores for run in runs.find_seeds(f"{model}-{objective}")] for model in ("tree2seq", "anmt")]
        for objective in OBJECTIVES
    }
    return title, [*blocks, *corrected("The main claim, tree2seq beats anmt", models)]


def table_4(runs: EriguchiRuns) -> Section:
    """Searches: RIBES, BLEU, BLEU's brevity penalty, and the length of the translations over the references'."""
    header = ["run", "search", "beam", *MEASURES, "brevity penalty", "length ratio"]
    rows, lacking, claims, holm = [], [], [], []
    for name, searches in {SEARCHED: {}, **runs.searches}.items():
        if not searches and name != SEARCHED:
            continue
        lacking += [f"{name} (no {search}.tok)" for search in SEARCHES if search not in searches]
        for search, scores in searches.items():
            lengths = [f"{scores.brevity_penalty:.3f}", f"{scores.length_ratio:.3f}"]
            label, beam = SEARCHES[search]
            numbers = [f"{score:.2f}" for score in scores.scores.values()]
            rows.append([name, label, str(beam), *numbers, *lengths])
    for name in dict.fromkeys(name.split("-seed")[0] for name in runs.searches):
        seeds = [runs.searches.get(f"{name}{seed}", {}) for seed in runs.seeds]
        sides = {}
        for better, worse in SEARCH_CLAIMS:
            both = [(of[better], of[worse]) for of in seeds if better in of and worse in of]
            if both:
                claims.append(agreement(f"{name}: {better} beats {worse}", *zip(*both), same_models=True))
                if better == TRANSLATIONS.removesuffix(".tok"):
                    sides[f"above {worse}"] = list(zip(*both))
        holm += corrected(f"{name}: the claim that length statistics help", sides, same_models=True)
    title, blocks = _section("Table 4: searches", table(header, rows), lacking, claims)
    return title, [*blocks, *holm]


def table_5(runs: EriguchiRuns) -> Section:
    """With and without sequential LSTMs."""
    pairs = [(f"tree2seq-{objective}", f"phrases_only-{objective}") for objective in OBJECTIVES]
    return _model_table(runs, "Table 5: the sequential LSTMs", TABLE_5, pairs)


def attention(runs: EriguchiRuns) -> Section:
    """The share of attention on phrases."""
    rows = []
    for path in sorted(runs.folder.glob(f"*/{SCORES}")):
        weights = [pair.phrase_weights.sum(dim=1) for pair in read_scores(path) if pair.phrases]
        if weights:
            share = torch.cat(weights)
            rows.append([path.parent.name, f"{100 * share.mean():.1f}", f"{100 * (share > 0.5).double().mean():.1f}"])
    header = ["run", "weight on phrases", "target words with most weight on phrases"]
    how = "In percent, over the target words of the references of the sentences with a parse."
    return "Attention to phrases", [table(header, rows), how] if rows else [f"No run has {SCORES}."]


def _model_table(runs: EriguchiRuns, title: str, models: Sequence[str], pairs: Iterable[tuple[str, str]]) -> Section:
    """A row for each run, the runs that are missing, and whether the first of each of ``pairs`` beats the second."""
    rows, lacking = [], []
    for model, objective, seed in itertools.product(models, OBJECTIVES, runs.seeds):
        name = f"{model}-{objective}{seed}"
        run = runs.complete.get(name)
        if run is not None:
            rows.append([MODELS[model], objective + seed.replace("-seed", ", seed "), *run.cells])
        elif not seed or runs.lacks(name) != "no folder":
            lacking.append(f"{name} ({runs.lacks(name)})")
    claims = []
    for better, worse in pairs:
        sides = runs.find_seeds(better), runs.find_seeds(worse)
        if all(sides):
            perplexity = ", ".join(f"{statistics.mean(run.perplexity for run in side):.2f}" for side in sides)
            claim = agreement(f"{better} beats {worse}", *([run.scores for run in side] for side in sides))
            claims.append(f"{claim}, perplexity not decided ({perplexity})")
    return _section(title, table(HEADER, rows), lacking, claims)


def corrected(claim: str, sides: Mapping[str, Sequence[Sequence[TokenScores]]], same_models: bool = False) -> list[str]:
    """All tests of one claim by BLEU and RIBES, each named and given by its two sides, corrected by Holm (1979)."""
    tests = {}
    for name, both in sides.items():
        for measure in (BLEU, RIBES) if all(both) else ():
            scores = [[seed.measures[measure].resampled for seed in side] for side in both]
            tests[f"{name} {measure}"] = Difference.between(*scores, same_models).p
    numbers, largest = [], 0.0
    for rank, (name, p) in enumerate(sorted(tests.items(), key=lambda test: test[1])):
        largest = max(largest, min(1.0, (len(tests) - rank) * p))
        numbers.append(f"{name} {p:.3f}, corrected {largest:.3f}")
    how = f"{claim}, makes {len(tests)} tests. Their p, and p corrected by Holm:"
    return [escape(f"{how} {'; '.join(numbers)}.")] if tests else []


def _section(title: str, numbers: str, lacking: Sequence[str], claims: Sequence[str]) -> Section:
    """A table, the runs that are missing in it, and the claims."""
    return title, [numbers, *missing(lacking), "The paper's claims:", bullets(claims or ["nothing to compare"])]


def agreement(
    claim: str, better: Sequence[TokenScores], worse: Sequence[TokenScores], same_models: bool = False
) -> str:
    """The claim, and by each measure whether ``better`` is better, each given by its seeds (`Difference.between`)."""
    verdicts = []
    for measure in MEASURES:
        sides = [[scores.measures[measure].resampled for scores in side] for side in (better, worse)]
        difference = Difference.between(*sides, same_models)
        verdicts.append(f"{measure} {difference.verdict()} ({difference})")
    return f"{claim}, {in_words((len(better), len(worse)))}: {', '.join(verdicts)}"


def report(runs: EriguchiRuns) -> str:
    """All tables, as Markdown."""
    sections = [make_section(runs) for make_section in (table_3, table_4, table_5, attention)]
    how = f"{HOW} {count_intervals(block for _, blocks in sections for block in blocks)}"
    sections[0][1].insert(0, provenance())
    if runs.others:
        sections[-1][1].append(escape(f"In no table: {', '.join(runs.others)}."))
    return to_markdown([*sections, ("How claims are tested", [escape(how)])])


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("runs", type=Path, metavar="RUNS", help="folder of runs; see above")
    tokens = "the test set's target side, as tokens"
    parser.add_argument("--reference", type=Path, metavar="FILE", required=True, help=tokens)
    parser.add_argument("--output", type=Path, metavar="FILE", required=True, help="file to write")
    args = parser.parse_args()
    files = sorted(path for path in args.runs.glob("*/*") if path.suffix == ".tok" or path.name == LOG)
    contents = {args.output: report(EriguchiRuns(args.runs, args.reference)).encode()}
    kept = {str(path.relative_to(args.runs)): path.read_bytes() for path in files}
    contents[args.output.with_name("runs-1.tar.xz")] = packed({REFERENCE: args.reference.read_bytes(), **kept})
    for path, content in contents.items():
        with open_output(path) as out:
            out.write(content)
    print(f"tables of {args.runs} -> {args.output}")


if __name__ == "__main__":
    print_without_traceback()
    main()
