"""Score given translations: ln p(y|x) of each sentence pair and of each target word, with the model's alignment.

``rnnsearch score --path MODEL.pt[:MODEL2.pt] --data DIR [--trees TREES] SOURCE TARGET``

Line N of TARGET is scored as the translation of line N of SOURCE. Both must be prepared like the training data:
tokenised, and split into subwords if it was. Each line has a result, in order; for a blank line, only end-of-sentence
is scored. Words and lengths include end-of-sentence; logarithms are natural; scores are not divided by length. An
ensemble averages the probabilities and the alignments of its models. A model that reads trees (tree2seq) needs the
trees of SOURCE, written by rnnsearch trees; it attends to words and phrases, whose weights sum to one. A phrase is
given by its first word, from 0, and the word after its last one; phrases are in pre-order: each before the phrases
inside it, left before right.

Each pair is a JSON object on one line, with numbers rounded to six decimals:

id                the pair's position, from 0
source, target    the words as the model sees them
logprob           ln p(y|x)
word_logprobs     ln p of each target word; their sum is logprob
alignment         for each target word, a row of weights of the source words; null if the model has no attention
phrases           with trees only: the phrases of the source, empty without a parse
phrase_attention  with trees only: for each target word, a row of weights of the phrases
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

from rnnsearch_fairseq.errors import Count, InputError
from rnnsearch_fairseq.inference.loading import load_models
from rnnsearch_fairseq.output import open_output
from rnnsearch_fairseq.text.forest import build_forest
from rnnsearch_fairseq.text.lines import check_parallel, read_pairs
from rnnsearch_fairseq.text.scores import AlignedPair, write_scores
from rnnsearch_fairseq.text.trees import Tree, parse_transitions

BATCH_SIZE = 64
MAX_TOKENS = 4000
READ_AHEAD = 100  # batches that are read and sorted by length together
MOST_WEIGHTS = 50_000_000  # the most attention weights in memory: 200 MB


class _EncodedPair(NamedTuple):
    """Ids of words with end-of-sentence, and the source's tree; None without a parse or for models without trees."""

    source: Tensor
    target: Tensor
    tree: Tree | None

    @property
    def phrases(self) -> list[tuple[int, int]]:
        return [] if self.tree is None else self.tree.spans()

    @property
    def weights(self) -> int:
        """The number of attention weights of the pair."""
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
    """Score each of ``pairs``, in order, with the mean of the models' probabilities.

    :data:`READ_AHEAD` batches are read and sorted by length together, so memory does not grow with the number of pairs.

    Args:
        models: an ensemble on one device; it is set to evaluation mode.
        task: holds the ``source_dictionary`` and ``target_dictionary``; see :func:`load_models`.
        pairs: sentences and translations, prepared like the training data.
        batch_size: the most pairs in a batch.
        max_tokens: the most words in a batch on either side, padding included; a longer pair is scored alone.
        trees: the tree of each source, None without a parse; required for models that read trees, refused for others.

    Raises:
        InputError: trees are missing or superfluous, or a sentence, once it is reached, is longer than the models can
            read, or shorter than its tree.
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
        scores: dict[int, AlignedPair] = {}
        for batch in group_by_size(order, sizes.max(axis=1), max_tokens, batch_size):
            scores |= _score_batch(models, task, {int(number): chunk[number] for number in batch})
        yield from (scores[number] for number in range(len(chunk)))


def group_by_size(order: np.ndarray, tokens: np.ndarray, max_tokens: int, batch_size: int) -> Sequence[np.ndarray]:
    """Group the numbers in ``order`` into batches; number n has ``tokens[n]`` tokens, and is alone above max_tokens."""
    # batch_by_size refuses a sentence of more than max_tokens, so it is counted as max_tokens.
    sizes = tokens[order].clip(max=max_tokens)
    return data_utils.batch_by_size(order, None, sizes, max_tokens=max_tokens, max_sentences=batch_size)


def read_trees(path: Path, source: Path) -> Iterator[Tree | None]:
    """Yield the tree of each line of ``source``, None without a parse; `check_parallel` has accepted the two files.

    Raises:
        InputError: a line is not a tree, or the tree has more leaves than the source has words.
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
                f"{limit:,}; shorten the pair or remove it from both files"
            )
    _check_leaves(tree, len(source) - 1, f"pair {number}")
    return _EncodedPair(source, target, tree)


