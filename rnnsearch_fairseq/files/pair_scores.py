"""The scores of sentence pairs, and the files that ``rnnsearch score`` writes of them."""

import contextlib
import json
import tempfile
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from torch import Tensor


@dataclass(frozen=True, eq=False)
class PairScore:
    """ln p(y|x) of a sentence pair. Words include end-of-sentence; S source words, T target words, P phrases.

    ``source`` and ``target`` are the words as the models see them: unknown ones are ``<unk>``. ``logprob`` is the sum
    of ``word_logprobs`` ``(T,)``. ``alignment`` ``(T, S)`` is None where no model has one. Of models that read trees,
    ``phrases`` are the spans of :meth:`~rnnsearch_fairseq.data.trees.Tree.spans`, none without a parse, and
    ``phrase_attention`` is ``(T, P)``; of others, both are None. Each row of the alignment, together with that of the
    phrases, sums to one. All tensors are on the CPU: ``word_logprobs`` in float64, the others as the models compute, in
    float32 at least.
    """

    source: list[str]
    target: list[str]
    logprob: float
    word_logprobs: Tensor
    alignment: Tensor | None
    phrases: list[tuple[int, int]] | None = None
    phrase_attention: Tensor | None = None


def write_text(scores: Iterable[PairScore], out: BinaryIO) -> None:
    """Write the format ``text`` of ``rnnsearch score``."""
    for score in scores:
        words = " ".join(f"{logprob:.6f}" for logprob in score.word_logprobs.tolist())
        out.write(f"{score.logprob:.6f}\t{len(score.target)}\t{words}\n".encode())


def write_jsonl(scores: Iterable[PairScore], out: BinaryIO) -> None:
    """Write the format ``jsonl`` of ``rnnsearch score``."""
    for number, score in enumerate(scores):
        record = {
            "id": number,
            "source": score.source,
            "target": score.target,
            "logprob": round(score.logprob, 6),
            "word_logprobs": _rounded(score.word_logprobs),
            "alignment": None if score.alignment is None else _rounded(score.alignment),
        }
        if score.phrases is not None:
            record |= {"phrases": score.phrases, "phrase_attention": _rounded(score.phrase_attention)}
        out.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")


def write_npz(scores: Iterable[PairScore], out: BinaryIO) -> None:
    """Write the format ``npz`` of ``rnnsearch score``; ``out`` is a named file.

    What grows with the words waits in unnamed files beside it, not in memory.
    """
    logprobs, source_lengths, target_lengths = array("d"), array("q"), array("q")
    parsed = False
    with contextlib.ExitStack() as stack:
        words, weights, phrases, phrase_weights = (
            _Stretches(stack.enter_context(tempfile.TemporaryFile(dir=Path(out.name).parent)), dtype)
            for dtype in (np.float32, np.float32, np.int64, np.float32)
        )
        for score in scores:
            logprobs.append(score.logprob)
            source_lengths.append(len(score.source))
            target_lengths.append(len(score.target))
            words.append(score.word_logprobs.numpy())
            weights.append(() if score.alignment is None else score.alignment.flatten().numpy())
            if score.phrases is not None:
                parsed = True
                phrases.append(score.phrases)
                phrase_weights.append(score.phrase_attention.flatten().numpy())
        arrays = {
            "logprob": np.array(logprobs),
            "source_lengths": np.array(source_lengths),
            "target_lengths": np.array(target_lengths),
            "word_logprobs": words.numbers(),
            "word_offsets": words.offsets(),
            "alignments": weights.numbers(),
            "alignment_offsets": weights.offsets(),
        }
        if parsed:
            arrays |= {
                "phrases": phrases.numbers().reshape(-1, 2),
                "phrase_offsets": phrases.offsets(),
                "phrase_attentions": phrase_weights.numbers(),
                "phrase_attention_offsets": phrase_weights.offsets(),
            }
        np.savez(out, **arrays)


def _rounded(tensor: Tensor) -> list[Any]:
    return np.round(tensor.double().numpy(), 6).tolist()


class _Stretches:
    """Consecutive stretches of rows of numbers, kept in a file."""

    def __init__(self, file: BinaryIO, dtype: type) -> None:
        self._file = file
        self._dtype = dtype
        self._lengths = array("q")

    def append(self, rows: np.ndarray | Sequence[Any]) -> None:
        self._lengths.append(len(rows))
        self._file.write(np.asarray(rows, dtype=self._dtype).tobytes())

    def numbers(self) -> np.ndarray:
        """All of them, one after the other."""
        self._file.flush()
        # An empty file cannot be mapped.
        return np.memmap(self._file, dtype=self._dtype, mode="r") if self._file.tell() else np.zeros(0, self._dtype)

    def offsets(self) -> np.ndarray:
        """The row at which each stretch begins, and the last ends: ``(stretches + 1,)``."""
        return np.concatenate([[0], np.cumsum(self._lengths, dtype=np.int64)])


WRITERS: dict[str, Callable[[Iterable[PairScore], BinaryIO], None]] = {
    "text": write_text,
    "jsonl": write_jsonl,
    "npz": write_npz,
}
