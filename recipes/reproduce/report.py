"""Every table and figure of Bahdanau et al. (2015) of one's own runs, as a Markdown file.

``python -m recipes.reproduce.report RUNS... -s LANGUAGE -t LANGUAGE [--output DIR]``

A further RUNS has the same models trained with another seed: claims and significance pool all seeds, Tables 1 and 2,
Figure 2 and the numbers of alignments are of each, Figure 3 and Table 3 of the first. A RUNS has a folder for each
model and two more:

MODEL/          called RNNencdec-30, RNNsearch-30, RNNencdec-50, RNNsearch-50 or RNNsearch-50-long (the paper's
                RNNsearch-50⋆, trained until the development score stops improving), or any other name
  train.log     the log of fairseq-train: Table 2
  generate.out  the test set's translations by fairseq-generate --search groundhog --unnormalized (the original
                program's search), with --print-alignment soft where the model has attention
  nounk.out     the same with unknown words banned, by --unkpen inf: Table 1's second column
  fairseq.out   translations by fairseq's own search, without these options: Table 1's last column
  score.jsonl   of a model with attention, the output of rnnsearch score for the test set, for the last two sections
data/
  dict.LANGUAGE.txt    the dictionaries, as fairseq-preprocess writes them
  test.LANGUAGE        the test set, as it was given to fairseq-preprocess
  test.align           gold alignments of it, if there are any (recipes.reproduce.alignment_error)
others/
  NAME          plain text, translations of the test set by another system (Moses, anything), tokenised alike

The report has Tables 1 to 3, Figures 2 and 3, significance, alignment error rates, how monotonic alignments are, and
whether the numbers agree with the paper's claims. Each section names what its models lack. BLEU is sacrebleu's, cased,
on tokens. DIR (default: RUNS) gets report.md with its pictures beside it, and the translations of each RUNS in
runs-N.tar.xz: unpacked, they give the same scores again.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path

from recipes.reproduce import alignment_error, by_length, monotony
from recipes.reproduce.bahdanau_tables import (
    EXAMPLES,
    SEED,
    draw_sentences,
    significance,
    table_1,
    table_2,
    table_3,
)
from recipes.reproduce.claims import claims
from recipes.reproduce.command import command_line, provenance
from recipes.reproduce.document import Picture, Section, to_markdown
from recipes.reproduce.generated import read_generated
from recipes.reproduce.runs import DATA, GOLD, LONG, SCORES, TRANSLATIONS, BahdanauRuns
from rnnsearch_fairseq.errors import Count, InputError, print_without_traceback
from rnnsearch_fairseq.output import open_output
from rnnsearch_fairseq.plots.alignment import plot_alignment
from rnnsearch_fairseq.plots.words import word_alignment
from rnnsearch_fairseq.text.scores import AlignedPair

# Figure 3 shows the paper's model or, of those with alignments, the next of these, or else the first other one.
BEST = ("RNNsearch-50", "RNNsearch-50⋆", "RNNsearch-30")
WITHOUT_ALIGNMENT = "RNNencdec"
MATRICES = 3  # beside that of an arbitrary sentence
SHORTEST, LONGEST = 10, 20  # words, of Figure 3's sentences


def figure_2(runs: BahdanauRuns, width: int, longest: float, file: str) -> Section:
    """BLEU by source length; the picture becomes ``file``."""
    names = list(runs.systems)
    bins = by_length.bleu_by_length(runs.test, runs.systems, width, longest)
    png = _picture(lambda path: by_length.plot_by_length(bins, names, path))
    picture = Picture(file, png, "BLEU of each model by source length")
    section = Section("Figure 2: BLEU by source length", [picture, by_length.length_table(bins, names)])
    section.missing(runs.lacking(TRANSLATIONS))
    return section


def figure_3(runs: BahdanauRuns, sentences: Sequence[int] | None, seed: int) -> Section:
    """Alignments, by the first model that has any, of ``sentences`` (None: an arbitrary one, and some drawn)."""
    section = Section("Figure 3: alignments")
    kind = f"with {SHORTEST} to {LONGEST} words" + ("" if runs.known is None else " and no unknown word")
    how = "The sentences are chosen."
    if sentences is None:
        how = f"The first sentence is drawn by chance from all, the others from those {kind}."
        allowed = set(range(len(runs.test)) if runs.known is None else runs.known)
        suitable = [number for number in runs.test.of_length(SHORTEST, LONGEST) if number in allowed]
        drawn = draw_sentences(suitable, MATRICES, seed)
        others = [number for number in range(len(runs.test)) if number not in drawn]
        sentences = [*draw_sentences(others, 1, seed), *drawn] if drawn else []
    files = runs.with_file(TRANSLATIONS)
    for name in sorted(files, key=lambda name: BEST.index(name) if name in BEST else len(BEST)):
        pairs = read_generated(files[name])
        if pairs[0].weights is not None:
            section.blocks.append(
                f"{name} made these alignments. {how} Source words run across, the words of the translation down. "
                "White is a weight of 1, black of 0."
            )
            section.blocks += [_matrix(pairs[number]) for number in sentences]
            section.missing([] if sentences else [f"a sentence {kind}"])
            return section
    section.missing([f"a model with {TRANSLATIONS} of fairseq-generate --print-alignment soft"])
    return section


def _matrix(pair: AlignedPair) -> Picture:
    words = word_alignment(pair)
    png = _picture(lambda path: plot_alignment(*words, path))
    return Picture(f"figure-3-{pair.number}.png", png, f"Alignment of sentence {pair.number}")


def _picture(draw: Callable[[Path], None]) -> bytes:
    """The bytes of the PNG that ``draw`` writes."""
    with tempfile.TemporaryDirectory() as folder:
        draw(Path(folder) / "picture.png")
        return (Path(folder) / "picture.png").read_bytes()


def alignment_errors(runs: BahdanauRuns) -> Section:
    """Alignment error rates of the models with scores, if there are gold alignments."""
    section = Section("Alignment error rate")
    gold_path = runs.data / GOLD
    if not gold_path.exists():
        section.missing([f"gold alignments ({DATA}/{GOLD})"])
        return section
    gold = alignment_error.read_gold(gold_path)
    files = runs.with_file(SCORES)
    errors = {name: alignment_error.alignment_error(path, gold, gold_path) for name, path in files.items()}
    how = "In percent, of the references' alignments: each target word is linked to the source word of highest weight."
    section.blocks += [alignment_error.error_table(errors), how] if errors else []
    section.missing([lack for lack in runs.lacking(SCORES) if not lack.startswith(WITHOUT_ALIGNMENT)])
    return section


def _scores(runs: BahdanauRuns, args: argparse.Namespace, figure: str) -> list[Section]:
    return [table_1(runs), table_2(runs), figure_2(runs, args.width, args.longest, figure)]


def _alignments(runs: BahdanauRuns) -> list[Section]:
    sections = [alignment_errors(runs), monotony.section(runs)]
    if runs.ignored:
        sections[-1].blocks.append(f"In no table: {', '.join(runs.ignored)}.")
    return sections


def report(seeds: Sequence[BahdanauRuns], args: argparse.Namespace) -> list[Section]:
    """All sections."""
    runs, section = seeds[0], claims(seeds, args.longest)
    sections = [
        *([section] if section else []),
        *_scores(runs, args, "figure-2.png"),
        figure_3(runs, args.figure_3, args.seed),
        table_3(runs, args.table_3, args.seed),
        significance(seeds),
        *_alignments(runs),
    ]
    for number, runs in enumerate(seeds[1:], 2):
        for section in (*_scores(runs, args, f"figure-2-runs-{number}.png"), *_alignments(runs)):
            section.title = f"RUNS {number}, {section.title}"
            sections.append(section)
    return sections


def write_report(sections: Sequence[Section], title: str, folder: Path, seeds: Sequence[BahdanauRuns]) -> None:
    """Write report.md, its pictures, and the translations.

    Raises:
        InputError: they cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--output {folder}: cannot be made ({error.strerror}); give another folder") from error
    contents = {picture.name: picture.png for section in sections for picture in section.pictures}
    contents |= {f"runs-{number}.tar.xz": runs.translations_kept() for number, runs in enumerate(seeds, 1)}
    contents["report.md"] = to_markdown(sections, title).encode()
    for name, content in contents.items():
        with open_output(folder / name) as out:
            out.write(content)


