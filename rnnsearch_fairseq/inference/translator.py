"""Translate, score and align text from Python, without fairseq."""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.inference.aligned_pairs import NO_ALIGNMENT, AlignedPair, join_pairs
from rnnsearch_fairseq.inference.loading import Member, load_members
from rnnsearch_fairseq.inference.reading import PieceReader, Source, check_length, find_lost_names
from rnnsearch_fairseq.inference.scoring import batches, score_batch
from rnnsearch_fairseq.modules.forest import build_forest
from rnnsearch_fairseq.modules.symbols import PAD, UNK
from rnnsearch_fairseq.modules.tree_lstm import Forest
from rnnsearch_fairseq.search import MAX_BEAM, BeamSearch, Hypothesis, OnStep, SearchModel, SearchOptions, make_search
from rnnsearch_fairseq.text.codec import END, TextCodec
from rnnsearch_fairseq.text.markup import LETTER, known_characters, mask
from rnnsearch_fairseq.text.passage import Passage
from rnnsearch_fairseq.text.piece import NO_WORD, Piece, Reader
from rnnsearch_fairseq.text.preparation import WORD, Preparation
from rnnsearch_fairseq.text.sentences import combine
from rnnsearch_fairseq.text.trees import NO_PARSE, read_parse

logger = logging.getLogger(__name__)

MAX_CHARACTERS = 100_000  # in a text
WIDER = 2  # if a translation has a fault, the text is searched again with a beam this many times as wide
# A process that is forked lacks the threads that PyTorch has started, and would wait for them without end.
os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))
Texts = Sequence[str] | str
Trees = Sequence[str | None] | str | None


class Text(NamedTuple):
    """A text to translate, and the source of each of its pieces; a text without a piece is its own translation."""

    passage: Passage
    sources: list[Source]


def load(path: str | Path, device: str | torch.device = "cpu", **options: Any) -> "Translator":
    """Load a model or an ensemble.

    Args:
        path: a folder that ``rnnsearch export`` wrote; a checkpoint; the folder of a training, whose exported model is
            taken, or else its best checkpoint; or several of these with colons between: an ensemble. ``torch.load``
            reads checkpoints: load only checkpoints that you trained yourself.
        device: "cpu", "cuda", or "auto": a GPU if there is one.
        options: fields of :class:`~rnnsearch_fairseq.search.SearchOptions`: the translator's defaults, instead of those
            that the folder recommends.

    Raises:
        InputError: a file is missing or damaged, files do not match, there is no such device, or an option is unfit.
    """
    return Translator(load_members(path), device, **options)


def _zip_texts(trees: Any, **texts: Any) -> Iterator[tuple[Any, ...]]:
    """Zip lists of text, and then of trees (or None), into rows; an InputError names an argument that does not fit."""
    first, *_ = texts.values()
    for name, column in (texts if trees is None else {**texts, "trees": trees}).items():
        is_list = hasattr(column, "__len__") and not isinstance(column, (str, dict)) and len(column) == len(first)
        if not is_list or not all(isinstance(text, str) or (text, name) == (None, "trees") for text in column):
            raise InputError(f"{name} cannot be {quote(repr(column))}; give a text for a text, or a list as long")
    return zip(*texts.values(), [None] * len(first) if trees is None else trees)


def _without_symbols(pair: AlignedPair) -> str:
    """The text of a translation without symbols that stand for no span. The translation's faults name these symbols."""
    text = pair.text
    for fault in pair.faults:
        if fault.startswith(NO_WORD):
            text = text.replace(fault.removeprefix(NO_WORD), "").replace("  ", " ").strip()
    return text


