"""Whether the numbers of a folder of runs agree with what Bahdanau et al. (2015) claim."""

import operator
from collections.abc import Callable, Sequence

from rnnsearch_fairseq.analysis.bleu import compare
from rnnsearch_fairseq.analysis.document import Bullets, Section, verdict
from rnnsearch_fairseq.analysis.runs import BANNED, TRANSLATIONS, BahdanauRuns

ABOVE = (("RNNsearch-30", "RNNencdec-30"), ("RNNsearch-50", "RNNencdec-50"), ("RNNsearch-30", "RNNencdec-50"))
LONGER = (("RNNencdec-50", "RNNencdec-30"), ("RNNsearch-50", "RNNsearch-30"))
FALLING = ("RNNencdec-30", "RNNencdec-50")
STEADY = ("RNNsearch-30", "RNNsearch-50", "RNNsearch-50⋆")
FEWEST = 30  # sentences, to test a claim on
# How the fall of BLEU compares with its half-width.
FALLS, STAYS = operator.gt, operator.le


def claims(runs: BahdanauRuns) -> Section:
    """Whether the numbers agree with each of the paper's claims, or why a claim is not tested."""
    items = [_above(runs, *names, file) for names in ABOVE for file in (TRANSLATIONS, BANNED)]
    items += [_falls(runs, name, f"{name} falls with length", FALLS) for name in FALLING]
    items += [_falls(runs, name, f"{name} does not fall with length", STAYS) for name in STEADY]
    items += [_falls_less(runs, *names) for names in ABOVE[:2]]
    items += [_above(runs, *names, TRANSLATIONS, long=True) for names in LONGER]
    section = Section("The paper's claims")
    section.blocks.append(
        f"Of the {len(runs.test):,} sentences, {len(runs.long):,} are long ({runs.least} words or more) and "
        f"{len(runs.short):,} short; claims on fewer than {FEWEST} are not tested. A model is above another if its "
        "BLEU is, as printed; p is that of a paired bootstrap. BLEU falls with length if it is lower on long sentences "
        "than on short ones by more than the half-width (after ±) of the difference's 95 % interval, by bootstrap."
    )
    section.blocks.append(Bullets(items))
    return section


def _above(runs: BahdanauRuns, better: str, worse: str, file: str, long: bool = False) -> str:
    """A sentence on whether one model's BLEU is above another's, by their translations in ``file``."""
    systems, sentences, where = runs.systems, range(len(runs.test)), "all sentences"
    if long:
        sentences, where = runs.long, "long sentences"
    elif file == BANNED:
        systems, sentences, where = runs.banned, runs.known or [], "no unknown words"
    claim = f"{better} is above {worse}, {where}"
    obstacle = _obstacle(file, [name for name in (better, worse) if name not in systems], where, sentences)
    if obstacle:
        return f"{claim}: {obstacle}"
    found = compare(
        *([lines[n] for n in sentences] for lines in (systems[better], systems[worse], runs.test.reference_words))
    )
    return f"{claim}: {verdict(round(found.first, 2) > round(found.second, 2))} ({found})"


def _falls(runs: BahdanauRuns, name: str, claim: str, holds: Callable[[float, float], bool]) -> str:
    """A sentence on a model's BLEU on short and long sentences; ``holds`` takes the fall and its half-width."""
    obstacle = _obstacle_to_fall(runs, name)
    if obstacle:
        return f"{claim}: {obstacle}"
    short, long, error = runs.fall(name)
    agrees = holds(short - long, error)
    return (
        f"{claim}: {verdict(agrees)} (short {short:.2f}, long {long:.2f}: a fall of {short - long:.2f} ± {error:.2f})"
    )


def _falls_less(runs: BahdanauRuns, less: str, more: str) -> str:
    """A sentence on whether one model's BLEU falls less with length than another's."""
    claim = f"{less} falls less with length than {more}"
    obstacle = _obstacle_to_fall(runs, less, more)
    if obstacle:
        return f"{claim}: {obstacle}"
    falls = [round(short - long, 2) for short, long, _ in map(runs.fall, (less, more))]
    return f"{claim}: {verdict(falls[0] < falls[1])} ({falls[0]:.2f}, {falls[1]:.2f})"


def _obstacle_to_fall(runs: BahdanauRuns, *names: str) -> str:
    absent = [name for name in names if name not in runs.systems]
    return _obstacle(TRANSLATIONS, absent, "short sentences", runs.short) or _obstacle(
        TRANSLATIONS, absent, "long sentences", runs.long
    )


def _obstacle(file: str, absent: Sequence[str], where: str, sentences: Sequence[int]) -> str:
    """Why a claim is not tested; empty if no model is ``absent`` and there are enough sentences."""
    if absent:
        return f"not tested (no {file} of {' and '.join(absent)})"
    return f"not tested ({where}: {len(sentences)})" if len(sentences) < FEWEST else ""