def _numbers(text: str) -> list[int]:
    """Sentences' numbers with commas between; for argparse."""
    if not all(number.isdecimal() for number in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of sentences' numbers, as 3,17")
    return [int(number) for number in text.split(",")]


def main() -> None:
    """The command line of this module."""
    parser = command_line(__doc__, "default: RUNS", "DIR")
    parser.add_argument("runs", type=Path, nargs="+", help="folder of runs, one for each seed; see above")
    parser.add_argument("-s", "--source-lang", required=True, help="as in dict.LANGUAGE.txt")
    parser.add_argument("-t", "--target-lang", required=True)
    width = by_length.WIDTH
    parser.add_argument("--width", action=Count, default=width, metavar="W", help=f"words of a bin ({width})")
    parser.add_argument("--longest", type=int, default=inf, metavar="N", help=by_length.LONGEST)
    for figure, drawn in (("figure-3", f"{MATRICES + 1}"), ("table-3", f"the paper's or {EXAMPLES}")):
        help = f"sentences, from 0; default: {drawn} by chance"
        parser.add_argument(f"--{figure}", type=_numbers, metavar="N,N", help=help)
    long = f"words that make a sentence long, in Table 3 and the claims ({LONG})"
    parser.add_argument("--long", type=int, default=LONG, metavar="N", help=long)
    parser.add_argument("--seed", type=int, default=SEED, help="by which sentences are drawn (1)")
    args = parser.parse_args()
    seeds = [BahdanauRuns(folder, args.source_lang, args.target_lang, args.long) for folder in args.runs]
    runs = seeds[0]
    for other in seeds[1:]:
        if other.test != runs.test:
            raise InputError(f"{other.data}: another test set than in {runs.data}; give runs that differ in seed only")
    for option, numbers in (("--figure-3", args.figure_3), ("--table-3", args.table_3)):
        if numbers and max(numbers) >= len(runs.test):
            raise InputError(f"{option} {max(numbers)}: the test set has {len(runs.test)} sentences, counted from 0")
    title = f"RNNencdec and RNNsearch, {args.source_lang} to {args.target_lang}"
    output = args.output or args.runs[0]
    sections = report(seeds, args)
    sections[0].blocks.insert(0, provenance())
    write_report(sections, title, output, seeds)
    print(f"report of {', '.join(runs.folders)} -> {output / 'report.md'}")


if __name__ == "__main__":
    print_without_traceback()
    main()
