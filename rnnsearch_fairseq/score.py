"""Score given translations: ln p(y|x) of each sentence pair and of each of its words, and how the model aligns them.

``python -m rnnsearch_fairseq.score --path MODEL.pt[:MODEL2.pt] --data DIR SOURCE TARGET``

Line N of TARGET is scored as the translation of line N of SOURCE. Both are text as the training data was: tokenised,
and split into subwords if that was. Every line has its result, in order; of a blank one, end-of-sentence is scored.
Words and lengths include end-of-sentence; logarithms are natural and in nats; a score is not divided by length. Several
models score with the mean of their probabilities and of their alignments. --format is one of

text    score, number of target words, and the words' scores with spaces between, separated by tabs; six decimals
jsonl   an object per line: "id" (from 0), "source", "target" (the words as the model sees them), "logprob",
        "word_logprobs", "alignment" (a row for each target word, of a weight for each source word; null of a model
        without one); six decimals
npz     for numpy.load, in full precision. Of pair k: logprob[k], source_lengths[k], target_lengths[k];
        word_logprobs[word_offsets[k]:word_offsets[k + 1]]; and, empty of a model without alignment,
        alignments[alignment_offsets[k]:alignment_offsets[k + 1]].reshape(target_lengths[k], source_lengths[k])
"""

import argparse
import contextlib
import json
import math
import os
import sys
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from fairseq import checkpoint_utils, utils
from fairseq.data import Dictionary, data_utils
from fairseq.data.language_pair_dataset import collate
from fairseq.models import BaseFairseqModel
from fairseq.sequence_scorer import SequenceScorer
from fairseq.tasks.translation import TranslationTask
from torch import Tensor

from rnnsearch_fairseq.data.output import open_output
from rnnsearch_fairseq.data.text_files import check_parallel, check_rereadable, read_pairs
from rnnsearch_fairseq.errors import InputError

BATCH_SIZE = 64
MAX_TOKENS = 4000
READ_AHEAD = 100  # batches that are read, and sorted by length, together
MOST_WEIGHTS = 50_000_000  # alignment weights that are held at a time: 200 MB

_EncodedPair = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class PairScore:
    """ln p(y|x) of a sentence pair. Words include end-of-sentence; S source words, T target words.

    ``source`` and ``target`` are the words as the models see them: unknown ones are ``<unk>``. ``logprob`` is the sum
    of ``word_logprobs`` ``(T,)``; ``alignment`` ``(T, S)``, each row summing to one, is None where no model has one.
    Both tensors are float32 and on the CPU.
    """

    source: list[str]
    target: list[str]
    logprob: float
    word_logprobs: Tensor
    alignment: Tensor | None


def load_models(
    paths: Sequence[str],
    data: str,
    source_lang: str | None = None,
    target_lang: str | None = None,
    cpu: bool = False,
) -> tuple[list[BaseFairseqModel], TranslationTask]:
    """Load one or more checkpoints, on CUDA if there is a device, and the dictionaries ``DATA/dict.LANGUAGE.txt``.

    Args:
        data: folder of the dictionaries.
        source_lang, target_lang: default: those that the first checkpoint names; if it names none, those of the
            binarized data in ``data``.
        cpu: leave the CUDA device alone.

    Raises:
        InputError: a file is missing, is no checkpoint or does not fit the dictionaries, or the task is another than
            plain translation.
    """
    if not Path(data).is_dir():
        raise InputError(f"--data {data}: no such folder; give the one that fairseq-preprocess wrote dict.*.txt to")
    languages = {"source_lang": source_lang, "target_lang": target_lang}
    overrides = {"data": data} | {name: language for name, language in languages.items() if language is not None}
    models: list[BaseFairseqModel] = []
    task = None
    for path in paths:
        state = _read_checkpoint(path, overrides)
        _check_languages(state, data)
        try:
            loaded, _, task = checkpoint_utils.load_model_ensemble_and_task([path], task=task, state=state)
        except RuntimeError as error:
            raise InputError(
                f"{path}: does not load with the dictionaries in {data} ({_first_words(error)}); "
                "give the data that it was trained on"
            ) from error
        models += loaded
    _check_task(task)
    if torch.cuda.is_available() and not cpu:
        models = [model.cuda() for model in models]
    return models, task


