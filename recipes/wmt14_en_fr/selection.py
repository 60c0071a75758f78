"""Choose the sentence pairs of a large general corpus that are most like a small in-domain one (Axelrod et al., 2011).

GENERAL, IN_DOMAIN and OUT are names without language: GENERAL.en and GENERAL.fr are parallel text, tokenised as the
in-domain text is. As many of the best pairs as have together at most --words target words are written to OUT, in
GENERAL's order. So the paper cut 850 million words to 348 million (Bahdanau et al., 2015, Section 4.1).

  python -m recipes.wmt14_en_fr.selection text/train text/valid text/selected -s en -t fr --words 348000000
"""

# The score of a pair is its bilingual cross-entropy difference, H_in(s) - H_gen(s), summed over both languages. H(s) is
# the cross-entropy of a sentence in bits a word, end-of-sentence included, under a 4-gram model with modified
# Kneser-Ney smoothing: H_in by the model of the in-domain text, H_gen by the model of a random sample of the general
# text with as many pairs (or half of the general text's, if it has fewer than twice as many). Lower is better; of
# equals, the first. The models of a language know the same words, those that are at least twice in the in-domain text
# (Moore and Lewis, 2010); all others count as one word. A model scores the pairs it was made of too well, so the
# sample's own pairs are scored by the model of a second sample; the papers do not do so, since their samples are a
# small part of the text. A pair with an empty side is never selected. GENERAL is streamed: memory is that of the
# language models, whose text is as large as the in-domain one, and 40 bytes for each pair of GENERAL.

import contextlib
import math
import random
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rnnsearch_fairseq.command_line import count, make_parser, print_without_traceback
from rnnsearch_fairseq.corpus.rows import add_languages, texts_of, write_rows
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.output import check_not_input
from rnnsearch_fairseq.text.lines import read_lines, read_pairs

MIN_COUNT = 2  # of a word that the language models know
SORTING_MEMORY = "1G"  # of lmplz; what does not fit is sorted on disk
SEED = 1
OTHER = "<other>"
# lmplz refuses the first three, takes the fourth for the third, and ends a word at a null character.
RESERVED = {"<s>", "</s>", "<unk>", "<UNK>"}

Texts = tuple[Path, Path]  # source and target
LanguageModel = Callable[[str], float]  # log10 p of a sentence and its end, words separated by spaces


class Side(NamedTuple):
    """One language: the words that its models know, and its models of the in-domain text and of the two samples."""

    vocabulary: set[str]
    in_domain: LanguageModel
    first: LanguageModel
    second: LanguageModel

    def difference(self, line: str, in_first: bool) -> float:
        """H_in(s) - H_gen(s), in bits a word, of a sentence that is in the first sample or is not."""
        known = mask_unknown(line, self.vocabulary)
        general = self.second(known) if in_first else self.first(known)
        return (general - self.in_domain(known)) * math.log2(10) / (len(line.split()) + 1)


class Scores(NamedTuple):
    """Of each pair: its cross-entropy difference, infinite if a side is empty; and its number of target words."""

    differences: np.ndarray  # float64
    words: np.ndarray  # int32


def mask_unknown(line: str, vocabulary: set[str]) -> str:
    """The sentence as the language models read it."""
    return " ".join(word if word in vocabulary else OTHER for word in line.split())


def count_vocabulary(text: Path) -> set[str]:
    """The words that are in ``text`` at least twice."""
    counts = Counter(word for line in read_lines(text) for word in line.split())
    return {word for word, count in counts.items() if count >= MIN_COUNT and word not in RESERVED and "\0" not in word}


def make_language_model(text: Path, words: int) -> LanguageModel:
    """Make and load the language model of ``text``, over ``words`` words, those that are not in it included.

    Raises:
        InputError: KenLM is missing or fails.
    """
    arpa = text.with_suffix(".arpa")
    # The padding gives all models of a language the same vocabulary size, and so an unseen word the same share.
    # The fallback is for texts so small that no discount can be estimated.
    command = ["lmplz", "-o", "4", "--text", text, "--arpa", arpa, "-S", SORTING_MEMORY, "-T", f"{text.parent}/"]
    command += ["--vocab_pad", str(words), "--discount_fallback"]
    try:
        import kenlm

        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)
    except (ImportError, FileNotFoundError) as error:
        raise InputError(f"{error}: KenLM is needed; recipes/wmt14_en_fr/README.md says how to install it") from error
    except subprocess.CalledProcessError as error:
        message = error.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise InputError(f"lmplz failed ({message}); make room in memory and in {text.parent}") from error
    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    model = kenlm.Model(str(arpa), config)
    arpa.unlink()
    return model.score


