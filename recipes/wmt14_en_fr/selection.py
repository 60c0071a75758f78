"""Choose the sentence pairs of a large general corpus that are most like a small in-domain one (Axelrod et al., 2011).

``python -m recipes.wmt14_en_fr.selection GENERAL IN_DOMAIN OUT -s en -t fr {--pairs N | --words N}``

GENERAL, IN_DOMAIN and OUT are names without language: GENERAL.en and GENERAL.fr are parallel text, tokenised as the
in-domain text is. The best N pairs of GENERAL, or as many of the best as have together at most N target words, are
written to OUT in GENERAL's order, without the in-domain text. So the paper cut 850 million words to 348 million.

The score of a pair is its bilingual cross-entropy difference: H_in(s) - H_gen(s), summed over both languages. H(s) is
the cross-entropy of a sentence in bits a word, end-of-sentence included, under a 4-gram model with modified Kneser-Ney
smoothing: H_in by the model of the in-domain text, H_gen by the model of a random sample of the general text with as
many pairs (or half of the general text's, if it has fewer than twice as many). Lower is better; of equals, the first.
The models of a language know the same words, those that are at least twice in the in-domain text (Moore and Lewis,
2010); all others count as one word. A model scores the pairs it was made of too well, so the sample's own pairs are
scored by the model of a second sample. The papers do not do so, since their samples are a small part of the text. A
pair with an empty side is never selected.

GENERAL is streamed: memory is that of the language models, whose text is as large as the in-domain one, and 40 bytes
for each pair of GENERAL. OUT's folder needs room for the models' text for a while.

The language models are KenLM's. `pip install kenlm` installs the Python module that reads them, but not the program
`lmplz` that makes them, which must be on PATH (Debian: apt-get install cmake libboost-program-options-dev
libboost-system-dev libboost-thread-dev libboost-test-dev):

    pip download --no-deps --no-binary kenlm kenlm==0.3.0 && tar xzf kenlm-0.3.0.tar.gz
    cmake -S kenlm-0.3.0 -B kenlm && cmake --build kenlm --target lmplz && export PATH="$PWD/kenlm/bin:$PATH"
"""

import argparse
import contextlib
import importlib.util
import math
import random
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rnnsearch_fairseq.corpus.texts import Texts, add_languages, texts_of
from rnnsearch_fairseq.errors import Count, InputError, print_without_traceback
from rnnsearch_fairseq.output import open_output
from rnnsearch_fairseq.text.lines import check_parallel, check_rereadable, read_lines, read_pairs

ORDER = 4
LEAST_COUNT = 2
SORTING_MEMORY = "1G"  # of lmplz; what does not fit is sorted on disk
SEED = 1
OTHER = "<other>"
# lmplz refuses the first three, takes the fourth for the third, and ends a word at a null character.
RESERVED = {"<s>", "</s>", "<unk>", "<UNK>"}

# log10 p of a sentence and its end, words separated by spaces.
LanguageModel = Callable[[str], float]


class Side(NamedTuple):
    """One language: the words that its models know, and its models of the in-domain text and of the two samples."""

    vocabulary: set[str]
    in_domain: LanguageModel
    first: LanguageModel
    second: LanguageModel

    def difference(self, line: str, in_first: bool) -> float:
        """H_in(s) - H_gen(s), in bits a word, of a sentence that is in the first sample or is not."""
        words = line.split()
        known = known_words(words, self.vocabulary)
        general = self.second(known) if in_first else self.first(known)
        return (general - self.in_domain(known)) * math.log2(10) / (len(words) + 1)


def known_words(words: Iterable[str], vocabulary: set[str]) -> str:
    """A sentence as the language models read it."""
    return " ".join(word if word in vocabulary else OTHER for word in words)


def count_vocabulary(text: Path) -> set[str]:
    """The words that are in ``text`` at least twice."""
    counts = Counter(word for line in read_lines(text) for word in line.split())
    return {
        word for word, count in counts.items() if count >= LEAST_COUNT and word not in RESERVED and "\0" not in word
    }