def score_pairs(
    models: Sequence[BaseFairseqModel],
    task: TranslationTask,
    pairs: Iterable[tuple[str, str]],
    batch_size: int = BATCH_SIZE,
    max_tokens: int = MAX_TOKENS,
) -> Iterator[PairScore]:
    """Score each of ``pairs``, in order, with the mean of the probabilities that ``models`` give.

    Pairs of similar length are scored together, out of :data:`READ_AHEAD` batches that are read ahead: memory does not
    grow with the number of pairs.

    Args:
        models: on one device; they are set to evaluation mode.
        task: has the ``source_dictionary`` and ``target_dictionary``; see :func:`load_models`.
        pairs: a sentence and its translation, each text as the training data was.
        batch_size: the most pairs in a batch.
        max_tokens: the most words in a batch, padding included, on either side; a longer pair is scored alone.

    Raises:
        InputError: when it comes to a sentence that is longer than the models can read.
    """
    limits = utils.resolve_max_positions(*(model.max_positions() for model in models))
    encoded = (_encode(task, pair, limits, number) for number, pair in enumerate(pairs, 1))
    for chunk in _read_ahead(encoded, READ_AHEAD * batch_size):
        sizes = np.array([(len(source), len(target)) for source, target in chunk])
        order = np.lexsort(sizes.T)  # by target length, then source length
        # fairseq refuses a sentence of more than max_tokens; counted as so many, it fills a batch alone.
        tokens = sizes.max(axis=1).clip(max=max_tokens)[order]
        batches = data_utils.batch_by_size(order, None, tokens, max_tokens=max_tokens, max_sentences=batch_size)
        scores: dict[int, PairScore] = {}
        for batch in batches:
            scores |= _score_batch(models, task, {int(number): chunk[number] for number in batch})
        yield from (scores[number] for number in range(len(chunk)))


def _read_checkpoint(path: str, overrides: dict[str, str]) -> dict[str, Any]:
    if not Path(path).is_file():
        raise InputError(f"--path {path}: no such checkpoint; give one that fairseq-train wrote to its --save-dir")
    try:
        return checkpoint_utils.load_checkpoint_to_cpu(path, overrides)
    except Exception as error:  # whatever the unpickler met in it
        raise InputError(
            f"{path}: cannot be read as a fairseq checkpoint ({type(error).__name__}: {_first_words(error)}); "
            "give one that fairseq-train wrote"
        ) from error


def _check_languages(state: dict[str, Any], data: str) -> None:
    """Refuse a checkpoint that leaves the languages to be found from binarized data, if there is none in ``data``."""
    named = [getattr(state["cfg"].task, name, None) for name in ("source_lang", "target_lang")]
    if None in named and None in data_utils.infer_language_pair(data):
        raise InputError("the checkpoint does not name its languages; give --source-lang and --target-lang")


def _first_words(error: Exception) -> str:
    """The first sentence of what torch says, or the first two lines."""
    return " ".join(line.strip() for line in str(error).splitlines()[:2]).split(". ")[0].rstrip(".")


def _check_task(task: Any) -> None:
    """Refuse tasks that add language tags to the text, or draw the target otherwise than from left to right."""
    plain = isinstance(task, TranslationTask) and all(
        getattr(type(task), method) is getattr(TranslationTask, method)
        for method in ("build_dataset_for_inference", "inference_step")
    )
    if not plain:
        raise InputError(
            f"--path: the checkpoint's task is {type(task).__name__}, whose input is more than the words of a text; "
            "give a checkpoint of --task translation or pooled_translation"
        )


