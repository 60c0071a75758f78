"""Translate a test set by a phrase-based system that is trained and tuned on the same text as the models.

``python -m recipes.reproduce.phrase_based TEXT OUT -s LANGUAGE -t LANGUAGE``

TEXT has {train,valid,test}.LANGUAGE, in words. OUT gets the translations of test, one a line. The system is Thot (Ortiz
Martínez and Casacuberta, 2014) as sil-machine trains it: word alignments by HMMs in both directions, symmetrised;
phrases of up to 10 words; a language model of the trigrams of train's target side; seven weights of a log-linear model,
tuned for BLEU by a downhill simplex on the first 500 pairs of valid, which it learns after that, too. Unknown words are
copied. Words change places only inside phrases: jumps of up to four words gained nothing on 100 development captions
(BLEU 43.34, and 43.33 without), and took six times as long.

The first paper's Moses (Koehn et al., 2007) also learnt a language model from 418 million words without translations.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

try:
    from machine.corpora import ParallelTextCorpus, ParallelTextRow
    from machine.translation.thot import ThotSmtModel, ThotSmtModelTrainer, ThotSmtParameters
except ImportError as error:  # they are no dependency of the package
    sys.exit(f"error: {error}; call recipes/reproduce/phrase_based.sh, which installs it")

ALIGNED_BY = "HMM"
MAX_TUNING_PAIRS = 500  # pairs of valid: the simplex translates them about a hundred times


@dataclass(frozen=True)
class Parts:
    """The corpus for the trainer, which would draw the tuning set from the training text: here both are given."""

    train: ParallelTextCorpus
    tune: ParallelTextCorpus

    def filter(self, valid: Callable[[ParallelTextRow], bool]) -> "Parts":
        """The pairs that are ``valid``: both sides have a word, and neither more than 200."""
        return Parts(self.train.filter(valid), self.tune.filter(valid))

    def take(self, _: int) -> "Parts":
        """All pairs: their number is not limited."""
        return self

    def tokenize(self, *_: object) -> "Parts":
        """The same: all rows are words already."""
        return self

    def split(self, **_: object) -> tuple[ParallelTextCorpus, ParallelTextCorpus, int, int]:
        """The two parts, and their numbers of pairs."""
        return self.train, self.tune, self.train.count(), self.tune.count()


class Codes:
    """Numbers in place of words, on both sides alike, since files of Thot have marks such as ``NULL`` and ``({``."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.codes: dict[str, str] = {}

    def encode(self, line: str) -> list[str]:
        """The words of a line, as numbers."""
        for word in line.split():
            if word not in self.codes:
                self.codes[word] = str(len(self.words))
                self.words.append(word)
        return [self.codes[word] for word in line.split()]

    def decode(self, line: str) -> str:
        """Words in place of numbers."""
        return " ".join(self.words[int(code)] for code in line.split())

    def read(self, path: Path) -> list[list[str]]:
        """The lines of a text, as numbers."""
        return [self.encode(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]

    def corpus(self, source: Path, target: Path) -> ParallelTextCorpus:
        """The pairs of two files.

        Raises:
            ValueError: they differ in their numbers of lines.
        """
        pairs = zip(self.read(source), self.read(target), strict=True)
        rows = [ParallelTextRow("text", [number], [number], *pair) for number, pair in enumerate(pairs)]
        return ParallelTextCorpus.from_parallel_rows(rows)


def train_and_translate(text: Path, languages: Sequence[str], folder: Path) -> list[str]:
    """Train a system in ``folder``, tune it, and translate the test set."""
    codes = Codes()
    train, valid = (
        codes.corpus(*(text / f"{part}.{language}" for language in languages)) for part in ("train", "valid")
    )
    test = codes.read(text / f"test.{languages[0]}")
    parameters = ThotSmtParameters(str(folder / "tm"), str(folder / "lm"))
    with ThotSmtModelTrainer(ALIGNED_BY, Parts(train, valid.take(MAX_TUNING_PAIRS)), parameters) as trainer:
        trainer.train(lambda status: print(f"{status.percent_completed or 0:.0%} {status.message}", file=sys.stderr))
        trainer.save()
        print(f"BLEU of valid: {100 * trainer.stats.metrics['bleu']:.2f}; weights: {trainer.parameters.model_weights}")
        with ThotSmtModel(ALIGNED_BY, trainer.parameters) as model:
            return [codes.decode(result.translation) for result in model.translate_batch(test)]


def main() -> None:
    """The command line of this module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, metavar="TEXT", help="folder of tokenised text")
    parser.add_argument("out", type=Path, metavar="OUT", help="file to write")
    parser.add_argument("-s", "--source-lang", required=True)
    parser.add_argument("-t", "--target-lang", required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        translations = train_and_translate(args.text, (args.source_lang, args.target_lang), Path(folder))
    part = args.out.with_name(f".{args.out.name}.part")
    part.write_text("".join(f"{line}\n" for line in translations), encoding="utf-8")
    part.replace(args.out)


if __name__ == "__main__":
    main()