def find_lmplz() -> str:
    """The program that makes language models.

    Raises:
        InputError: it or kenlm, which asks them, is missing.
    """
    program = shutil.which("lmplz")
    if program is None or importlib.util.find_spec("kenlm") is None:
        missing = "the program lmplz is not on PATH" if program is None else "the package kenlm is not installed"
        raise InputError(f"{missing}; python -m recipes.wmt14_en_fr.selection --help says how to get it")
    return program


def make_language_model(text: Path, words: int) -> LanguageModel:
    """Make and load the language model of ``text``, over ``words`` words, those that are not in it included.

    Raises:
        InputError: lmplz or kenlm is missing, or lmplz fails.
    """
    program = find_lmplz()
    import kenlm

    arpa = text.with_suffix(".arpa")
    # The padding gives all models of a language the same vocabulary size, and so an unseen word the same share.
    # The fallback is for texts so small that no discount can be estimated.
    command = [program, "-o", ORDER, "--text", text, "--arpa", arpa, "-S", SORTING_MEMORY, "-T", f"{text.parent}/"]
    command += ["--vocab_pad", words, "--discount_fallback"]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().rsplit("\n", 1)[-1]
        raise InputError(
            f"{program} failed ({said}); check its memory ({SORTING_MEMORY}) and the disk of {text.parent}"
        )
    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    model = kenlm.Model(str(arpa), config)
    arpa.unlink()
    return model.score


def draw(pairs: Iterable[tuple[str, str]], size: int) -> list[set[int]]:
    """Numbers, from 0, of the pairs of two random samples, of ``size`` each, or of half of all if that is less.

    Pairs with an empty side do not count.
    """
    generator = random.Random(SEED)
    drawn: list[int] = []
    seen = 0
    for i, pair in enumerate(pairs):
        if all(line.strip() for line in pair):
            seen += 1
            if len(drawn) < 2 * size:
                drawn.append(i)
            elif (place := generator.randrange(seen)) < 2 * size:
                drawn[place] = i
    generator.shuffle(drawn)
    half = len(drawn) // 2
    return [set(drawn[:half]), set(drawn[half:])]


def make_sides(in_domain: Texts, general: Texts, folder: Path) -> tuple[list[Side], set[int]]:
    """Make the language models of both languages, with ``folder`` for temporary files.

    Returns:
        them, and the numbers of the pairs in the first sample.

    Raises:
        InputError: a text has too few pairs to make them of, or the tools are missing or fail.
    """
    vocabularies = [count_vocabulary(text) for text in in_domain]

    def make(texts: Texts, numbers: set[int] | None) -> tuple[int, list[LanguageModel]]:
        """The number of pairs, and the models of both languages, of some pairs of ``texts``, or of all."""
        paths = [folder / f"text.{side}" for side in (0, 1)]
        pairs = (pair for i, pair in enumerate(read_pairs(*texts)) if numbers is None or i in numbers)
        written = _write_known(pairs, vocabularies, paths)
        if not written:
            raise InputError(f"{texts[0]}, {texts[1]}: too few pairs have words on both sides; give more text")
        # With <unk> and end-of-sentence, as lmplz counts, and OTHER.
        return written, [make_language_model(path, len(known) + 3) for path, known in zip(paths, vocabularies)]

    like, of_domain = make(in_domain, None)
    first, second = draw(read_pairs(*general), like)
    (drawn, of_first), (_, of_second) = make(general, first), make(general, second)
    print(f"language models of {like:,} in-domain and {drawn:,} general pairs are made", flush=True)
    return [Side(*of_side) for of_side in zip(vocabularies, of_domain, of_first, of_second)], first


def _write_known(pairs: Iterable[tuple[str, str]], vocabularies: list[set[str]], paths: list[Path]) -> int:
    """Write the pairs that have words on both sides as the language models read them, and count them."""
    written = 0
    with contextlib.ExitStack() as stack:
        outs = [stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in paths]
        for pair in pairs:
            sides = [line.split() for line in pair]
            if all(sides):
                written += 1
                for out, words, vocabulary in zip(outs, sides, vocabularies):
                    out.write(known_words(words, vocabulary) + "\n")
    return written


class Scores(NamedTuple):
    """Of each pair: its cross-entropy difference, infinite if a side is empty; and its number of target words."""

    differences: np.ndarray  # float64
    words: np.ndarray  # int32