def draw_samples(pairs: Iterable[tuple[str, str]], size: int) -> tuple[set[int], set[int], int]:
    """Draw two random samples of ``size`` pairs each, or of half of all pairs if that is less; no side is empty.

    Returns:
        the numbers, from 0, of the pairs of both samples, and the number of all pairs.
    """
    generator = random.Random(SEED)
    drawn: list[int] = []
    seen = number = 0
    for number, pair in enumerate(pairs, 1):
        if all(line.strip() for line in pair):
            seen += 1
            if len(drawn) < 2 * size:
                drawn.append(number - 1)
            elif (place := generator.randrange(seen)) < 2 * size:
                drawn[place] = number - 1
    generator.shuffle(drawn)
    half = len(drawn) // 2
    return set(drawn[:half]), set(drawn[half:]), number


def make_models(
    texts: Texts, numbers: set[int] | None, vocabularies: list[set[str]], folder: Path
) -> tuple[int, list[LanguageModel]]:
    """Make the language models of both languages, of the pairs of ``texts`` with these ``numbers``, or of all.

    Returns:
        the number of pairs, and both models.

    Raises:
        InputError: no pair has words on both sides, or KenLM is missing or fails.
    """
    paths = [folder / f"text.{side}" for side in (0, 1)]
    written = 0
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in paths]
        for number, pair in enumerate(read_pairs(*texts)):
            if (numbers is None or number in numbers) and all(line.strip() for line in pair):
                written += 1
                for file, line, vocabulary in zip(files, pair, vocabularies):
                    file.write(mask_unknown(line, vocabulary) + "\n")
    if not written:
        raise InputError(f"{texts[0]}, {texts[1]}: too few pairs have words on both sides; give more text")
    # With <unk> and end-of-sentence, as lmplz counts, and OTHER.
    return written, [make_language_model(path, len(known) + 3) for path, known in zip(paths, vocabularies)]


def score_pairs(general: Texts, in_domain: Texts, folder: Path) -> Scores:
    """Score all pairs of ``general``, with ``folder`` for temporary files.

    Raises:
        InputError: as `make_models`.
    """
    vocabularies = [count_vocabulary(text) for text in in_domain]
    pairs, domain_models = make_models(in_domain, None, vocabularies, folder)
    first, second, number = draw_samples(read_pairs(*general), pairs)
    sampled, first_models = make_models(general, first, vocabularies, folder)
    _, second_models = make_models(general, second, vocabularies, folder)
    print(f"language models of {pairs:,} in-domain and {sampled:,} general pairs are made", flush=True)
    sides = [Side(*parts) for parts in zip(vocabularies, domain_models, first_models, second_models)]
    scores = Scores(np.full(number, np.inf), np.zeros(number, dtype=np.int32))
    for i, pair in enumerate(read_pairs(*general)):
        scores.words[i] = len(pair[1].split())
        if all(line.strip() for line in pair):
            scores.differences[i] = sum(side.difference(line, i in first) for side, line in zip(sides, pair))
    return scores


def choose_best(scores: Scores, max_words: int) -> np.ndarray:
    """Whether each pair is selected: the best are, with at most so many target words together."""
    ranking = np.argsort(scores.differences, kind="stable")[: np.isfinite(scores.differences).sum()]
    together = np.cumsum(scores.words[ranking], dtype=np.int64)
    selected = np.zeros(len(scores.words), dtype=bool)
    selected[ranking[: np.searchsorted(together, max_words, side="right")]] = True
    return selected


def select(general: Texts, in_domain: Texts, out: Texts, max_words: int) -> tuple[Scores, np.ndarray]:
    """Write the best of the pairs of ``general`` to ``out``; returns the scores of all, and which were selected.

    Raises:
        InputError: a file is bad, the two sides of one differ in their number of lines, or KenLM is missing.
    """
    with tempfile.TemporaryDirectory(dir=out[0].parent, prefix=".selection.") as folder:
        scores = score_pairs(general, in_domain, Path(folder))
    selected = choose_best(scores, max_words)
    chosen = (pair for pair, is_selected in zip(read_pairs(*general), selected) if is_selected)
    write_rows(out, (tuple(line.removesuffix("\n") for line in pair) for pair in chosen))
    return scores, selected


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("general", help="text to choose from, without the language")
    parser.add_argument("in_domain", help="text that shows what to choose")
    parser.add_argument("out", help="text to write")
    add_languages(parser)
    parser.add_argument("--words", type=count, required=True, help="how many target words to choose, at most")
    args = parser.parse_args()
    languages = args.source_lang, args.target_lang
    general, in_domain, out = (texts_of(name, *languages) for name in (args.general, args.in_domain, args.out))
    check_not_input(out, (*general, *in_domain))
    scores, selected = select(general, in_domain, out, args.words)
    print(
        f"chose {selected.sum():,} of {len(selected):,} pairs, {scores.words[selected].sum(dtype=np.int64):,} of "
        f"{scores.words.sum(dtype=np.int64):,} target words -> {out[0]}, {out[1]}"
    )


if __name__ == "__main__":
    print_without_traceback()
    main()
