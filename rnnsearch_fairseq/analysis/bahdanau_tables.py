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
significance  paired bootstrap of BLEU between any two systems
"""

import argparse
import itertools
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from fairseq.data import Dictionary

from rnnsearch_fairseq.analysis.bleu import bleu, compare
from rnnsearch_fairseq.analysis.document import Section, Table, to_markdown, write_text
from rnnsearch_fairseq.analysis.systems import (
    TestSet,
    add_test_set,
    check_names,
    is_generate_output,
    named_file,
    read_systems,
    read_test_set,
)
from rnnsearch_fairseq.analysis.train_log import best_epoch, read_log, read_train_log
from rnnsearch_fairseq.analysis.words import join_pieces
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files.text import check_text_file, unescaped

LONG = 30
EXAMPLES = 3
SEED = 1
NONE = "–"
# Repetitions are bounded, since a line of a log may be of any length.
GPU = re.compile(r"rank {1,9}([0-9]{1,9}): capabilities = .{1,200}? name = (.{1,200})$", re.MULTILINE)
WORKERS = re.compile(r"training on ([0-9]{1,9}) devices")
Translations = Mapping[str, Sequence[str]]  # by the system's name


# Table 1


def known_sentences(test: TestSet, source_dictionary: Path, target_dictionary: Path) -> list[int]:
    """The numbers of the sentences all of whose words, on both sides, are in the dictionaries.

    Raises:
        InputError: a dictionary is bad.
    """
    words = [_read_dictionary(path) for path in (source_dictionary, target_dictionary)]
    sides = zip(test.source, test.reference)
    return [n for n, lines in enumerate(sides) if all(words[k].issuperset(lines[k].split()) for k in (0, 1))]


def _read_dictionary(path: Path) -> set[str]:
    check_text_file(path)
    dictionary = Dictionary.load(str(path))
    return set(dictionary.symbols[dictionary.nspecial :])


def table_1(test: TestSet, systems: Translations, banned: Translations, known: Sequence[int] | None) -> Section:
    """BLEU on all sentences and on the ``known`` ones, which are None without dictionaries.

    ``banned`` are the systems' translations with unknown words banned.
    """
    references = test.reference_words
    rows, missing = [], []
    for name, lines in systems.items():
        of_known = NONE
        if known and name in banned:
            chosen = ([lines[number] for number in known] for lines in (banned[name], references))
            of_known = f"{bleu(*chosen):.2f}"
        elif known:
            missing.append(f"{name} (no translations with unknown words banned)")
        rows.append([name, f"{bleu(lines, references):.2f}", of_known])
    section = Section("Table 1: BLEU", [Table(["model", "all", "no unknown words"], rows)])
    if known is None:
        missing = ["the dictionaries, which tell unknown words"]
    else:
        section.blocks.append(
            f"All: {len(test):,} sentences. No unknown words: the {len(known):,} of them with none in source and "
            "reference, translated with unknown words banned."
        )
    section.missing(missing)
    return section


# Table 2


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


# Table 3


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


# Significance


def significance(test: TestSet, systems: Translations) -> Section:
    """The difference in BLEU of every two systems, on all sentences, and its significance."""
    section = Section("Significance")
    if len(systems) < 2:
        section.blocks.append("Not compared: it takes two systems.")
        return section
    rows = []
    for first, second in itertools.combinations(systems, 2):
        found = compare(systems[first], systems[second], test.reference_words)
        apart = f"{found.first - found.second:+.2f}"
        rows.append([first, second, f"{found.first:.2f}", f"{found.second:.2f}", apart, f"{found.p:.4f}"])
    section.blocks.append(Table(["A", "B", "BLEU of A", "BLEU of B", "A − B", "p"], rows))
    section.blocks.append("Paired bootstrap on all sentences (sacrebleu, 1,000 resamples, seeded).")
    return section


# The command


def parse_arguments() -> argparse.Namespace:
    """Read the command line.

    Raises:
        InputError: options do not go together.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("systems", type=named_file, nargs="*", metavar="NAME=FILE", help="translations; see above")
    for option, what in (("no-unk", "translations with unknown words banned"), ("log", "log of fairseq-train")):
        parser.add_argument(f"--{option}", type=named_file, nargs="+", default=[], metavar="NAME=FILE", help=what)
    add_test_set(parser)
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the dictionaries; with -s and -t")
    parser.add_argument("-s", "--source-lang", help="as in dict.LANGUAGE.txt")
    parser.add_argument("-t", "--target-lang")
    parser.add_argument("--words", type=int, default=LONG, help=f"of Table 3's sentences, at least (default: {LONG})")
    parser.add_argument("--examples", type=int, default=EXAMPLES, help=f"sentences in Table 3 (default: {EXAMPLES})")
    parser.add_argument("--seed", type=int, default=SEED, help=f"by which they are drawn (default: {SEED})")
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: standard output")
    args = parser.parse_args()
    if not args.systems and not args.log:
        raise InputError("nothing to read; give translations as NAME=FILE, or --log NAME=FILE")
    if len({args.data is None, args.source_lang is None, args.target_lang is None}) > 1:
        raise InputError("--data, -s and -t belong together: they name the dictionaries; give all or none")
    for named in (args.systems, args.no_unk, args.log):
        check_names(named)
    unnamed = [name for name, _ in args.no_unk if name not in dict(args.systems)]
    if unnamed:
        raise InputError(f"--no-unk {unnamed[0]}=...: no such system; give its other translations, {unnamed[0]}=FILE")
    return args


def sections_of_systems(args: argparse.Namespace) -> list[Section]:
    """Tables 1 and 3, and significance."""
    test = read_test_set(args.source, args.reference, [path for _, path in args.systems])
    systems = read_systems(args.systems, test)
    plain = {name: systems[name] for name, path in args.systems if not is_generate_output(path)}
    known = None
    if args.data is not None:
        known = known_sentences(test, *(args.data / f"dict.{x}.txt" for x in (args.source_lang, args.target_lang)))
    banned = plain | read_systems(args.no_unk, test)
    lengths = test.lengths
    long = [number for number, length in enumerate(lengths) if length >= args.words]
    chosen = choose(long, args.examples, args.seed)
    return [
        table_1(test, systems, banned, known),
        table_3(test, systems, chosen, args.words),
        significance(test, systems),
    ]


def main() -> None:
    """The command line of this module."""
    args = parse_arguments()
    sections = sections_of_systems(args) if args.systems else [Section("Tables 1 and 3", ["Missing: translations."])]
    training = table_2(dict(args.log), [] if args.log else ["logs"])
    named = (*args.systems, *args.no_unk, *args.log)
    inputs = (args.source, args.reference, *(path for _, path in named))
    write_text(to_markdown([sections[0], training, *sections[1:]]), args.output, inputs)
