"""Score given translations: ln p(y|x) of each sentence pair and of each of its words, and how the model aligns them.

``rnnsearch score --path MODEL.pt[:MODEL2.pt] --data DIR [--trees TREES] SOURCE TARGET``

Line N of TARGET is scored as the translation of line N of SOURCE. Both are text as the training data was: tokenised,
and split into subwords if that was. Every line has its result, in order; of a blank one, end-of-sentence is scored.
Words and lengths include end-of-sentence; logarithms are natural and in nats; a score is not divided by length. Several
models score with the mean of their probabilities and of their alignments. A model that reads trees (tree2seq) needs
those of SOURCE, as rnnsearch trees writes them; it attends to words and phrases, and their weights
together make one. A phrase is given as its first word, from 0, and the word after its last; phrases stand in pre-order:
each before those in it, left ones first.

Each pair is an object of JSON on a line of its own, its numbers rounded to six decimals:

id                from 0
source, target    the words as the model sees them
logprob           ln p(y|x)
word_logprobs     of each target word; their sum is logprob
alignment         a row for each target word, of a weight for each source word; null of a model without one
phrases           with trees only: of the source, none without a parse
phrase_attention  with trees only: a row for each target word, of a weight for each phrase
"""

import argparse
import contextlib
import itertools
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq import utils
from fairseq.data import data_utils
from fairseq.data.language_pair_dataset import collate
from fairseq.models import BaseFairseqModel
from fairseq.sequence_scorer import SequenceScorer
from fairseq.tasks.translation import TranslationTask
from torch import Tensor, nn

from rnnsearch_fairseq.data.forest import build_forest
from rnnsearch_fairseq.data.trees import Tree, parse_transitions
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.files.output import open_output, stop_printing
from rnnsearch_fairseq.files.scores import AlignedPair, write_scores
from rnnsearch_fairseq.files.text import check_parallel, check_rereadable, read_pairs
from rnnsearch_fairseq.inference.loading import load_models

BATCH_SIZE = 64
MAX_TOKENS = 4000
READ_AHEAD = 100  # batches that are read, and sorted by length, together
MOST_WEIGHTS = 50_000_000  # alignment weights that are held at a time: 200 MB


class _EncodedPair(NamedTuple):
    """Ids of words, end-of-sentence included, and the source's tree, None without a parse or where none is read."""

    source: Tensor
    target: Tensor
    tree: Tree | None

    @property
    def phrases(self) -> list[tuple[int, int]]:
        return [] if self.tree is None else self.tree.spans()

    @property
    def weights(self) -> int:
        """How many attention weights the pair has."""
        phrases = 0 if self.tree is None else len(self.tree.splits)
        return (len(self.source) + phrases) * len(self.target)


def score_pairs(
    models: Sequence[BaseFairseqModel],
    task: TranslationTask,
    pairs: Iterable[tuple[str, str]],
    batch_size: int = BATCH_SIZE,
    max_tokens: int = MAX_TOKENS,
    trees: Iterable[Tree | None] | None = None,
) -> Iterator[AlignedPair]:
    """Score each of ``pairs``, in order, with the mean of the probabilities that ``models`` give.

    Pairs of similar length are scored together, out of :data:`READ_AHEAD` batches that are read ahead: memory does not
    grow with the number of pairs.

    Args:
        models: on one device; they are set to evaluation mode.
        task: has the ``source_dictionary`` and ``target_dictionary``; see :func:`load_models`.
        pairs: a sentence and its translation, each text as the training data was.
        batch_size: the most pairs in a batch.
        max_tokens: the most words in a batch, padding included, on either side; a longer pair is scored alone.
        trees: of the source of each pair, None without a parse; needed by models that read trees, and by no others.

    Raises:
        InputError: there are trees and no model reads them, or the other way round; or, when it comes to it, a sentence
            is longer than the models can read, or shorter than its tree.
    """
    if trees is None and any(map(_reads_trees, models)):
        raise InputError("the model reads trees; give --trees FILE, written by rnnsearch trees")
    if trees is not None and not any(map(_reads_trees, models)):
        raise InputError("--trees: the model reads no trees; leave the option out")
    limits = utils.resolve_max_positions(*(model.max_positions() for model in models))
    parsed = zip(pairs, itertools.repeat(None)) if trees is None else zip(pairs, trees, strict=True)
    encoded = (_encode(task, pair, tree, limits, number) for number, (pair, tree) in enumerate(parsed, 1))
    for chunk in _read_ahead(encoded, READ_AHEAD * batch_size):
        sizes = np.array([(len(pair.source), len(pair.target)) for pair in chunk])
        order = np.lexsort(sizes.T)  # by target length, then source length
        # fairseq refuses a sentence of more than max_tokens; counted as so many, it fills a batch alone.
        tokens = sizes.max(axis=1).clip(max=max_tokens)[order]
        batches = data_utils.batch_by_size(order, None, tokens, max_tokens=max_tokens, max_sentences=batch_size)
        scores: dict[int, AlignedPair] = {}
        for batch in batches:
            scores |= _score_batch(models, task, {int(number): chunk[number] for number in batch})
        yield from (scores[number] for number in range(len(chunk)))


