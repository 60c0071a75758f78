"""Tables 1 to 3 of Bahdanau et al. (2015), and which systems differ significantly, in Markdown.

``rnnsearch tables [NAME=FILE...] [--no-unk NAME=FILE...] [--log NAME=FILE...] [options]``

Each NAME=FILE is a system's translations of the test set: what fairseq-generate printed, of any model, or plain text,
one translation a line (Moses, anything). The test set is read from --source and --reference or, without them, from the
first output of fairseq-generate. Pieces of BPE or sentencepiece are joined for BLEU, which is sacrebleu's, cased, on
the tokens as they are.

Table 1       BLEU on all sentences, and on the sentences without unknown words in source and reference. A word, or
              piece, is unknown if it is not in dict.LANGUAGE.txt of --data DIR. For the second number the paper bans
              unknown words, so it takes the translations of --no-unk (fairseq-generate --unkpen inf); plain text is
              taken for both.
Table 2       what fairseq-train wrote to each --log: updates, epochs, hours spent in updates, device, and the NLL in
              nats a sentence (criterion summed_nll) on training and development set, in the epoch of lowest development
              loss, by which fairseq chooses checkpoint_best.pt
Table 3       translations of sentences of 30 words or more
significance  the difference in BLEU of any two systems, and its 95 % interval by paired bootstrap
"""

import argparse
import itertools
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from fairseq.data import Dictionary

from recipes.reproduce.bleu import bleu, scored_by_bleu
from recipes.reproduce.bootstrap import RESAMPLES, Difference, draw
from recipes.reproduce.document import Section, Table, to_markdown, write_text
from recipes.reproduce.systems import (
    TestSet,
    Translations,
    add_systems,
    add_test_set,
    is_generate_output,
    read_systems,
    read_test_set,
)
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.plots.command import command_line
from rnnsearch_fairseq.plots.train_log import best_epoch, read_log, read_train_log
from rnnsearch_fairseq.plots.words import join_pieces
from rnnsearch_fairseq.text.lines import check_text_file, unescaped

LONG = 30
EXAMPLES = 3
SEED = 1
NONE = "–"
# Repetitions are bounded, since a line of a log may be of any length.
GPU = re.compile(r"rank {1,9}([0-9]{1,9}): capabilities = .{1,200}? name = (.{1,200})$", re.MULTILINE)
WORKERS = re.compile(r"training on ([0-9]{1,9}) devices")


def known_sentences(test: TestSet, source_dictionary: Path, target_dictionary: Path) -> list[int]:
    """The numbers of the sentences all of whose words, on both sides, are in the dictionaries.

    Raises:
        InputError: a dictionary is bad.
    """
    words = []
    for path in (source_dictionary, target_dictionary):
        check_text_file(path)
        dictionary = Dictionary.load(str(path))
        words.append(set(dictionary.symbols[dictionary.nspecial :]))
    sides = zip(test.source, test.reference)
    return [n for n, lines in enumerate(sides) if all(words[k].issuperset(lines[k].split()) for k in (0, 1))]


def table_1(
    test: TestSet,
    systems: Translations,
    banned: Translations,
    known: Sequence[int] | None,
    plain: Sequence[str] = (),
    by_fairseq: Translations | None = None,
) -> Section:
    """BLEU on all sentences and on the ``known`` ones, which are None without dictionaries.

    ``banned`` are the systems' translations with unknown words banned; those of ``plain`` systems are the same as in
    ``systems``. ``by_fairseq``, of another search, gets a column of its own.
    """

    def score(translations: Translations, name: str, numbers: Sequence[int] | None) -> str:
        if not numbers or name not in translations:
            return NONE
        return f"{bleu(*([text[n] for n in numbers] for text in (translations[name], test.reference_words))):.2f}"

    header = ["model", "all", "no unknown words"]
    everything = range(len(test))
    rows = [[name, score(systems, name, everything), score(banned, name, known)] for name in systems]
    missing = [f"{name} (no translations with unknown words banned)" for name in systems if name not in banned]
    if by_fairseq is not None:
        header.append("all, fairseq's search")
        rows = [[*row, score(by_fairseq, row[0], everything)] for row in rows]
        models = [name for name in systems if name not in plain]
        missing += [f"{name} (no translations by fairseq's search)" for name in models if name not in by_fairseq]
    section = Section("Table 1: BLEU", [Table(header, rows)])
    if known is None:
        missing = ["the dictionaries, which tell unknown words", *missing]
    else:
        caption = f"All: {len(test):,} sentences. No unknown words: the {len(known):,} of them with none in source and "
        caption += "reference, translated with unknown words banned"
        others = f", except by {'; '.join(plain)}: the same translations as in the column before" if plain else ""
        section.blocks.append(f"{caption}{others}.")
    section.missing(missing)
    return section


def table_2(logs: Mapping[str, Path], missing: Sequence[str] = ()) -> Section:
    """What the logs say of each training.

    Raises:
        InputError: a log is bad.
    """
    rows = []
    for name, path in logs.items():
        epochs = read_train_log(path)
        last = epochs[-1]
        hours = sum(epoch.seconds for epoch in epochs) / 3600
        best = best_epoch(epochs) or last
        nll = (best.train_nll_sentence, best.dev_nll_sentence)
        numbers = [NONE if number is None else f"{number:.2f}" for number in nll]
        spent = [f"{last.updates:,}", str(last.number), f"{hours:.2f}", device(path)]
        rows.append([name, *spent, str(best.number), *numbers])
    header = ["model", "updates", "epochs", "hours", "device", "best epoch", "train NLL", "dev NLL"]
    section = Section("Table 2: training")
    if rows:
        section.blocks.append(Table(header, rows))
        section.blocks.append(
            "Hours in updates, without validation. NLL in nats a sentence, in the epoch of lowest development loss: on "
            "the development set the lowest, on the training set the mean while it was learnt from."
        )
    section.missing(missing)
    return section