def _encode(task: TranslationTask, pair: tuple[str, str], limits: tuple[int, int], number: int) -> _EncodedPair:
    source, target = (
        _encode_line(dictionary, line)
        for dictionary, line in zip((task.source_dictionary, task.target_dictionary), pair)
    )
    for side, words, limit in zip(("source", "target"), (source, target), limits):
        if len(words) > limit:
            raise InputError(
                f"pair {number} has {len(words):,} {side} words with end-of-sentence, and the model reads at most "
                f"{limit:,}; shorten the pair or take it out of both files"
            )
    return source, target


def _encode_line(dictionary: Dictionary, line: str) -> Tensor:
    """The ids of the line's words and of end-of-sentence, ``(words + 1,)``."""
    ids = dictionary.encode_line(line, add_if_not_exist=False).long()
    # A word that reads <pad> would be taken for padding, and the words after it for those one place before.
    return ids.masked_fill_(ids.eq(dictionary.pad()), dictionary.unk())


def _read_ahead(pairs: Iterable[_EncodedPair], most: int) -> Iterator[list[_EncodedPair]]:
    chunk: list[_EncodedPair] = []
    weights = 0
    for pair in pairs:
        chunk.append(pair)
        weights += len(pair[0]) * len(pair[1])
        if len(chunk) >= most or weights >= MOST_WEIGHTS:
            yield chunk
            chunk, weights = [], 0
    if chunk:
        yield chunk


def _score_batch(
    models: Sequence[BaseFairseqModel], task: TranslationTask, batch: dict[int, _EncodedPair]
) -> dict[int, PairScore]:
    """The scores of the pairs of a batch, by their numbers."""
    pad, eos = task.source_dictionary.pad(), task.source_dictionary.eos()
    samples = [{"id": number, "source": source, "target": target} for number, (source, target) in batch.items()]
    # Padded on the right, whatever the training did: SequenceScorer looks for the words of a target on the left, and
    # fairseq's LSTM moves a source, and with it the columns of the alignment, there.
    sample = collate(samples, pad, eos, left_pad_source=False, left_pad_target=False)
    device = next(models[0].parameters()).device
    sample = utils.apply_to_sample(lambda tensor: tensor.to(device), sample)
    scorer = SequenceScorer(task.target_dictionary)
    # One model at a time: given all, SequenceScorer averages float32 probabilities, of which small ones are zero, and
    # divides the sum of the alignments by the number of models, whether all of them align or not.
    by_model = [scorer.generate([model], sample) for model in models]
    scores = {}
    for number, *hypotheses in zip(sample["id"].tolist(), *by_model):
        source, target = batch[number]
        logs = torch.stack([best["positional_scores"].double() for (best,) in hypotheses])
        word_logprobs = (logs.logsumexp(dim=0) - math.log(len(models))).cpu()
        # The rows and columns of padding are still there.
        weights = [
            best["attention"][: len(target), : len(source)].float().cpu()
            for (best,) in hypotheses
            if best["attention"] is not None
        ]
        scores[number] = PairScore(
            [task.source_dictionary[word] for word in source],
            [task.target_dictionary[word] for word in target],
            word_logprobs.sum().item(),
            word_logprobs.float(),
            torch.stack(weights).mean(dim=0) if weights else None,
        )
    return scores


# Writing


def write_text(scores: Iterable[PairScore], out: BinaryIO) -> None:
    """Write the format ``text`` of the module's description."""
    for score in scores:
        words = " ".join(f"{logprob:.6f}" for logprob in score.word_logprobs.tolist())
        out.write(f"{score.logprob:.6f}\t{len(score.target)}\t{words}\n".encode())


def write_jsonl(scores: Iterable[PairScore], out: BinaryIO) -> None:
    """Write the format ``jsonl`` of the module's description."""
    for number, score in enumerate(scores):
        record = {
            "id": number,
            "source": score.source,
            "target": score.target,
            "logprob": round(score.logprob, 6),
            "word_logprobs": _rounded(score.word_logprobs),
            "alignment": None if score.alignment is None else _rounded(score.alignment),
        }
        out.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")