def read_trees(path: Path, source: Path) -> Iterator[Tree | None]:
    """The trees of the lines of ``source``; None is no parse. The two files have passed `check_parallel`.

    Raises:
        InputError: a line is not that of a tree, or its tree has more leaves than the source has words.
    """
    for number, (line, sentence) in enumerate(read_pairs(path, source), 1):
        where = f"{path}, line {number}"
        tree = parse_transitions(line, where)
        _check_leaves(tree, len(sentence.split()), where)
        yield tree


def _reads_trees(model: BaseFairseqModel) -> bool:
    return getattr(model.encoder, "parses", False)


def _encode(
    task: TranslationTask, pair: tuple[str, str], tree: Tree | None, limits: tuple[int, int], number: int
) -> _EncodedPair:
    source, target = (
        dictionary.encode_line(line, add_if_not_exist=False).long()
        for dictionary, line in zip((task.source_dictionary, task.target_dictionary), pair)
    )
    for side, words, limit in zip(("source", "target"), (source, target), limits):
        if len(words) > limit:
            raise InputError(
                f"pair {number} has {len(words):,} {side} words with end-of-sentence, and the model reads at most "
                f"{limit:,}; shorten the pair or take it out of both files"
            )
    _check_leaves(tree, len(source) - 1, f"pair {number}")
    return _EncodedPair(source, target, tree)


def _check_leaves(tree: Tree | None, words: int, where: str) -> None:
    if tree is not None and tree.leaves > words:
        raise InputError(
            f"{where}: the tree has {tree.leaves} leaves and the source {words} words; "
            "write the trees from the same text"
        )


def _read_ahead(pairs: Iterable[_EncodedPair], most: int) -> Iterator[list[_EncodedPair]]:
    chunk: list[_EncodedPair] = []
    weights = 0
    for pair in pairs:
        chunk.append(pair)
        weights += pair.weights
        if len(chunk) >= most or weights >= MOST_WEIGHTS:
            yield chunk
            chunk, weights = [], 0
    if chunk:
        yield chunk


def _score_batch(
    models: Sequence[BaseFairseqModel], task: TranslationTask, batch: dict[int, _EncodedPair]
) -> dict[int, AlignedPair]:
    """The scores of the pairs of a batch, by their numbers."""
    parses = any(map(_reads_trees, models))
    sample = _collate(task, batch, parses)
    device = next(models[0].parameters()).device
    sample = utils.apply_to_sample(lambda tensor: tensor.to(device), sample)
    scorer = SequenceScorer(task.target_dictionary)
    # One model at a time: given all, SequenceScorer averages float32 probabilities, of which small ones are zero, and
    # divides the sum of the alignments by the number of models, whether all of them align or not.
    by_model = [_generate(scorer, model, sample) for model in models]
    scores = {}
    for number, *hypotheses in zip(sample["id"].tolist(), *by_model):
        pair = batch[number]
        logs = torch.stack([best["positional_scores"].double() for (best,) in hypotheses])
        word_logprobs = (logs.logsumexp(dim=0) - math.log(len(models))).cpu()
        weights = [
            _without_padding(best["attention"], pair, sample["net_input"]["src_tokens"].size(1))
            for (best,) in hypotheses
            if best["attention"] is not None
        ]
        attention = torch.stack(weights).mean(dim=0) if weights else None
        scores[number] = AlignedPair(
            [task.source_dictionary[word] for word in pair.source],
            [task.target_dictionary[word] for word in pair.target],
            word_logprobs,
            None if attention is None else attention[:, : len(pair.source)],
            pair.phrases if parses else None,
            attention[:, len(pair.source) :] if parses else None,
        )
    return scores


def _collate(task: TranslationTask, batch: dict[int, _EncodedPair], parses: bool) -> dict[str, Any]:
    """The batch as fairseq makes it and, if a model ``parses``, the fields of its forest as ``trees``."""
    pad, eos = task.source_dictionary.pad(), task.source_dictionary.eos()
    samples = [{"id": number, "source": pair.source, "target": pair.target} for number, pair in batch.items()]
    # Padded on the right, whatever the training did: SequenceScorer looks for the words of a target on the left, and
    # fairseq's LSTM moves a source, and with it the columns of the alignment, there.
    sample = collate(samples, pad, eos, left_pad_source=False, left_pad_target=False)
    if parses:
        trees = [batch[number].tree for number in sample["id"].tolist()]
        sample["trees"] = tuple(build_forest(trees, [0] * len(trees), sample["net_input"]["src_tokens"].size(1)))
    return sample


