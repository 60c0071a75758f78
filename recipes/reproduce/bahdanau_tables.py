"""Tables 1 to 3 of Bahdanau et al. (2015), and which systems differ significantly."""

import html
import random
import re
from collections.abc import Sequence
from pathlib import Path

from recipes.reproduce.bleu import scored_by_bleu
from recipes.reproduce.bootstrap import draw
from recipes.reproduce.compare import HOW, comparison
from recipes.reproduce.document import Section, escape, missing, table
from recipes.reproduce.epochs import best_epoch, read_log, read_train_log
from recipes.reproduce.runs import BANNED, FAIRSEQ, LOG, PHRASE_BASED, TRANSLATIONS, BahdanauRuns, bleu_by_seed
from recipes.reproduce.systems import Translations, join_pieces

EXAMPLES = 3  # sentences of Table 3
NONE = "–"
# Repetitions are bounded, since a line of a log may be of any length.
GPU = re.compile(r"rank {1,9}[0-9]{1,9}: capabilities = .{1,200}? name = (.{1,200})$", re.MULTILINE)
# The long sentences of the paper's Table 3, in newstest2014, by how they begin.
OF_PAPER = (
    "An admitting privilege is the right of a doctor",
    "This kind of experience is part of Disney",
    "In a press conference on Thursday",
)
WORKERS = re.compile(r"training on ([0-9]{1,9}) devices")


def draw_sentences(numbers: Sequence[int], count: int) -> list[int]:
    """``count`` of ``numbers``, drawn by chance, in ascending order; all of them if they are fewer."""
    return sorted(random.Random(1).sample(numbers, min(count, len(numbers))))


def table_1(runs: BahdanauRuns) -> Section:
    """BLEU on all sentences, and on those without unknown words; and on all by fairseq's search."""

    def score(translations: Translations, name: str, numbers: Sequence[int] | None) -> str:
        if not numbers or name not in translations:
            return NONE
        return f"{scored_by_bleu(translations[name], runs.test.reference_words).on(numbers).score:.2f}"

    every = range(len(runs.test))
    columns = (runs.systems, every), (runs.banned, runs.known), (runs.by_fairseq, every)
    rows = [[name, *(score(translations, name, numbers) for translations, numbers in columns)] for name in runs.systems]
    blocks = [
        table(["model", "all", "no unknown words", "all, fairseq's search"], rows),
        "The first two columns score translations of the highest total log-probability, which the search of the "
        "original program finds. fairseq's own search takes the highest mean over the words.",
    ]
    lacking = runs.lacking(TRANSLATIONS, BANNED, FAIRSEQ)
    if runs.known is None:
        lacking = ["the dictionaries, which tell unknown words", *lacking]
    else:
        others = f" (but those of {'; '.join(runs.others)}: the translations of the column before)"
        how = (
            f"'All' is of {len(runs.test):,} sentences. 'No unknown words' is of the {len(runs.known):,} sentences "
            "that have none in source and reference. Here the models translated without unknown words"
            f"{others if runs.others else ''}."
        )
        blocks.append(escape(how))
    return "Table 1: BLEU", [*blocks, *missing(lacking)]


def table_2(runs: BahdanauRuns) -> Section:
    """Each training, as its log has it."""
    rows = []
    for name, path in runs.with_file(LOG).items():
        epochs = read_train_log(path)
        last = epochs[-1]
        hours = sum(epoch.seconds for epoch in epochs) / 3600
        best = best_epoch(epochs) or last
        nll = (best.train_nll_sentence, best.dev_nll_sentence)
        numbers = [NONE if number is None else f"{number:.2f}" for number in nll]
        begin = [name, runs.seeds[name] or NONE, f"{last.updates:,}", str(last.number), f"{hours:.2f}"]
        rows.append([*begin, device(path), str(best.number), *numbers])
    header = ["model", "seed", "updates", "epochs", "hours", "device", "best epoch", "train NLL", "dev NLL"]
    how = (
        "'Hours' are hours in updates, without validation. Both NLLs are in nats a sentence, of the epoch with the "
        "lowest development loss. 'Dev NLL' is this loss, and 'train NLL' is the mean over the epoch's batches, each "
        "before its update."
    )
    return "Table 2: training", [*([table(header, rows), how] if rows else []), *missing(runs.lacking(LOG))]


def device(log: Path) -> str:
    """The GPUs that a training was last started on, as its log says, or CPU; and how many."""
    text = read_log(log)
    counts = WORKERS.findall(text)
    if not counts:
        return NONE
    names = dict.fromkeys(name.rstrip() for name in GPU.findall(text)[-int(counts[-1]) :]) or ["CPU"]
    return " / ".join(names) if counts[-1] == "1" else f"{counts[-1]} × {' / '.join(names)}"


def table_3(runs: BahdanauRuns) -> Section:
    """Source, reference and every system's translation of some sentences, in words.

    They are the paper's three that are in the test set or, if there are none, long ones, drawn.
    """
    sentences = [number for number, line in enumerate(runs.test.source) if join_pieces(line).startswith(OF_PAPER)]
    if not sentences:
        sentences = draw_sentences(runs.test.select_length(runs.least), EXAMPLES)
    blocks = []
    for number in sentences:
        texts = [("source", join_pieces(runs.test.source[number])), ("reference", runs.test.reference_words[number])]
        texts += [(name, lines[number]) for name, lines in runs.systems.items()]
        rows = [[name, html.unescape(text)] for name, text in texts]
        blocks.append(table([f"sentence {number}", f"{runs.test.lengths[number]} words"], rows))
    if not sentences:
        blocks.append(f"No sentence has {runs.least} words or more; the longest has {max(runs.test.lengths)}.")
    return "Table 3: long sentences", [*blocks, *missing(runs.lacking(TRANSLATIONS))]


def significance(seeds: Sequence[BahdanauRuns]) -> Section:
    """The difference in BLEU of every two systems, on all sentences, and its interval."""
    names = dict.fromkeys(name for runs in seeds for name in runs.systems)
    if len(names) < 2:
        return "Significance", ["Not compared: it takes two systems."]
    sentences = range(len(seeds[0].test))
    scores = {name: bleu_by_seed(seeds, name, sentences, *draw(len(sentences))) for name in names}
    return "Significance", [comparison(scores, [PHRASE_BASED])[1], HOW]
