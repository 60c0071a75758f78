"""Every table and figure of Bahdanau et al. (2015) of one's own runs, as one Markdown file and one HTML page.

``rnnsearch report RUNS -s LANGUAGE -t LANGUAGE [--output DIR]``

RUNS has a folder for each model and two more:

MODEL/          called RNNencdec-30, RNNsearch-30, RNNencdec-50, RNNsearch-50 or RNNsearch-50-long (the paper's
                RNNsearch-50⋆, trained until the development score stops improving), or any other name
  train.log     what fairseq-train logged: Table 2
  generate.out  what fairseq-generate printed of the test set, with --print-alignment soft where the model has attention
  nounk.out     the same with unknown words banned, by --unkpen inf: Table 1's second column
  score.jsonl   of a model with attention, what rnnsearch score wrote of the test set: alignment error rate
data/
  dict.LANGUAGE.txt    the dictionaries, as fairseq-preprocess writes them
  test.LANGUAGE        the test set, as it was given to fairseq-preprocess
  test.align           gold alignments of it, if there are any (rnnsearch alignment-error)
others/
  NAME          plain text, translations of the test set by another system (Moses, anything), tokenised alike

The report has Tables 1 to 3, Figures 2 and 3, alignment error rates, significance, and whether the numbers agree with
the paper's claims. What is missing is named where it would stand. BLEU is sacrebleu's, cased, on tokens. DIR (default:
RUNS) gets report.html, which needs no other file, and report.md with its pictures beside it.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from rnnsearch_fairseq.analysis import alignment_error, bahdanau_tables, by_length
from rnnsearch_fairseq.analysis.alignment_plot import plot_alignment
from rnnsearch_fairseq.analysis.claims import claims
from rnnsearch_fairseq.analysis.document import Picture, Section, to_html, to_markdown
from rnnsearch_fairseq.analysis.runs import DATA, GOLD, LOG, SCORES, TRANSLATIONS, BahdanauRuns
from rnnsearch_fairseq.analysis.words import word_alignment
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files.generated import GeneratedPair, generated_in_order
from rnnsearch_fairseq.files.output import open_output

# Figure 3 shows the first of these models that has alignments, or else the first other model that has them.
BEST = ("RNNsearch-50⋆", "RNNsearch-50", "RNNsearch-30")
WITHOUT_ALIGNMENT = "RNNencdec"
MATRICES = 4
SHORTEST, LONGEST = 10, 20  # words, of Figure 3's sentences


# Tables and figures


def table_1(runs: BahdanauRuns) -> Section:
    """BLEU on all sentences and on those without unknown words."""
    section = bahdanau_tables.table_1(runs.test, runs.systems, runs.banned, runs.known)
    section.missing(runs.lacking(TRANSLATIONS))
    return section


def table_2(runs: BahdanauRuns) -> Section:
    """Training."""
    logs = {name: path / LOG for name, path in runs.with_file(LOG).items()}
    return bahdanau_tables.table_2(logs, runs.lacking(LOG))


def figure_2(runs: BahdanauRuns, width: int) -> Section:
    """BLEU by source length."""
    bins = by_length.bleu_by_length(runs.test, runs.systems, width)
    section = Section("Figure 2: BLEU by source length")
    draw = _picture(lambda path: by_length.plot_by_length(bins, list(runs.systems), path))
    section.blocks.append(Picture("figure-2.png", draw, "BLEU of each model by source length"))
    section.blocks.append(by_length.length_table(bins, list(runs.systems)))
    section.missing(runs.lacking(TRANSLATIONS))
    return section


def figure_3(runs: BahdanauRuns, chosen: Sequence[int] | None, seed: int) -> Section:
    """Alignments, of ``chosen`` sentences or of some drawn by chance as in the paper.

    Raises:
        InputError: a chosen sentence is not in the test set.
    """
    section = Section("Figure 3: alignments")
    name, pairs = _aligned(runs)
    if name is None:
        section.missing([f"a model with {TRANSLATIONS} of fairseq-generate --print-alignment soft"])
        return section
    numbers = _sentences_to_draw(runs, seed) if chosen is None else chosen
    kind = f"of {SHORTEST} to {LONGEST} words" + ("" if runs.known is None else " without unknown ones")
    how = f"{kind}, drawn by chance" if chosen is None else "chosen"
    section.blocks.append(
        f"By {name}; sentences {how}. Source words run across, the translation down; black is a weight of 0, "
        "white of 1."
    )
    _check_sentences("--figure-3", numbers, runs)
    section.blocks += [_matrix(pairs[number]) for number in numbers]
    if not numbers:
        section.missing([f"a sentence {kind}"])
    return section


def _check_sentences(option: str, numbers: Sequence[int], runs: BahdanauRuns) -> None:
    """Check that the test set has the sentences ``numbers``.

    Raises:
        InputError: it has not; ``option`` names them.
    """
    for number in numbers:
        if number >= len(runs.test):
            raise InputError(f"{option} {number}: the test set has {len(runs.test)} sentences, from 0; give another")


def _aligned(runs: BahdanauRuns) -> tuple[str | None, list[GeneratedPair]]:
    """The model that Figure 3 shows, and its pairs in order; None if no model has alignments."""
    folders = runs.with_file(TRANSLATIONS)
    for name in sorted(folders, key=lambda name: BEST.index(name) if name in BEST else len(BEST)):
        pairs = generated_in_order(folders[name] / TRANSLATIONS)
        if pairs[0].alignment is not None:
            return name, pairs
    return None, []


def _sentences_to_draw(runs: BahdanauRuns, seed: int) -> list[int]:
    allowed = range(len(runs.test)) if runs.known is None else runs.known
    lengths = runs.test.lengths
    return bahdanau_tables.choose([n for n in allowed if SHORTEST <= lengths[n] <= LONGEST], MATRICES, seed)


def _matrix(pair: GeneratedPair) -> Picture:
    words = word_alignment(pair)
    png = _picture(lambda path: plot_alignment(*words, path))
    return Picture(f"figure-3-{pair.number}.png", png, f"Alignment of sentence {pair.number}")


def _picture(draw: Callable[[Path], None]) -> bytes:
    """The bytes of the PNG that ``draw`` writes."""
    with tempfile.TemporaryDirectory() as folder:
        draw(Path(folder) / "picture.png")
        return (Path(folder) / "picture.png").read_bytes()


def table_3(runs: BahdanauRuns, chosen: Sequence[int] | None, seed: int) -> Section:
    """Long sentences, ``chosen`` or drawn by chance.

    Raises:
        InputError: a chosen sentence is not in the test set.
    """
    _check_sentences("--table-3", chosen or (), runs)
    if chosen is None:
        chosen = bahdanau_tables.choose(runs.long, bahdanau_tables.EXAMPLES, seed)
    section = bahdanau_tables.table_3(runs.test, runs.systems, chosen, runs.least)
    section.missing(runs.lacking(TRANSLATIONS))
    return section


def alignment_errors(runs: BahdanauRuns) -> Section:
    """Alignment error rates of the models with scores, if there are gold alignments."""
    section = Section("Alignment error rate")
    gold_path = runs.data / GOLD
    if not gold_path.exists():
        section.missing([f"gold alignments ({DATA}/{GOLD})"])
        return section
    gold = alignment_error.read_gold(gold_path)
    errors = [
        (name, alignment_error.alignment_error(path / SCORES, gold, gold_path))
        for name, path in runs.with_file(SCORES).items()
    ]
    if errors:
        section.blocks.append(alignment_error.error_table(errors))
        section.blocks.append(
            "In percent, of the references' alignments: each target word is linked to the source word of highest "
            "weight."
        )
    absent = [name for name in runs.folders if name not in runs.with_file(SCORES)]
    section.missing([f"{name} (no {SCORES})" for name in absent if not name.startswith(WITHOUT_ALIGNMENT)])
    return section


# The command


def report(runs: BahdanauRuns, args: argparse.Namespace) -> list[Section]:
    """All sections."""
    sections = [
        claims(runs),
        table_1(runs),
        table_2(runs),
        figure_2(runs, args.width),
        figure_3(runs, args.figure_3, args.seed),
        table_3(runs, args.table_3, args.seed),
        bahdanau_tables.significance(runs.test, runs.systems),
        alignment_errors(runs),
    ]
    if runs.ignored:
        sections[-1].blocks.append(f"In no table: {', '.join(runs.ignored)}.")
    return sections


def write_report(sections: Sequence[Section], title: str, folder: Path) -> None:
    """Write report.md, its pictures and report.html.

    Raises:
        InputError: they cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--output {folder}: cannot be made ({error.strerror}); give another folder") from error
    contents = {picture.name: picture.png for section in sections for picture in section.pictures}
    contents["report.md"] = to_markdown(sections, title).encode()
    contents["report.html"] = to_html(sections, title).encode()
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="folder of runs; see above")
    parser.add_argument("-s", "--source-lang", required=True, help="as in dict.LANGUAGE.txt")
    parser.add_argument("-t", "--target-lang", required=True)
    parser.add_argument("--output", type=Path, metavar="DIR", help="default: RUNS")
    parser.add_argument(
        "--width", type=int, default=by_length.WIDTH, metavar="W", help=f"words of a bin ({by_length.WIDTH})"
    )
    for figure, what in (("figure-3", f"default: {MATRICES}"), ("table-3", f"default: {bahdanau_tables.EXAMPLES}")):
        parser.add_argument(f"--{figure}", type=_numbers, metavar="N,N", help=f"sentences, from 0; {what} by chance")
    parser.add_argument(
        "--long",
        type=int,
        default=bahdanau_tables.LONG,
        metavar="N",
        help=f"words that make a sentence long, in Table 3 and the claims ({bahdanau_tables.LONG})",
    )
    parser.add_argument("--seed", type=int, default=bahdanau_tables.SEED, help="by which sentences are drawn (1)")
    args = parser.parse_args()
    if args.width < 1:
        raise InputError(f"--width is {args.width}; give at least 1")
    runs = BahdanauRuns(args.runs, args.source_lang, args.target_lang, args.long)
    title = f"RNNencdec and RNNsearch, {args.source_lang} to {args.target_lang}"
    output = args.output or args.runs
    write_report(report(runs, args), title, output)
    print(f"report of {', '.join(runs.folders)} -> {output / 'report.html'}, {output / 'report.md'}")