def _check_leaves(tree: Tree | None, words: int, where: str) -> None:
    if tree is not None and tree.leaves > words:
        raise InputError(
            f"{where}: the tree has {tree.leaves} leaves and the source {words} words; write the trees from this text"
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
    """Score a batch; pairs and scores are keyed by number."""
    parses = any(map(_reads_trees, models))
    sample = _collate(task, batch, parses)
    device = next(models[0].parameters()).device
    sample = utils.apply_to_sample(lambda tensor: tensor.to(device), sample)
    scorer = SequenceScorer(task.target_dictionary)
    # One model at a time: SequenceScorer averages an ensemble's probabilities in float32, where small ones become zero,
    # and divides the sum of the alignments by the number of models even if some have no attention.
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
    """Build fairseq's batch and, if a model ``parses``, add the fields of its forest as ``trees``."""
    pad, eos = task.source_dictionary.pad(), task.source_dictionary.eos()
    samples = [{"id": number, "source": pair.source, "target": pair.target} for number, pair in batch.items()]
    # Always pad on the right: SequenceScorer expects target words on the left, and fairseq's LSTM moves the source, and
    # the columns of the alignment, to the left.
    sample = collate(samples, pad, eos, left_pad_source=False, left_pad_target=False)
    if parses:
        trees = [batch[number].tree for number in sample["id"].tolist()]
        sample["trees"] = tuple(build_forest(trees, [0] * len(trees), sample["net_input"]["src_tokens"].size(1)))
    return sample


def _generate(scorer: SequenceScorer, model: BaseFairseqModel, sample: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Run ``scorer`` with one model; the columns of "attention" are the padded words, then the phrases."""
    if not _reads_trees(model):
        return scorer.generate([model], sample)
    with_trees = {**sample, "net_input": {**sample["net_input"], "trees": sample["trees"]}}
    with model.decoder.register_forward_hook(_return_constituent_attention):
        return scorer.generate([model], with_trees)


def _return_constituent_attention(
    decoder: nn.Module, inputs: tuple[Any, ...], output: tuple[Tensor, dict[str, Any]]
) -> Any:
    """A forward hook that returns the attention to words and phrases as fairseq's attention to words."""
    scores, extra = output
    return scores, {**extra, "attn": extra["constituents"]}


def _without_padding(attention: Tensor, pair: _EncodedPair, columns: int) -> Tensor:
    """Cut a pair's attention, whose first ``columns`` are padded words, to ``(T, S + P)``.

    In an ensemble, a model that does not read trees gives phrases the weight zero.
    """
    phrases = len(pair.phrases)
    rows = attention[: len(pair.target)].to(torch.promote_types(attention.dtype, torch.float32)).cpu()
    to_phrases = rows[:, columns : columns + phrases]
    to_phrases = nn.functional.pad(to_phrases, (0, phrases - to_phrases.size(1)))
    return torch.cat([rows[:, : len(pair.source)], to_phrases], dim=1)


# The command


@dataclass
class Totals:
    """Sums over all pairs. ``source_words`` and ``target_words`` exclude end-of-sentence; ``nll`` is in nats."""

    pairs: int = 0
    source_words: int = 0
    target_words: int = 0
    source_unknown: int = 0
    target_unknown: int = 0
    nll: float = 0.0

    def watch(self, scores: Iterable[AlignedPair], unknown: str) -> Iterator[AlignedPair]:
        """Pass ``scores`` on, and add each; ``unknown`` is the unknown word."""
        for score in scores:
            self.pairs += 1
            self.source_words += len(score.source) - 1
            self.target_words += len(score.target) - 1
            self.source_unknown += score.source.count(unknown)
            self.target_unknown += score.target.count(unknown)
            self.nll -= score.logprob
            yield score

    def summary(self) -> str:
        """Two readable lines."""
        words = self.target_words + self.pairs
        per_word = self.nll / words
        perplexity = torch.tensor(per_word, dtype=torch.float64).exp().item()  # inf, where math.exp would raise
        return (
            f"scored {self.pairs:,} pairs, {words:,} target words with end-of-sentence: "
            f"{self.nll / self.pairs:.4f} nats a sentence, {per_word:.4f} nats a word, perplexity {perplexity:.4f}\n"
            f"unknown words: {self.source_unknown:,} of {self.source_words:,} in the source, "
            f"{self.target_unknown:,} of {self.target_words:,} in the target"
        )


def parse_arguments() -> argparse.Namespace:
    """Read the command line.

    Raises:
        InputError: an option is out of range.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="source text, one sentence a line, prepared like the training data")
    parser.add_argument("target", type=Path, help="its translations, line by line, prepared likewise")
    parser.add_argument("--path", required=True, help="checkpoint, or several with colons between: an ensemble")
    parser.add_argument("--data", required=True, metavar="DIR", help="folder of the dictionaries dict.LANGUAGE.txt")
    parser.add_argument(
        "--trees", type=Path, metavar="FILE", help="trees of the source, line by line, for models that read trees"
    )
    parser.add_argument("-s", "--source-lang", help="default: from the checkpoint, or from the data in DIR")
    parser.add_argument("-t", "--target-lang", help="default: likewise")
    for option, default, what in (
        ("--batch-size", BATCH_SIZE, "most pairs in a batch"),
        ("--max-tokens", MAX_TOKENS, "most words in a batch, padding included, on either side"),
    ):
        parser.add_argument(option, action=Count, default=default, help=f"{what} (default: {default})")
    parser.add_argument("--cpu", action="store_true", help="do not use CUDA")
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: standard output")
    return parser.parse_args()


def main() -> None:
    """The command line of this module."""
    args = parse_arguments()
    check_parallel([path for path in (args.source, args.target, args.trees) if path is not None])
    if args.trees is not None:
        for _ in read_trees(args.trees, args.source):
            pass  # find bad lines before anything is written
    totals = Totals()
    with contextlib.nullcontext(sys.stdout.buffer) if args.output is None else open_output(args.output) as out:
        models, task = load_models(
            utils.split_paths(args.path), args.data, args.source_lang, args.target_lang, args.cpu
        )
        pairs = read_pairs(args.source, args.target)
        trees = None if args.trees is None else read_trees(args.trees, args.source)
        scores = score_pairs(models, task, pairs, args.batch_size, args.max_tokens, trees)
        write_scores(totals.watch(scores, task.source_dictionary.unk_word), out)
        out.flush()
    print(totals.summary(), file=sys.stderr)
