"""The tables of the tree-to-sequence paper, Eriguchi et al. (2016), of one's own runs, in Markdown.

RUNS has a folder for each run, named MODEL-OBJECTIVE: MODEL is tree2seq (the paper's), anmt (the sequential model),
anmt_reversed (the same, reading backwards), phrases_only (the paper's without sequential LSTMs), right or random (the
paper's with right-branching or random trees, which make a table of controls); OBJECTIVE is softmax, blackout500 or
blackout2000, by the number of negatives. MODEL-OBJECTIVE-seedN is a further run with another seed; claims pool all
seeds. In each folder are

train.log    the log of fairseq-train
lengths20.tok
             translations of the test set by --search tree2seq with length statistics, beam 20
simple6.tok, simple20.tok, lengths6.tok
             for Table 4: translations by beams of 6 and 20, without and with length statistics
score.jsonl  of a model with trees, the output of rnnsearch score: the share of attention on phrases

Translations and the reference are tokens of the same tokeniser, one sentence a line. Under each table stand the runs
and files that are missing, and whether the numbers agree with the paper's claims, do not agree, or decide nothing. The
reference and all translations are kept in runs-1.tar.xz beside --output.

With --source there is a table of BLEU by source length, too.

  python -m recipes.reproduce.eriguchi_tables RUNS --reference test.ja --output tables.md
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path

import torch

from recipes.reproduce.bleu import brevity_penalty
from recipes.reproduce.bootstrap import ABOVE, HOLM, INTERVAL, PAIRED, SEEDS, Difference, Scored, decide, in_words
from recipes.reproduce.by_length import span
from recipes.reproduce.document import Section, bullets, escape, missing, provenance, table, to_markdown
from recipes.reproduce.epochs import best_epoch, read_log, read_train_log
from recipes.reproduce.runs import packed
from recipes.reproduce.systems import TestSet, read_parallel
from recipes.reproduce.token_scores import BLEU, MEASURES, RIBES, UNPENALISED, score_tokens
from rnnsearch_fairseq.command_line import make_parser, program
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.aligned_pairs import read_scores
from rnnsearch_fairseq.output import open_output

MODELS = {
    "tree2seq": "proposed",
    "anmt": "ANMT",
    "anmt_reversed": "ANMT, source reversed",
    "phrases_only": "proposed, without sequential LSTMs",
    "right": "proposed, right-branching trees",
    "random": "proposed, random trees",
}
TABLE_3 = ("tree2seq", "anmt", "anmt_reversed")
CONTROLS = ("tree2seq", "right", "random")
OBJECTIVES = ("blackout500", "blackout2000", "softmax")
NAME = re.compile(rf"({'|'.join(MODELS)})-({'|'.join(OBJECTIVES)})(-seed[0-9]+)?")
BEST = "tree2seq-softmax"
SEARCHED = "tree2seq-blackout2000"  # the model of the paper's Table 4
PARAMETERS = re.compile(r"num\. shared model params: ([0-9,]{1,20})")

LOG, SCORES, REFERENCE, SOURCE = "train.log", "score.jsonl", "reference.tok", "source.tok"
TRANSLATED = "lengths20"  # the search of Tables 3 and 5
SEARCHES = {
    "simple6": ("simple", 6),
    "simple20": ("simple", 20),
    "lengths6": ("length statistics", 6),
    "lengths20": ("length statistics", 20),
}
# The paper searches with length statistics by a beam of 20 only, and says that BLEU falls with a simple beam.
SEARCH_CLAIMS = {
    "Length statistics help": (("lengths20", "simple6"), ("lengths20", "simple20")),
    "A larger simple beam is worse": (("simple6", "simple20"),),
}
# Each claim, and the runs of which the first is the better one.
TABLE_3_CLAIMS = {
    "The main claim, trees are better than ANMT": [(f"tree2seq-{name}", f"anmt-{name}") for name in OBJECTIVES],
    "Trees are better than reversed ANMT": [(f"tree2seq-{name}", f"anmt_reversed-{name}") for name in OBJECTIVES],
    "Reading backwards harms ANMT": [(f"anmt-{name}", f"anmt_reversed-{name}") for name in OBJECTIVES],
    "More negatives are better": [("tree2seq-blackout2000", "tree2seq-blackout500")],
    "Softmax is better than BlackOut": [
        (f"{model}-softmax", f"{model}-{name}") for model in TABLE_3 for name in OBJECTIVES[:-1]
    ],
}
BETTER_THAN_PHRASES = [(f"tree2seq-{name}", f"phrases_only-{name}") for name in OBJECTIVES]
TABLE_5_CLAIMS = {"Trees are worse without the sequential LSTMs": BETTER_THAN_PHRASES}
BETTER_THAN_CONTROLS = [(f"tree2seq-{name}", f"{model}-{name}") for model in CONTROLS[1:] for name in OBJECTIVES]
CONTROL_CLAIMS = {"Parses are better than trees that know nothing of syntax": BETTER_THAN_CONTROLS}
LENGTHS = (1, 15, 25, inf)  # the first words of each bin
HEADER = ("model", "objective", "million parameters", "best epoch", "perplexity", *MEASURES, "brevity penalty")
HOW = f"""In brackets: two scores, their difference, and {INTERVAL}.

