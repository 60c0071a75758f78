"""Choose the sentence pairs of a large general corpus that are most like a small in-domain one (Axelrod et al., 2011).

GENERAL, IN_DOMAIN and OUT are names without language: GENERAL.en and GENERAL.fr are parallel text, tokenised as the
in-domain text is. As many of the best pairs as have together at most --words target words are written to OUT, in
GENERAL's order. So the paper cut 850 million words to 348 million (Bahdanau et al., 2015, Section 4.1).

  python -m recipes.wmt14_en_fr.selection text/train text/valid text/selected -s en -t fr --words 348000000
"""

# The score of a pair is its bilingual cross-entropy difference, H_in(s) - H_gen(s), summed over both languages. H(s) is
# the cross-entropy of a sentence in bits a word, end-of-sentence included, under a 4-gram model with modified
# Kneser-Ney smoothing: H_in by the model of the in-domain text, H_gen by the model of a random sample of the general
# text with as many pairs. The models of a language know the same words (Moore and Lewis, 2010). GENERAL is streamed:
# memory is that of the language models, and 40 bytes for each pair of GENERAL.

import math
import random
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

import numpy as np

from rnnsearch_fairseq.command_line import count, make_parser, program
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


def mask_unknown(line: str, vocabulary: set[str]) -> str:
    """The sentence as the language models read it."""
    return " ".join(word if word in vocabulary else OTHER for word in line.split())


def count_vocabulary(text: Path) -> set[str]:
    """The words that are in ``text`` at least twice."""
    counts = Counter(word for line in read_lines(text) for word in line.split())
    return {word for word, count in counts.items() if count >= MIN_COUNT and word not in RESERVED and "\0" not in word}


def make_language_model(text: Path, words: int) -> LanguageModel:
    """Make and load the language model of ``text``, over ``words`` words, those that are not in it included."""
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


def number_pairs(texts: Texts) -> Iterable[tuple[int, tuple[str, ...]]]:
    """The pairs that have words on both sides, by their numbers from 0."""
    return ((number, pair) for number, pair in enumerate(read_pairs(*texts)) if all(line.strip() for line in pair))


def draw_sample(texts: Texts, size: int) -> set[int]:
    """Draw the numbers of ``size`` pairs, or of all if they are fewer; no side is empty."""
    generator = random.Random(SEED)
    drawn: list[int] = []
    for seen, (number, _) in enumerate(number_pairs(texts), 1):
        if len(drawn) < size:
            drawn.append(number)
        elif (place := generator.randrange(seen)) < size:
            drawn[place] = number
    return set(drawn)


def make_models(
    texts: Texts, numbers: Collection[int], vocabularies: list[set[str]], folder: Path
) -> list[LanguageModel]:
    """Make the language models of both languages, of the pairs of ``texts`` with these numbers."""
    paths = [folder / f"text.{side}" for side in (0, 1)]
    chosen = (pair for number, pair in number_pairs(texts) if number in numbers)
    write_rows(paths, (tuple(map(mask_unknown, pair, vocabularies)) for pair in chosen))
    # With <unk> and end-of-sentence, as lmplz counts, and OTHER.
    return [make_language_model(path, len(known) + 3) for path, known in zip(paths, vocabularies)]


def score_pairs(general: Texts, in_domain: Texts, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """The cross-entropy difference of each pair of ``general``, infinite if a side is empty, and its target words."""
    vocabularies = [count_vocabulary(text) for text in in_domain]
    of_domain = {number for number, _ in number_pairs(in_domain)}
    sample = draw_sample(general, len(of_domain))
    chosen = (in_domain, of_domain), (general, sample)
    models = [make_models(*text_and_numbers, vocabularies, folder) for text_and_numbers in chosen]
    print(f"language models of {len(of_domain):,} in-domain and {len(sample):,} general pairs are made", flush=True)
    words = np.array([len(target.split()) for _, target in read_pairs(*general)], dtype=np.int32)
    differences = np.full(len(words), np.inf)
    for number, pair in number_pairs(general):
        bits = 0.0
        for line, vocabulary, domain_model, general_model in zip(pair, vocabularies, *models):
            known = mask_unknown(line, vocabulary)
            bits += (general_model(known) - domain_model(known)) * math.log2(10) / (len(line.split()) + 1)
        differences[number] = bits
    return differences, words


def choose_best(differences: np.ndarray, words: np.ndarray, max_words: int) -> np.ndarray:
    """Whether each pair is selected: the best are, with at most so many target words together."""
    ranking = np.argsort(differences, kind="stable")[: np.isfinite(differences).sum()]
    together = np.cumsum(words[ranking], dtype=np.int64)
    selected = np.zeros(len(words), dtype=bool)
    selected[ranking[: np.searchsorted(together, max_words, side="right")]] = True
    return selected


@program
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
    with tempfile.TemporaryDirectory(dir=out[0].parent, prefix=".selection.") as folder:
        differences, words = score_pairs(general, in_domain, Path(folder))
    selected = choose_best(differences, words, args.words)
    chosen = (pair for pair, is_selected in zip(read_pairs(*general), selected) if is_selected)
    write_rows(out, (tuple(line.removesuffix("\n") for line in pair) for pair in chosen))
    of_words = [f"{counts.sum(dtype=np.int64):,}" for counts in (words[selected], words)]
    print(f"chose {selected.sum():,} of {len(selected):,} pairs, {' of '.join(of_words)} target words -> {args.out}")