class Translator:
    """A model or an ensemble with its vocabularies, for plain text.

    A text is cut into pieces, and markup is kept (:mod:`~rnnsearch_fairseq.text.passage`). A text without a letter,
    such as a number or an address, is not translated but copied. All texts are checked before any is computed; errors
    name them by number, from 1.

    Attributes:
        languages: the codes of the source and target language.
        reader: what is known of the model's text.
        options: how translations are searched by default.
        dictionary: translations of source words. A search replaces each unknown word with the translation of the source
            word that has the greatest weight, or with this source word if the dictionary lacks it. None (the default):
            unknown words stay.
        examples, description: sentences to try, and what the model was trained on and for, if its folder says so.
        reads_trees, has_attention: whether the model reads parses, and whether it aligns words.
    """

    def __init__(self, members: Sequence[Member], device: str | torch.device = "cpu", **options: Any) -> None:
        text, usage = members[0].text, members[0].usage
        # What is recommended for one search may have no meaning for another.
        recommended = usage.search if options.get("search") in (None, usage.search.get("search", "fairseq")) else {}
        self.options = SearchOptions(**{**recommended, **options})
        self.examples, self.description = usage.examples, usage.description
        self.languages, (self.source_vocabulary, self.target_vocabulary) = text.languages, text.vocabularies
        self._reads_words = text.preparations is None  # nothing is known of a text but its words
        if self._reads_words:
            logger.warning("the model does not say how its text was prepared: it is read as words separated by spaces")
        preparations = text.preparations or (Preparation(), Preparation())
        self.source_codec, self.target_codec = map(TextCodec, preparations, text.languages, text.vocabularies)
        preparations = self.source_codec.preparation, self.target_codec.preparation
        known, words = known_characters(self.source_vocabulary.symbols), tuple(p.known_words() for p in preparations)
        self.reader = Reader(text.languages, known, words, preparations[0].markup)
        self._piece_reader = PieceReader(self.source_codec, self.source_vocabulary, words[0])
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            self.device = torch.device(device)
            torch.zeros(1, device=self.device).item()  # fails on the device meta, too
            self.networks = [member.network.to(self.device) for member in members]
        except (RuntimeError, AssertionError, TypeError) as error:
            raise InputError(f"the device {device} cannot be used; give cpu, cuda or auto ({quote(error)})") from error
        self._members = members
        self._model = SearchModel([(network.encoder, network.decoder) for network in self.networks])
        self.reads_trees = any(getattr(network.encoder, "tree_lstm", None) is not None for network in self.networks)
        self.has_attention = any(getattr(member.config, "context", "attention") != "last" for member in members)
        self.dictionary: dict[str, str] | None = None
        self._warned_of_trees = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the model with its parameters, for other processes."""
        arguments = partial(Translator, self._members, self.device, **vars(self.options))
        return arguments, (), {"dictionary": self.dictionary, "reader": self.reader}

    def translate(self, sentences: Texts, trees: Trees = None, **options: Any) -> list[str] | str:
        """Return the best translation of each sentence, or of a single one, as text.

        Args:
            trees: for models that read trees, the parse of each sentence, in Penn brackets or as transitions; None or
                "" for a sentence without one.
            options: as in :func:`load`.

        Raises:
            InputError: a sentence or its parse cannot be read, or the value of an option is unfit.
        """
        if isinstance(sentences, str):
            return self.translate([sentences], [trees], **options)[0]
        return [best.text for best, *_ in self.translations(sentences, 1, trees, **options)]

    def translations(
        self, sentences: Texts, nbest: int = 5, trees: Trees = None, **options: Any
    ) -> list[list[AlignedPair]] | list[AlignedPair]:
        """Return up to ``nbest`` translations of each text, with the fewest faults first; see :meth:`translate`."""
        if isinstance(sentences, str):
            return self.translations([sentences], nbest, [trees], **options)[0]
        if not isinstance(nbest, int) or nbest < 1:
            raise InputError(f"nbest is {quote(repr(nbest))}; give a whole number of at least 1")
        rows = enumerate(_zip_texts(trees, sentences=sentences), 1)
        texts = [self.read_text(sentence, tree, f"sentence {number}") for number, (sentence, tree) in rows]
        return self.search(texts, replace(self.options, **options), nbest)

    def score(self, sources: Texts, targets: Texts, trees: Trees = None) -> list[float] | float:
        """Return ln p(y|x) of each translation in ``targets``, end-of-sentence included, not divided by length."""
        if isinstance(sources, str):
            return self.score([sources], [targets], [trees])[0]
        return [pair.score for pair in self._align(sources, targets, trees)]

    def align(
        self, sources: Texts, targets: Texts | None = None, trees: Trees = None
    ) -> list[AlignedPair] | AlignedPair:
        """Align each sentence with its translation in ``targets``; default: with the one that :meth:`translate` finds.

        Raises:
            InputError: the model has no attention, or a sentence or its parse cannot be read.
        """
        if not self.has_attention:
            raise InputError(NO_ALIGNMENT)
        if isinstance(sources, str):
            return self.align([sources], None if targets is None else [targets], [trees])[0]
        if targets is None:
            return [best for best, *_ in self.translations(sources, 1, trees)]
        return self._align(sources, targets, trees)

    def _align(self, sources: Texts, targets: Texts, trees: Trees) -> list[AlignedPair]:
        rows = _zip_texts(trees, sources=sources, targets=targets)
        return self.align_words([*self.read_pairs(rows, ("sentence", "target"))])

    def read_pairs(
        self, rows: Iterable[Sequence[Any]], names: Sequence[str], prepared: bool = False
    ) -> Iterator[tuple[Source, list[str]]]:
        """Yield each sentence and the words of its translation, which are in a row, perhaps with a parse.

        ``names`` of both sides stand before the number of the row in messages.
        """
        for number, (sentence, translation, *parse) in enumerate(rows, 1):
            where = [f"{name} {number}" for name in names]
            source = self.read_source(sentence, *parse, where=where[0], prepared=prepared)
            yield source, self.read_target(translation, source, where[1])

    def read_text(
        self, text: str, parse: str | None = None, where: str = "the text", prepared: bool = False, inline: bool = True
    ) -> Text:
        """Cut a text into pieces, as `Passage` does. A text that is ``prepared`` or has a parse stays whole."""
        if len(text) > MAX_CHARACTERS:
            raise InputError(f"{where} has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read; split it")
        parse = (parse or "").strip().removeprefix(NO_PARSE)
        passage = Passage(text, not (prepared or self._reads_words or parse), inline)
        return Text(passage, [self.read_source(piece, parse, where, prepared) for piece in passage.pieces])

    def read_source(
        self, sentence: str, parse: str | None = None, where: str = "the sentence", prepared: bool = False
    ) -> Source:
        """Split a sentence into words, and read its parse: Penn brackets, transitions, or none.

        ``where`` is the sentence's name in messages. A ``prepared`` one is words separated by spaces, as the training
        text. An InputError if the sentence is too long, or the parse has other words.
        """
        has_parse = (parse or "").strip() not in ("", NO_PARSE)
        if prepared or self._reads_words:
            words = check_length(sentence.split(), where)
            source = Source(words, self.source_vocabulary.encode(words))
        else:
            source = self._piece_reader.read(Piece(sentence, self.reader), where, has_parse)
        if not has_parse:
            return source
        if not self.reads_trees:
            raise InputError(f"{where}: the model reads no trees; leave the parse out")
        return source._replace(tree=read_parse(parse, source.words, where, self.source_codec.preparation.lowercase))

    def read_target(self, sentence: str, source: Source, where: str = "the translation") -> list[str]:
        """Split a translation of ``source`` into words, as :meth:`read_source` did with the source."""
        if source.piece is None:
            return check_length(sentence.split(), where)
        masked = mask(sentence, source.piece.spans, *self.reader.what_is_kept)
        if source.in_capitals and masked.isupper():
            masked = masked.capitalize()
        return check_length(self.target_codec.encode(masked), where)

    def search(
        self, texts: Sequence[Text], options: SearchOptions | None = None, nbest: int = 1, on_step: OnStep | None = None
    ) -> list[list[AlignedPair]]:
        """Return up to ``nbest`` translations of each text; see :meth:`translations`.

        Args:
            options: default: the translator's.
            on_step: called after each step of a batch. An exception that it raises ends the search.
        """
        sources = [source for text in texts for source in text.sources]
        options = options or self.options
        self._warn_of_missing_trees(sources)
        chosen = self._search_sources(options, sources, nbest, on_step)
        # Other readings of sources are searched with a wider beam, and the translations are chosen again.
        others = [self._piece_reader.read_otherwise(source, best) for source, (best, *_) in zip(sources, chosen)]
        every = [reading for _, readings in others for reading in readings]
        wider = replace(options, beam=min(WIDER * options.beam, MAX_BEAM))
        found = iter(self._search_sources(wider, every, nbest, on_step))
        for place, (word, readings) in enumerate(others):
            if readings:
                lists = [chosen[place], *islice(found, len(readings))]
                lists = lists[::-1] if chosen[place][0].lost_names else lists
                lists.sort(key=lambda pairs: word in WORD.findall(pairs[0].text))
                chosen[place] = self._choose(sources[place], chain.from_iterable(lists), nbest)
        following = iter(chosen)
        joined = [self._join(text, [next(following) for _ in text.sources]) for text in texts]
        again = [n for n, text in enumerate(texts) if text.passage.has_inline and joined[n][0].faults]
        if again:  # without the elements in the sentences around them
            apart = [self.read_text(texts[n].passage.text, inline=False) for n in again]
            for n, pairs in zip(again, self.search(apart, options, nbest, on_step)):
                whole = Piece(texts[n].passage.text, self.reader)
                lost = [len(whole.find_faults(best.text)[0]) for best, *_ in (joined[n], pairs)]
                if (lost[1], len(pairs[0].faults)) < (lost[0], len(joined[n][0].faults)):
                    joined[n] = pairs
        return joined

    def _search_sources(
        self, options: SearchOptions, sources: Sequence[Source], nbest: int, on_step: OnStep | None
    ) -> list[list[AlignedPair]]:
        search, chosen = make_search(options), dict[int, list[AlignedPair]]()
        # Translations are chosen after each batch, since the beams of all batches would take much more memory.
        for batch in batches([len(source.ids) * (1 if source.counted is None else 2) for source in sources]):
            chosen |= zip(batch, self._search_batch(search, [sources[place] for place in batch], nbest, on_step))
        return [chosen[place] for place in range(len(sources))]

    def _choose(self, source: Source, pairs: Iterable[AlignedPair], nbest: int) -> list[AlignedPair]:
        pairs = iter(pairs)
        first = next(pairs)
        ranked = source.piece.choose(chain([first], pairs), nbest)
        names = find_lost_names(first)
        return [replace(pair, faults=faults, lost_names=names) for pair, faults in ranked]

    def _search_batch(
        self, search: BeamSearch, sources: Sequence[Source], nbest: int, on_step: OnStep | None
    ) -> Iterator[list[AlignedPair]]:
        """Yield up to ``nbest`` translations of each source, those with numbers before those with placeholders."""
        together = [*sources, *(source.counted for source in sources if source.counted is not None)]
        words, forest = self._pad(together)
        hypotheses = search.search(self._model, words, forest, on_step)
        beams = [self._make_pairs(*beam, words.size(1)) for beam in zip(together, hypotheses)]
        with_numbers = iter(beams[len(sources) :])
        for source, beam in zip(sources, beams):
            if source.piece is None:
                yield [*islice(beam, nbest)]
                continue
            if not LETTER.search(source.piece.masked):  # a name alone
                yield [self._copy(source.piece.masked, source.piece.restore(source.piece.masked))]
                continue
            beam = beam if source.counted is None else chain(next(with_numbers), beam)
            yield self._choose(source, beam, nbest)

    def _join(self, text: Text, several: Sequence[Sequence[AlignedPair]]) -> list[AlignedPair]:
        """Join translations of pieces to translations of the text. If a piece has fewer, its last one is repeated."""
        if not several:
            pair = self._copy(text.passage.text, text.passage.text)
            pair.faults = ["is missing for its plural or select"] * text.passage.has_plural
            return [pair]
        joined = []
        for pairs in combine(several):
            pair = join_pairs(pairs)
            pair.text = text.passage.join([_without_symbols(pair) for pair in pairs])
            pair.faults = [*dict.fromkeys(text.passage.describe(fault) for pair in pairs for fault in pair.faults)]
            joined.append(pair)
        return joined

    def _make_pairs(self, source: Source, hypotheses: Sequence[Hypothesis], columns: int) -> Iterator[AlignedPair]:
        """Yield a pair for each translation that kept its numbers; often the caller takes only the first one."""
        for best in hypotheses:
            target = self.target_vocabulary.words(best.words)
            pair = self._pair(source, target, best.words, best.weights, columns)
            if self.dictionary is not None:  # the words stay marked as unknown
                for place in (place for place, is_unknown in enumerate(pair.target_unknown) if is_unknown):
                    word = pair.source[pair.blocks[0][place, :-1].argmax()]
                    pair.target[place] = self.dictionary.get(word, word)
            pair.score, pair.logprobs, pair.text = best.score, best.logprobs, self.decode(pair.words, source)
            if pair.text is not None:
                yield pair

    def align_words(self, pairs: Sequence[tuple[Source, Sequence[str]]]) -> list[AlignedPair]:
        """Align each source with the words of a given translation, which are without end-of-sentence."""
        self._warn_of_missing_trees([source for source, _ in pairs])
        targets = [self.target_vocabulary.encode(words) for _, words in pairs]
        results: dict[int, AlignedPair] = {}
        for batch in batches([max(len(source.ids), len(target)) for (source, _), target in zip(pairs, targets)]):
            words, forest = self._pad([pairs[number][0] for number in batch])
            logprobs, attention = score_batch(self.networks, words, forest, [targets[number] for number in batch])
            for row, number in enumerate(batch):
                (source, target), ids = pairs[number], targets[number].tolist()
                weights = None if attention is None else attention[row, : len(ids)]
                pair = self._pair(source, [*target, END], ids, weights, words.size(1))
                pair.logprobs = logprobs[row, : len(ids)]
                pair.score = pair.logprobs.sum().item()
                results[number] = pair
        return [results[number] for number in range(len(pairs))]

    def _pad(self, sources: Sequence[Source]) -> tuple[Tensor, Forest | None]:
        """The ids of sources, padded on the right, ``(batch, src_len)``, and their trees if the model reads any."""
        words = pad_sequence([source.ids for source in sources], batch_first=True, padding_value=PAD)
        forest = None
        if self.reads_trees:
            parts = build_forest([source.tree for source in sources], [0] * len(sources), words.size(1))
            forest = Forest(*(part.to(self.device) if isinstance(part, Tensor) else part for part in parts))
        return words.to(self.device), forest

    def decode(self, words: Sequence[str], source: Source) -> str | None:
        """The text of the words of a translation of ``source``; None if a number is lost."""
        if source.piece is None:
            return " ".join(words)
        return source.piece.restore(self.target_codec.decode(words), source.in_capitals, source.has_numbers)

    def _pair(
        self, source: Source, target: list[str], ids: Sequence[int], attention: Tensor | None, columns: int
    ) -> AlignedPair:
        """Pair a source with T target words and their ``ids``.

        ``attention`` ``(T, columns + most phrases)`` is that of the source's row in a batch of ``columns`` columns.
        """
        phrases = [] if source.tree is None else source.tree.spans()
        unknown = ([number == UNK for number in numbers] for numbers in (source.ids.tolist(), ids))
        pair = AlignedPair([*source.words, END], target, *unknown)
        if self.has_attention:
            if attention is None:  # the search failed
                attention = torch.zeros(len(ids), columns + len(phrases))
            pair.blocks = [attention[:, : len(source.ids)]]
        if self.reads_trees:
            pair.phrases, pair.phrase_weights = phrases, attention[:, columns : columns + len(phrases)]
        return pair

    def _copy(self, read: str, text: str) -> AlignedPair:
        """A text as its own translation, each word that is ``read`` aligned with itself."""
        words = [*self.source_codec.encode(read), END]
        known = [False] * len(words)  # no word is unknown where none is translated
        pair = AlignedPair(words, [*words], known, known, text, 0.0, torch.zeros(len(words)))
        if self.has_attention:
            pair.blocks = [torch.ones(1, 1)] * len(words)
        if self.reads_trees:
            pair.phrases, pair.phrase_weights = [], torch.zeros(len(words), 0)
        return pair

    def _warn_of_missing_trees(self, sources: Sequence[Source]) -> None:
        if self.reads_trees and sources and not self._warned_of_trees and all(one.tree is None for one in sources):
            self._warned_of_trees = True
            logger.warning("the model was trained with trees, and no sentence has a parse: give them (trees, --trees)")