- {SEEDS} {PAIRED}
- A test agrees if the whole interval is above zero, and does not agree if it is below.
- {HOLM} The tests by RIBES and BLEU are corrected together.
- BLEU is the product of its brevity penalty and BLEU/BP, whose tests are corrected among themselves.
- Perplexity decides no claim: a log has no interval of it, and in the paper, too, it gets worse with more negatives \
(Section 5.1)."""
Scores = dict[str, Scored]  # by each measure
Sides = tuple[Sequence[Scores], Sequence[Scores]]  # the seeds of two systems
Tests = Mapping[str, Sides]  # of a claim, by what they say


class EriguchiRuns:
    """The runs in a folder: ``scores`` has each run's scores by each of :data:`SEARCHES` that it was translated by.

    Raises:
        InputError: the folder holds no run, or a file is bad.
    """

    def __init__(self, folder: Path, reference: Path) -> None:
        self.folder = folder
        folders = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
        names = [name for name in folders if NAME.fullmatch(name)]
        if not names:
            raise InputError(f"{folder}: holds no run; give the folder of those named MODEL-OBJECTIVE, as {BEST}")
        self.others = [name for name in folders if name not in names]
        self.seeds = sorted({"", *(NAME.fullmatch(name)[3] or "" for name in names)})
        self.scores: dict[str, dict[str, Scores]] = {name: {} for name in names}
        for name, search in itertools.product(names, SEARCHES):
            if (path := folder / name / f"{search}.tok").exists():
                self.scores[name][search] = score_tokens(*read_parallel(reference, path))
        self.searched = {name: scores for name, scores in self.scores.items() if scores.keys() - {TRANSLATED}}

    def find_seeds(self, name: str) -> list[Scores]:
        """The scores of the complete runs of MODEL-OBJECTIVE."""
        return [self.scores[f"{name}{seed}"][TRANSLATED] for seed in self.seeds if not self.lacks(f"{name}{seed}")]

    def lacks(self, name: str) -> str:
        """The missing files of a run, in words; empty if there are none."""
        if not (self.folder / name).is_dir():
            return "no folder"
        missing = [file for file in (LOG, f"{TRANSLATED}.tok") if not (self.folder / name / file).exists()]
        return f"no {' and no '.join(missing)}" if missing else ""

    def describe(self, name: str) -> list[str]:
        """The cells of a complete run in :data:`HEADER`, from the parameters on."""
        log = self.folder / name / LOG
        epochs = read_train_log(log)
        best = best_epoch(epochs)
        if best is None or best.dev_ppl is None:
            raise InputError(f"{log}: no epoch was validated; train without --disable-validation")
        counts = [f"{int(count.replace(',', '')) / 1e6:.2f}" for count in PARAMETERS.findall(read_log(log))]
        training = [(counts or ["–"])[-1], f"{best.number} of {epochs[-1].number}", f"{best.dev_ppl:.2f}"]
        return training + describe_scores(self.scores[name][TRANSLATED])


def describe_scores(scores: Scores) -> list[str]:
    """Each measure in percent, and BLEU's brevity penalty."""
    penalty = brevity_penalty(scores[BLEU].statistics.sum(axis=0))
    return [*(f"{scored.score:.2f}" for scored in scores.values()), f"{penalty:.3f}"]


def table_4(runs: EriguchiRuns) -> Section:
    """Searches: RIBES, BLEU, BLEU's brevity penalty, and the length of the translations over the references'."""
    header = ["run", "search", "beam", *MEASURES, "brevity penalty", "length ratio"]
    rows, lacking = [], []
    for name, searches in {SEARCHED: {}, **runs.searched}.items():
        lacking += [f"{name} (no {search}.tok)" for search in SEARCHES if search not in searches]
        for search, scores in searches.items():
            words, expected = scores[BLEU].statistics[:, :2].sum(axis=0)
            label, beam = SEARCHES[search]
            rows.append([name, label, str(beam), *describe_scores(scores), f"{words / expected:.3f}"])
    models = dict.fromkeys(name.partition("-seed")[0] for name in runs.searched)
    claims: dict[str, dict[str, Sides]] = {claim: {} for claim in SEARCH_CLAIMS}
    for claim, pairs in SEARCH_CLAIMS.items():
        for name, (better, worse) in itertools.product(models, pairs):
            seeds = [runs.searched.get(f"{name}{seed}", {}) for seed in runs.seeds]
            both = [(of[better], of[worse]) for of in seeds if better in of and worse in of]
            claims[claim][f"{name}, {better} above {worse}"] = tuple([pair[side] for pair in both] for side in (0, 1))
    return _section("Table 4: searches", table(header, rows), lacking, claims, same_models=True)