def _generate(scorer: SequenceScorer, model: BaseFairseqModel, sample: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """What ``scorer`` says of the pairs of a batch; "attention" is to the padded words, then to phrases."""
    if not _reads_trees(model):
        return scorer.generate([model], sample)
    with_trees = {**sample, "net_input": {**sample["net_input"], "trees": sample["trees"]}}
    with model.decoder.register_forward_hook(_report_constituents):
        return scorer.generate([model], with_trees)


def _report_constituents(decoder: nn.Module, inputs: tuple[Any, ...], output: tuple[Tensor, dict[str, Any]]) -> Any:
    """A hook that gives words and phrases where fairseq expects the attention to words."""
    scores, extra = output
    return scores, {**extra, "attn": extra["constituents"]}


def _without_padding(attention: Tensor, pair: _EncodedPair, columns: int) -> Tensor:
    """``(T, S + P)`` of a pair's attention in a batch, the first ``columns`` of which are words.

    A model that reads no trees, in an ensemble with one that does, gives phrases no weight.
    """
    phrases = len(pair.phrases)
    rows = attention[: len(pair.target)].to(torch.promote_types(attention.dtype, torch.float32)).cpu()
    to_phrases = rows[:, columns : columns + phrases]
    to_phrases = nn.functional.pad(to_phrases, (0, phrases - to_phrases.size(1)))
    return torch.cat([rows[:, : len(pair.source)], to_phrases], dim=1)


# The command


@dataclass
class Totals:
    """Sums over all pairs. ``source_words`` and ``target_words`` are without end-of-sentence; ``nll`` is in nats."""

    pairs: int = 0
    source_words: int = 0
    target_words: int = 0
    source_unknown: int = 0
    target_unknown: int = 0
    nll: float = 0.0

    def watch(self, scores: Iterable[AlignedPair], unknown: str) -> Iterator[AlignedPair]:
        """Add every score that passes; ``unknown`` is the unknown word."""
        for score in scores:
            self.pairs += 1
            self.source_words += len(score.source) - 1
            self.target_words += len(score.target) - 1
            self.source_unknown += score.source.count(unknown)
            self.target_unknown += score.target.count(unknown)
            self.nll -= score.logprob
            yield score

    def summary(self) -> str:
        """Two lines for people."""
        words = self.target_words + self.pairs
        of_word = self.nll / words
        perplexity = torch.tensor(of_word, dtype=torch.float64).exp().item()  # infinite where math.exp would raise
        return (
            f"scored {self.pairs:,} pairs, {words:,} target words with end-of-sentence: "
            f"{self.nll / self.pairs:.4f} nats a sentence, {of_word:.4f} nats a word, perplexity {perplexity:.4f}\n"
            f"unknown words: {self.source_unknown:,} of {self.source_words:,} in the source, "
            f"{self.target_unknown:,} of {self.target_words:,} in the target"
        )


def parse_arguments() -> argparse.Namespace:
    """Read the command line.

    Raises:
        InputError: if options do not go together or are out of range.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="text to translate, one sentence a line, as the training data was")
    parser.add_argument("target", type=Path, help="its translations, line by line, as the training data was")
    parser.add_argument("--path", required=True, help="checkpoint, or several with colons between: an ensemble")
    parser.add_argument("--data", required=True, metavar="DIR", help="folder of the dictionaries dict.LANGUAGE.txt")
    parser.add_argument(
        "--trees", type=Path, metavar="FILE", help="trees of the source, line by line; for models that read trees"
    )
    parser.add_argument("-s", "--source-lang", help="default: the checkpoint's, or that of the data in DIR")
    parser.add_argument("-t", "--target-lang", help="default: likewise")
    parser.add_argument(
        "--batch-size", type=int, default=BATCH_SIZE, metavar="N", help=f"most pairs in a batch (default: {BATCH_SIZE})"
    )
    parser.add_argument(
        "--max-tokens",
        type=int,
        default=MAX_TOKENS,
        metavar="N",
        help=f"most words in a batch, padding included, on either side (default: {MAX_TOKENS})",
    )
    parser.add_argument("--cpu", action="store_true", help="do not use CUDA")
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: standard output")
    args = parser.parse_args()
    for option in ("batch_size", "max_tokens"):
        if getattr(args, option) < 1:
            raise InputError(f"--{option.replace('_', '-')} is {getattr(args, option)}; give at least 1")
    return args


def main() -> int:
    """The command line of this module; returns its exit status."""
    args = parse_arguments()
    texts = [args.source, args.target] if args.trees is None else [args.source, args.target, args.trees]
    check_rereadable(*texts)
    check_parallel(texts)
    if args.trees is not None:
        for _ in read_trees(args.trees, args.source):
            pass  # a bad line is found before anything is written
    totals = Totals()
    try:
        with contextlib.nullcontext(sys.stdout.buffer) if args.output is None else open_output(args.output) as out:
            models, task = load_models(
                utils.split_paths(args.path), args.data, args.source_lang, args.target_lang, args.cpu
            )
            pairs = read_pairs(args.source, args.target)
            trees = None if args.trees is None else read_trees(args.trees, args.source)
            scores = score_pairs(models, task, pairs, args.batch_size, args.max_tokens, trees)
            write_scores(totals.watch(scores, task.source_dictionary.unk_word), out)
            out.flush()
    except BrokenPipeError:
        stop_printing()
        return 1
    print(totals.summary(), file=sys.stderr)
    return 0