def device(log: Path) -> str:
    """The device on which a training was last started, as its log says: the names of GPUs, or CPU, and how many."""
    text = read_log(log)
    starts = list(WORKERS.finditer(text))
    if not starts:
        return NONE
    # The GPUs are listed between the last two starts.
    before = text[starts[-2].end() if len(starts) > 1 else 0 : starts[-1].start()]
    names = list(dict.fromkeys(name.rstrip() for _, name in GPU.findall(before))) or ["CPU"]
    count = int(starts[-1][1])
    return f"{count} × {' / '.join(names)}" if count > 1 else names[0]


def choose(numbers: Sequence[int], count: int, seed: int = SEED) -> list[int]:
    """``count`` of ``numbers``, drawn by chance, in ascending order; all of them if they are fewer."""
    return sorted(random.Random(seed).sample(numbers, min(count, len(numbers))))


def table_3(test: TestSet, systems: Translations, sentences: Sequence[int], least: int = LONG) -> Section:
    """Source, reference and every system's translation of ``sentences``, in words."""
    section = Section("Table 3: long sentences")
    for number in sentences:
        texts = [("source", join_pieces(test.source[number])), ("reference", test.reference_words[number])]
        texts += [(name, lines[number]) for name, lines in systems.items()]
        words = test.lengths[number]
        rows = [[name, unescaped(text)] for name, text in texts]
        section.blocks.append(Table([f"sentence {number}", f"{words} words"], rows))
    if not sentences:
        longest = max(test.lengths)
        section.blocks.append(f"No sentence has {least} words or more; the longest has {longest}.")
    return section


def significance(test: TestSet, systems: Translations) -> Section:
    """The difference in BLEU of every two systems, on all sentences, and its interval."""
    section = Section("Significance")
    if len(systems) < 2:
        section.blocks.append("Not compared: it takes two systems.")
        return section
    (drawn,) = draw(len(test))
    scores = {name: scored_by_bleu(lines, test.reference_words).scores(drawn) for name, lines in systems.items()}
    rows = []
    for pair in itertools.combinations(systems, 2):
        found = Difference.between(*(scores[name] for name in pair))
        apart = f"{found.first - found.second:+.2f}"
        interval = f"{found.low:+.2f} to {found.high:+.2f}"
        rows.append([*pair, f"{found.first:.2f}", f"{found.second:.2f}", apart, interval])
    section.blocks.append(Table(["A", "B", "BLEU of A", "BLEU of B", "A − B", "95 % interval"], rows))
    section.blocks.append(f"Paired bootstrap on all sentences ({RESAMPLES:,} resamples, seeded).")
    return section


def main() -> None:
    """The command line of this module."""
    parser = command_line(__doc__)
    add_systems(parser, "systems", "*", "translations; see above")
    add_systems(parser, "--no-unk", "+", "translations with unknown words banned")
    add_systems(parser, "--log", "+", "log of fairseq-train")
    add_test_set(parser)
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the dictionaries; with -s and -t")
    parser.add_argument("-s", "--source-lang", help="as in dict.LANGUAGE.txt")
    parser.add_argument("-t", "--target-lang")
    parser.add_argument("--words", type=int, default=LONG, help=f"of Table 3's sentences, at least (default: {LONG})")
    parser.add_argument("--examples", type=int, default=EXAMPLES, help=f"sentences in Table 3 (default: {EXAMPLES})")
    parser.add_argument("--seed", type=int, default=SEED, help=f"by which they are drawn (default: {SEED})")
    args = parser.parse_args()
    if not args.systems and not args.log:
        raise InputError("nothing to read; give translations as NAME=FILE, or --log NAME=FILE")
    if len({args.data is None, args.source_lang is None, args.target_lang is None}) > 1:
        raise InputError("--data, -s and -t belong together: they name the dictionaries; give all or none")
    for name in args.no_unk:
        if name not in args.systems:
            raise InputError(f"--no-unk {name}=...: no such system; give its other translations, {name}=FILE")
    sections = sections_of_systems(args) if args.systems else [Section("Tables 1 and 3", ["Missing: translations."])]
    training = table_2(args.log, [] if args.log else ["logs"])
    inputs = (args.source, args.reference, *args.systems.values(), *args.no_unk.values(), *args.log.values())
    write_text(to_markdown([sections[0], training, *sections[1:]]), args.output, inputs)


def sections_of_systems(args: argparse.Namespace) -> list[Section]:
    """Tables 1 and 3, and significance."""
    test = read_test_set(args.source, args.reference, args.systems.values())
    systems = read_systems(args.systems, test)
    plain = [name for name, path in args.systems.items() if not is_generate_output(path)]
    known = None
    if args.data is not None:
        known = known_sentences(test, *(args.data / f"dict.{x}.txt" for x in (args.source_lang, args.target_lang)))
    banned = {name: systems[name] for name in plain} | read_systems(args.no_unk, test)
    return [
        table_1(test, systems, banned, known, [name for name in plain if name not in args.no_unk]),
        table_3(test, systems, choose(test.of_length(args.words), args.examples, args.seed), args.words),
        significance(test, systems),
    ]
