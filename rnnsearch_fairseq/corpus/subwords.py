"""Learn subwords from text: byte-pair merges by subword-nmt, or sentencepieces."""

import functools
import io
import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import sentencepiece
import tqdm
from subword_nmt import learn_bpe

from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.text.lines import read_lines

LEARN_FROM = 2_000_000  # random lines that sentencepiece keeps in memory and learns from


def learn_codes(texts: Sequence[Path], merges: int) -> str:
    """Learn byte-pair merges from all of ``texts`` together: the text of subword-nmt's file."""
    codes = io.StringIO()
    learn_bpe.tqdm = functools.partial(tqdm.tqdm, disable=None)  # no bar where nobody watches
    learn_bpe.learn_bpe(chain.from_iterable(map(read_lines, texts)), codes, merges)
    return codes.getvalue()


def learn_pieces(texts: Sequence[Path], pieces: int, whole: Sequence[str] = ()) -> bytes:
    """Learn at most ``pieces`` sentencepieces (unigram model) from all of ``texts``: the content of the model's file.

    Args:
        whole: symbols that are pieces of their own and never part of others.

    Raises:
        InputError: ``pieces`` are too few for the characters of the text.
    """
    model = io.BytesIO()
    sentencepiece.set_random_generator_seed(1)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line.rstrip("\n") for line in chain.from_iterable(map(read_lines, texts))),
            model_writer=model,
            vocab_size=pieces,
            hard_vocab_limit=False,
            user_defined_symbols=list(whole),
            input_sentence_size=LEARN_FROM,
            minloglevel=2,
        )
    except RuntimeError as error:
        fewest = re.search(r"required_chars\. \d+ vs (\d+)", str(error))
        cure = f"its characters need {int(fewest[1]):,}; give at least that" if fewest else in_short(error)
        raise InputError(f"--sentencepiece {pieces}: too few for the training text: {cure}") from error
    return model.getvalue()


def count_pieces(model: bytes) -> int:
    """The number of pieces of a model."""
    return sentencepiece.SentencePieceProcessor(model_proto=model).get_piece_size()