def write_npz(scores: Iterable[PairScore], out: BinaryIO) -> None:
    """Write the format ``npz`` of the module's description; ``out`` is a named file.

    What grows with the words waits in unnamed files beside it, not in memory.
    """
    logprobs, source_lengths, target_lengths, alignment_sizes = array("d"), array("q"), array("q"), array("q")
    folder = Path(out.name).parent
    with tempfile.TemporaryFile(dir=folder) as word_file, tempfile.TemporaryFile(dir=folder) as weight_file:
        for score in scores:
            logprobs.append(score.logprob)
            source_lengths.append(len(score.source))
            target_lengths.append(len(score.target))
            word_file.write(score.word_logprobs.numpy().tobytes())
            alignment_sizes.append(0 if score.alignment is None else score.alignment.numel())
            if score.alignment is not None:
                weight_file.write(score.alignment.numpy().tobytes())
        np.savez(
            out,
            logprob=np.array(logprobs),
            source_lengths=np.array(source_lengths),
            target_lengths=np.array(target_lengths),
            word_logprobs=_mapped(word_file),
            word_offsets=_offsets(target_lengths),
            alignments=_mapped(weight_file),
            alignment_offsets=_offsets(alignment_sizes),
        )


def _rounded(tensor: Tensor) -> list[Any]:
    return np.round(tensor.double().numpy(), 6).tolist()


def _mapped(file: BinaryIO) -> np.ndarray:
    """The float32 numbers that were written to ``file``."""
    file.flush()
    # An empty file cannot be mapped.
    return np.memmap(file, dtype=np.float32, mode="r") if file.tell() else np.zeros(0, np.float32)


def _offsets(lengths: Sequence[int]) -> np.ndarray:
    """Where each of consecutive stretches begins, and the last ends: ``(stretches + 1,)``."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


WRITERS: dict[str, Callable[[Iterable[PairScore], BinaryIO], None]] = {
    "text": write_text,
    "jsonl": write_jsonl,
    "npz": write_npz,
}


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

    def watch(self, scores: Iterable[PairScore], unknown: str) -> Iterator[PairScore]:
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
    parser = argparse.ArgumentParser(
        prog="python -m rnnsearch_fairseq.score",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", type=Path, help="text to translate, one sentence a line, as the training data was")
    parser.add_argument("target", type=Path, help="its translations, line by line, as the training data was")
    parser.add_argument("--path", required=True, help="checkpoint, or several with colons between: an ensemble")
    parser.add_argument("--data", required=True, metavar="DIR", help="folder of the dictionaries dict.LANGUAGE.txt")
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
    parser.add_argument("--format", choices=WRITERS, default="text", help="see above")
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: standard output")
    args = parser.parse_args()
    for option in ("batch_size", "max_tokens"):
        if getattr(args, option) < 1:
            raise InputError(f"--{option.replace('_', '-')} is {getattr(args, option)}; give at least 1")
    if args.format == "npz" and args.output is None:
        raise InputError("--format npz is not text to print; give --output FILE")
    return args


def main() -> int:
    """The command line of this module; returns its exit status."""
    args = parse_arguments()
    check_rereadable(args.source, args.target)
    check_parallel([args.source, args.target])
    totals = Totals()
    try:
        with contextlib.nullcontext(sys.stdout.buffer) if args.output is None else open_output(args.output) as out:
            models, task = load_models(
                utils.split_paths(args.path), args.data, args.source_lang, args.target_lang, args.cpu
            )
            scores = score_pairs(models, task, read_pairs(args.source, args.target), args.batch_size, args.max_tokens)
            WRITERS[args.format](totals.watch(scores, task.source_dictionary.unk_word), out)
            out.flush()
    except BrokenPipeError:
        # Whoever read this has seen enough (head); at exit, Python would try again to print the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    print(totals.summary(), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
