"""Learn subwords from text: byte-pair merges by subword-nmt, or sentencepieces."""

import io
from collections.abc import Iterable, Sequence

import sentencepiece
from subword_nmt.learn_bpe import learn_bpe

from rnnsearch_fairseq.errors import InputError, in_short

MAX_LINES = 2_000_000  # random lines that sentencepiece keeps in memory and learns from


def learn_codes(lines: Iterable[str], merges: int) -> str:
    """Learn byte-pair merges from text of both languages: the text of subword-nmt's file."""
    codes = io.StringIO()
    learn_bpe(lines, codes, merges)
    return codes.getvalue()


def learn_pieces(lines: Iterable[str], pieces: int, symbols: Sequence[str] = ()) -> bytes:
    """Learn at most ``pieces`` sentencepieces (unigram model): the model's file. ``symbols`` are never split."""
    model = io.BytesIO()
    sentencepiece.set_random_generator_seed(1)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(line.rstrip("\n") for line in lines),
            model_writer=model,
            vocab_size=pieces,
            hard_vocab_limit=False,
            user_defined_symbols=list(symbols),
            input_sentence_size=MAX_LINES,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise InputError(f"--sentencepiece {pieces}: too few for the training text ({in_short(error)})") from error
    return model.getvalue()
