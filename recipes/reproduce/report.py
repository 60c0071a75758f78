"""Every table and figure of Bahdanau et al. (2015) of one's own runs, as a Markdown file.

A further RUNS has the same models trained with another seed: claims and significance pool all seeds, Tables 1 and 2,
Figure 2 and the numbers of alignments are of each, Figure 3 and Table 3 of the first. A RUNS has a folder for each
model and two more:

MODEL/             called RNNencdec-30, RNNsearch-30, RNNencdec-50, RNNsearch-50 or RNNsearch-50-long (the paper's
                   RNNsearch-50⋆, trained until the development score stops improving), or any other name
  train.log        the log of fairseq-train: Table 2
  groundhog.tok    the test set's translations by rnnsearch translate --prepared --search groundhog --unnormalized (the
                   original program's search)
  groundhog.jsonl  of a model with attention, their --alignments
  nounk.tok        the same with unknown words banned, by --unkpen inf: Table 1's second column
  fairseq.tok      translations by fairseq's search, without these options: Table 1's last column
  score.jsonl      of a model with attention, the output of rnnsearch score for the test set, for the last two
                   sections; or score.align, its links, as runs-N.tar.xz keeps them
data/
  dict.LANGUAGE.txt    the dictionaries, as fairseq-preprocess writes them
  test.LANGUAGE        the test set, as it was given to fairseq-preprocess
  test.align           gold alignments of it, if there are any: links as 0-0 1-2, the source word first
others/
  NAME             translations of the test set by another system (Moses, anything), tokenised alike

Each section names what its models lack. BLEU is sacrebleu's, cased, on tokens. DIR gets report.md with its pictures
beside it, and the translations of each RUNS in runs-N.tar.xz: unpacked, they give the same scores again.

  python -m recipes.reproduce.report runs/reproduce_grammar/runs -s en -t fr --output report
"""

from collections.abc import Sequence
from math import inf
from pathlib import Path

from recipes.reproduce.alignments import alignment_errors, monotony
from recipes.reproduce.bahdanau_tables import draw_sentences, significance, table_1, table_2, table_3
from recipes.reproduce.by_length import bleu_by_length, length_tables, plot_by_length
from recipes.reproduce.claims import claims
from recipes.reproduce.document import Section, escape, missing, provenance, to_markdown
from recipes.reproduce.runs import ALIGNMENTS, LONG, TRANSLATIONS, BahdanauRuns
from rnnsearch_fairseq.command_line import make_parser, program
from rnnsearch_fairseq.corpus.rows import add_languages
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.aligned_pairs import read_scores
from rnnsearch_fairseq.output import open_output
from rnnsearch_fairseq.plots import plot_alignment

# Figure 3 shows the paper's model or, of those with alignments, the next of these, or else the first other one.
BEST = ("RNNsearch-50", "RNNsearch-50⋆", "RNNsearch-30")
MATRICES = 3  # beside that of an arbitrary sentence
SHORTEST, LONGEST = 10, 20  # words, of Figure 3's sentences


def figure_2(runs: BahdanauRuns, longest: float, picture: Path) -> Section:
    """BLEU by source length, also drawn to ``picture``."""
    names = list(runs.systems)
    bins = bleu_by_length(runs.test, runs.systems, longest)
    plot_by_length(bins, names, picture)
    blocks = [f"![BLEU of each model by source length]({picture.name})", *length_tables(bins, names)]
    return "Figure 2: BLEU by source length", [*blocks, *missing(runs.lacking(TRANSLATIONS))]


def figure_3(runs: BahdanauRuns, folder: Path) -> Section:
    """Alignments of an arbitrary sentence and of some short ones, by one model; the pictures go to ``folder``."""
    title, kind = "Figure 3: alignments", f"with {SHORTEST} to {LONGEST} words"
    fitting = runs.test.select_length(SHORTEST, LONGEST)
    if runs.known is not None:
        fitting, kind = sorted({*fitting} & {*runs.known}), f"{kind} and no unknown word"
    drawn = draw_sentences(fitting, MATRICES)
    others = [number for number in range(len(runs.test)) if number not in drawn]
    files = runs.with_file(ALIGNMENTS)
    if not files or not drawn:
        return title, missing([f"a sentence {kind}" if files else f"a model with {ALIGNMENTS}"])
    name = min(files, key=lambda name: BEST.index(name) if name in BEST else len(BEST))
    pairs = list(read_scores(files[name]))
    blocks = [
        f"{escape(name)} made these alignments. The first sentence is drawn by chance from all, the others from those "
        f"{kind}. Source words run across, the words of the translation down. White is a weight of 1, black of 0."
    ]
    for number in (*draw_sentences(others, 1), *drawn):
        plot_alignment(*pairs[number].by_word(), folder / f"figure-3-{number}.png")
        blocks.append(f"![Alignment of sentence {number}](figure-3-{number}.png)")
    return title, blocks


def report(seeds: Sequence[BahdanauRuns], longest: float, folder: Path) -> list[Section]:
    """All sections; their pictures are drawn to ``folder``."""
    sections: list[Section] = []
    for number, runs in enumerate(seeds, 1):
        picture = folder / ("figure-2.png" if number == 1 else f"figure-2-runs-{number}.png")
        of_runs = [table_1(runs), table_2(runs), figure_2(runs, longest, picture)]
        if number == 1:
            of_runs = [*claims(seeds, longest), *of_runs, figure_3(runs, folder), table_3(runs), significance(seeds)]
        of_runs += [alignment_errors(runs), monotony(runs)]
        sections += [(f"RUNS {number}, {title}" if number > 1 else title, blocks) for title, blocks in of_runs]
    return sections


@program
def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUNS", help="folder of runs, one for each seed")
    add_languages(parser)
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder to write")
    longest = "sentences of more words than this make one bin (default: there is no such bin)"
    parser.add_argument("--longest", type=int, default=inf, metavar="N", help=longest)
    long = f"words that make a sentence long, in Table 3 and the claims ({LONG})"
    parser.add_argument("--long", type=int, default=LONG, metavar="N", help=long)
    args = parser.parse_args()
    seeds = [BahdanauRuns(folder, args.source_lang, args.target_lang, args.long) for folder in args.runs]
    others = [runs.data for runs in seeds if runs.test != seeds[0].test]
    if others:
        raise InputError(f"{others[0]}: another test set than in {seeds[0].data}; give runs that differ in their seed")
    args.output.mkdir(parents=True, exist_ok=True)
    sections = report(seeds, args.longest, args.output)
    sections[0][1].insert(0, provenance())
    title = f"RNNencdec and RNNsearch, {args.source_lang} to {args.target_lang}"
    contents = {f"runs-{number}.tar.xz": runs.translations_kept() for number, runs in enumerate(seeds, 1)}
    contents["report.md"] = to_markdown(sections, title).encode()
    for name, content in contents.items():
        with open_output(args.output / name) as out:
            out.write(content)
    print(f"report of {', '.join(seeds[0].folders)} -> {args.output / 'report.md'}")