def by_length(runs: EriguchiRuns, test: TestSet) -> Section:
    """BLEU by the words of the source, of each two models that have a claim in Table 3 or are controls."""
    rows = []
    claims = itertools.chain(*TABLE_3_CLAIMS.values(), BETTER_THAN_CONTROLS)
    for names, (least, after) in itertools.product(claims, itertools.pairwise(LENGTHS)):
        inside, seeds = test.select_length(least, after - 1), [runs.find_seeds(name) for name in names]
        if inside and all(seeds):
            apart = Difference.between(*([scores[BLEU].on(inside).resampled for scores in side] for side in seeds))
            numbers = apart.first, apart.second, apart.first - apart.second, apart.low, apart.high
            rows.append([*names, span(least, after - 1), str(len(inside)), *(f"{number:.2f}" for number in numbers)])
    header = ["A", "B", "words", "sentences", "BLEU of A", "BLEU of B", "A − B", "95 % interval from", "to"]
    return "BLEU by source length", [table(header, rows), "No interval is corrected for their number."]


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


def _model_table(runs: EriguchiRuns, title: str, claims: Mapping[str, Sequence[tuple[str, str]]]) -> Section:
    """A row for each run of a model that has a claim, the runs that are missing, and the verdicts on the claims."""
    models = dict.fromkeys(name.partition("-")[0] for pairs in claims.values() for pair in pairs for name in pair)
    rows, lacking = [], []
    for model, objective, seed in itertools.product(models, OBJECTIVES, runs.seeds):
        name = f"{model}-{objective}{seed}"
        if not (lacks := runs.lacks(name)):
            rows.append([MODELS[model], objective + seed.replace("-seed", ", seed "), *runs.describe(name)])
        elif not seed or lacks != "no folder":
            lacking.append(f"{name} ({lacks})")
    sides = {
        claim: {f"{better} above {worse}": (runs.find_seeds(better), runs.find_seeds(worse)) for better, worse in pairs}
        for claim, pairs in claims.items()
    }
    return _section(title, table(HEADER, rows), lacking, sides)


def _section(
    title: str, numbers: str, lacking: Sequence[str], claims: Mapping[str, Tests], same_models: bool = False
) -> Section:
    """A table, the runs that are missing in it, and the verdicts on the claims."""
    blocks = [numbers, *missing(lacking)]
    for claim, sides in claims.items():
        tests = {name: both for name, both in sides.items() if all(both)}
        if tests:
            blocks += [escape(f"{claim}:"), bullets(agreements(tests, same_models))]
    return title, blocks


def agreements(tests: Tests, same_models: bool = False) -> list[str]:
    """The tests of one claim: by each measure, whether the first of two systems is the better one."""
    lines = {name: f"{name}, {in_words((len(first), len(second)))}" for name, (first, second) in tests.items()}
    for measures in ((RIBES, BLEU), (UNPENALISED,)):  # each corrected by itself
        names = [(name, measure) for name in tests for measure in measures]
        sides = [[[scores[of].resampled for scores in side] for side in tests[name]] for name, of in names]
        results = decide([(Difference.between(*both, same_models), ABOVE) for both in sides])
        for (name, measure), (verdict, numbers) in zip(names, results):
            lines[name] += f"; {measure} {verdict} ({numbers})"
    return list(lines.values())


def report(runs: EriguchiRuns, test: TestSet | None = None) -> str:
    """All tables, as Markdown; with a ``test`` set, BLEU by source length, too."""
    sections = [
        _model_table(runs, "Table 3: models and objectives", TABLE_3_CLAIMS),
        table_4(runs),
        _model_table(runs, "Table 5: the sequential LSTMs", TABLE_5_CLAIMS),
        attention(runs),
    ]
    if any(name.startswith(CONTROLS[1:]) for name in runs.scores):
        sections.append(_model_table(runs, "Controls: trees without syntax", CONTROL_CLAIMS))
    if test is not None:
        sections.append(by_length(runs, test))
    sections[0][1].insert(0, provenance())
    if runs.others:
        sections[3][1].append(escape(f"In no table: {', '.join(runs.others)}."))
    return to_markdown([*sections, ("How claims are tested", [escape(HOW)])])


@program
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("runs", type=Path, metavar="RUNS", help="folder of runs; see above")
    tokens = "the test set's target side, as tokens"
    parser.add_argument("--reference", type=Path, metavar="FILE", required=True, help=tokens)
    parser.add_argument("--output", type=Path, metavar="FILE", required=True, help="file to write")
    parser.add_argument("--source", type=Path, metavar="FILE", help="its source side, for BLEU by source length")
    args = parser.parse_args()
    files = sorted(path for path in args.runs.glob("*/*") if path.suffix == ".tok" or path.name == LOG)
    test = TestSet(*read_parallel(args.source, args.reference)) if args.source else None
    tables = report(EriguchiRuns(args.runs, args.reference), test)
    kept = {str(path.relative_to(args.runs)): path.read_bytes() for path in files}
    kept |= {name: path.read_bytes() for name, path in ((REFERENCE, args.reference), (SOURCE, args.source)) if path}
    for path, content in (args.output, tables.encode()), (args.output.with_name("runs-1.tar.xz"), packed(kept)):
        with open_output(path) as out:
            out.write(content)
    print(f"tables of {args.runs} -> {args.output}")