def score_pairs(pairs: Iterable[tuple[str, str]], number: int, sides: list[Side], first: set[int]) -> Scores:
    """Score ``number`` pairs, of which those with the numbers ``first`` are in the first sample."""
    scores = Scores(np.full(number, np.inf), np.zeros(number, dtype=np.int32))
    for i, pair in enumerate(pairs):
        scores.words[i] = len(pair[1].split())
        if all(line.strip() for line in pair):
            scores.differences[i] = sum(side.difference(line, i in first) for side, line in zip(sides, pair))
    return scores


def choose(scores: Scores, most_pairs: int | None, most_words: int | None) -> np.ndarray:
    """Whether each pair is selected: the best are, at most so many, or with at most so many target words together."""
    ranking = np.argsort(scores.differences, kind="stable")[: np.isfinite(scores.differences).sum()]
    if most_pairs is not None:
        ranking = ranking[:most_pairs]
    if most_words is not None:
        together = np.cumsum(scores.words[ranking], dtype=np.int64)
        ranking = ranking[: np.searchsorted(together, most_words, side="right")]
    selected = np.zeros(len(scores.words), dtype=bool)
    selected[ranking] = True
    return selected


def write_selected(general: Texts, selected: np.ndarray, out: Texts) -> None:
    """Write the selected pairs, each line as it is."""
    with contextlib.ExitStack() as stack:
        outs = [stack.enter_context(open_output(path)) for path in out]
        for pair, is_selected in zip(read_pairs(*general), selected):
            if is_selected:
                for file, line in zip(outs, pair):
                    file.write((line.removesuffix("\n") + "\n").encode())


def select(
    general: Texts, in_domain: Texts, out: Texts, most_pairs: int | None = None, most_words: int | None = None
) -> tuple[Scores, np.ndarray]:
    """Write the best of the pairs of ``general`` to ``out``; returns the scores of all, and which were selected.

    Raises:
        InputError: a file is bad, the two sides of one differ in their number of lines, or the tools are missing.
    """
    check_rereadable(*general, *in_domain)
    check_parallel(in_domain)
    pairs = check_parallel(general)
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(dir=out[0].parent, prefix=".selection."))
        except OSError as error:
            raise InputError(f"{out[0].parent}: cannot be written ({error.strerror}); give another OUT") from error
        sides, first = make_sides(in_domain, general, Path(folder))
    scores = score_pairs(read_pairs(*general), pairs, sides, first)
    selected = choose(scores, most_pairs, most_words)
    write_selected(general, selected, out)
    return scores, selected


def parse_arguments() -> argparse.Namespace:
    """Read the command line.

    Raises:
        InputError: a number is out of range, or the output would replace an input.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("general", help="text to choose from, without the language")
    parser.add_argument("in_domain", help="text that shows what to choose")
    parser.add_argument("out", help="text to write")
    add_languages(parser)
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--pairs", action=Count, help="how many pairs to choose")
    size.add_argument("--words", action=Count, help="how many target words to choose, at most")
    args = parser.parse_args()
    for name in ("general", "in_domain", "out"):
        setattr(args, name, texts_of(getattr(args, name), args.source_lang, args.target_lang))
    for path in args.out:
        if path.resolve() in {read.resolve() for read in (*args.general, *args.in_domain)}:
            raise InputError(f"{path}: it would replace what it is selected from; give another OUT")
    return args


def _summary(scores: Scores, selected: np.ndarray) -> Iterator[str]:
    yield f"chose {selected.sum():,} of {len(selected):,} pairs, "
    yield f"{scores.words[selected].sum(dtype=np.int64):,} of {scores.words.sum(dtype=np.int64):,} target words"
    if selected.any():
        yield f", of a difference of {scores.differences[selected].max():.4f} bits at most"
    empty = len(selected) - np.isfinite(scores.differences).sum()
    if empty:
        yield f"; {empty:,} pairs have an empty side"


def main() -> None:
    """The command line of this module."""
    args = parse_arguments()
    find_lmplz()  # before any time is lost
    summary = "".join(_summary(*select(args.general, args.in_domain, args.out, args.pairs, args.words)))
    print(f"{summary} -> {args.out[0]}, {args.out[1]}")


if __name__ == "__main__":
    print_without_traceback()
    main()
