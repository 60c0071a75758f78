"""Translate, score and align text from Python, without fairseq.

A model is loaded from a folder that ``rnnsearch export`` wrote, from the folder of a training, or from a checkpoint.
Text is plain text, and is split into words as the training text was; a list of sentences is computed in batches. The
model in ``folder`` here has memorised five sentences:

>>> import rnnsearch_fairseq
>>> model = rnnsearch_fairseq.load(folder)
>>> model.translate(["The dog sleeps.", "The black cat eats."])
['le chien dort.', 'le chat noir mange.']

``score`` gives ln p(y|x), end-of-sentence included; ``align`` gives a weight for each pair of a target word and a
source word, of a given translation or of the model's own:

>>> right, wrong = model.score(["the dog sleeps ."] * 2, ["le chien dort .", "le chat noir mange ."])
>>> right > wrong
True
>>> alignment = model.align("the black cat eats .")
>>> alignment.target
['le', 'chat', 'noir', 'mange', '.', '</s>']
>>> alignment.weights.shape  # target words, source words
torch.Size([6, 6])
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rnnsearch_fairseq.errors import InputError, quote
from rnnsearch_fairseq.inference.aligned_pairs import AlignedPair, join_pairs
from rnnsearch_fairseq.inference.loading import Member, load_members
from rnnsearch_fairseq.inference.scoring import batches, pad_sources, reads_trees, score_batch
from rnnsearch_fairseq.modules.forest import Tree
from rnnsearch_fairseq.modules.symbols import EOS, UNK
from rnnsearch_fairseq.modules.tree_lstm import Forest
from rnnsearch_fairseq.search import OnStep, SearchModel, SearchOptions, make_search, search_model
from rnnsearch_fairseq.text.codec import TextCodec, make_codecs
from rnnsearch_fairseq.text.lines import LINE_ENDS
from rnnsearch_fairseq.text.markup import LETTER, MARK, SYMBOLS, find_spans, known_characters, mask, unmask
from rnnsearch_fairseq.text.sentences import combine, cut_sentences
from rnnsearch_fairseq.text.trees import NoParse, first_difference, parse_transitions, read_penn
from rnnsearch_fairseq.text.words import END

logger = logging.getLogger(__name__)

BLANK_LINE_ENDS = str.maketrans(dict.fromkeys(LINE_ENDS, " "))
MAX_CHARACTERS = 10_000  # in a sentence
MAX_SENTENCE_WORDS = 1_023
Texts = Sequence[str] | str
Trees = Sequence[str | None] | str | None


class Source(NamedTuple):
    """A sentence to translate.

    ``words`` are the model's, and ``ids`` ``(S,)`` theirs, with end-of-sentence; ``tree`` is the parse or None.
    ``spans`` are the spans of markup for which symbols stand in the words. A sentence without a letter is its own
    translation, ``copy``; that of one without words is empty. The words of a ``prepared`` sentence were given, and its
    translation is words with blanks between. The ``parts`` of a long text are its sentences, translated one by one.
    One in capitals is read in lower case, and its translation written in capitals, if its words then have fewer pieces.
    The words leave out the ``mark`` of a list's item; the translation begins with it.
    """

    words: list[str]
    ids: Tensor
    tree: Tree | None
    spans: Sequence[str] = ()
    copy: str | None = None
    prepared: bool = False
    parts: Sequence["Source"] = ()
    in_capitals: bool = False
    mark: str = ""

    @property
    def units(self) -> Sequence["Source"]:
        """What is translated at a time: the parts or, where there are none, the whole."""
        return self.parts or [self]


def load(path: str | Path, device: str | torch.device = "cpu", **options: Any) -> "Translator":
    """Load a model or an ensemble.

    Args:
        path: a folder that ``rnnsearch export`` wrote; a checkpoint, or the folder of a training, whose best checkpoint
            is taken; or several of these with colons between: an ensemble. Checkpoints are read by ``torch.load``: load
            those of your own trainings only.
        device: "cpu", "cuda", or "auto": a GPU if there is one.
        options: fields of :class:`~rnnsearch_fairseq.search.SearchOptions` that become the translator's defaults, in
            place of those that the folder recommends.

    Raises:
        InputError: a file is missing or damaged, files do not match, there is no such device, or an option is unknown
            or unfit.
    """
    return Translator(load_members(path), device, **options)


class Translator:
    """A model or an ensemble with its vocabularies, for plain text.

    A word that the model knows only in lower case is read in lower case. A sentence without a letter, such as a number
    or an address, is not translated but copied. All sentences are checked before any is computed; errors name them by
    number, from 1.

    Attributes:
        languages: the codes of the source and target language.
        options: how translations are searched by default.
        dictionary: with it, a search replaces each unknown word by the translation of the source word with the greatest
            weight or, if it has none, by that word; None, the default: unknown words stay.
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
        self.source_codec, self.target_codec = make_codecs(text.preparations, text.languages, text.vocabularies)
        self.known_characters = known_characters(self.source_vocabulary.symbols)
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            self.networks = [member.network.to(device) for member in members]
        except (RuntimeError, AssertionError) as error:
            raise InputError(f"the device {device} cannot be used ({str(error).splitlines()[0]}); give cpu") from error
        self.device = torch.device(device)
        self.reads_trees = any(map(reads_trees, self.networks))
        self.has_attention = any(getattr(member.config, "context", "attention") != "last" for member in members)
        self.dictionary: dict[str, str] | None = None
        self._model: SearchModel | None = None
        self._warned_of_trees = False

    def __repr__(self) -> str:
        sizes = (sum(map(Tensor.numel, network.parameters())) for network in self.networks)
        networks = " and ".join(f"{type(one).__name__}, {n:,} parameters" for one, n in zip(self.networks, sizes))
        return f"<Translator from {' to '.join(self.languages)}: {networks}>"

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
        """Return up to ``nbest`` translations of each sentence, best first; see :meth:`translate`."""
        if isinstance(sentences, str):
            return self.translations([sentences], nbest, [trees], **options)[0]
        if nbest < 1:
            raise InputError(f"nbest is {nbest}; give at least 1")
        return self.search(self._read_sources(sentences, trees), replace(self.options, **options), nbest)

    def score(self, sources: Texts, targets: Texts, trees: Trees = None) -> list[float] | float:
        """Return ln p(y|x) of each translation in ``targets``, end-of-sentence included, not divided by length."""
        if isinstance(sources, str):
            return self.score([sources], [targets], [trees])[0]
        return [pair.score for pair in self.align_words(self._read_pairs(sources, targets, trees))]

    def align(
        self, sources: Texts, targets: Texts | None = None, trees: Trees = None
    ) -> list[AlignedPair] | AlignedPair:
        """Align each sentence with its translation in ``targets``; default: with the one that :meth:`translate` finds.

        Raises:
            InputError: the model has no attention, or a sentence or its parse cannot be read.
        """
        if not self.has_attention:
            raise InputError("the model has no alignment (RNNencdec, --context last); load one of RNNsearch")
        if isinstance(sources, str):
            return self.align([sources], None if targets is None else [targets], [trees])[0]
        if targets is None:
            return [best for best, *_ in self.search(self._read_sources(sources, trees))]
        return self.align_words(self._read_pairs(sources, targets, trees))

    def read_source(
        self, sentence: str, parse: str | None = None, where: str = "the sentence", prepared: bool = False
    ) -> Source:
        """Split a sentence into words, and read its parse: Penn brackets, transitions, or none.

        Args:
            where: the sentence's name in messages.
            prepared: the sentence is words with blanks between, prepared like the training text. It is translated even
                if it has no letter.

        Raises:
            InputError: the sentence is too long, or the parse has other words.
        """
        if len(sentence) > MAX_CHARACTERS:
            most = f"at most {MAX_CHARACTERS:,} are read"
            raise InputError(f"{where} has {len(sentence):,} characters, and {most}; split it")
        sentence = sentence.translate(BLANK_LINE_ENDS)
        has_markup = self.source_codec.preparation.markup
        mark = MARK.match(sentence)[0] if has_markup and not prepared else ""
        text = sentence[len(mark) :]
        spans = [] if prepared else find_spans(text, self.known_characters)
        masked = mask(text, spans, self.known_characters)
        copy = None if prepared or LETTER.search(masked) else sentence.rstrip()
        if not has_markup:
            spans, masked = [], text
        words = self._split(self.source_codec, masked, where, prepared)
        lower = words if prepared or not masked.isupper() else self.source_codec.encode(masked.capitalize())
        if in_capitals := len(lower) < len(words):
            words = lower
        if not words:
            copy = ""
        tree = self._read_parse(parse, words, where)
        texts = [] if prepared or copy is not None or tree is not None else cut_sentences(sentence)
        parts = [self.read_source(text, None, where) for text in texts] if len(texts) > 1 else []
        ids = self.source_vocabulary.encode(words)
        return Source(words, ids, tree, spans, copy, prepared, parts, in_capitals, mark)

    def read_target(self, sentence: str, source: Source, where: str = "the translation") -> list[str]:
        """Split a translation of ``source`` into words, as :meth:`read_source` did with the source."""
        masked = mask(sentence.removeprefix(source.mark), source.spans, self.known_characters)
        if source.in_capitals and masked.isupper():
            masked = masked.capitalize()
        return self._split(self.target_codec, masked, where, source.prepared)

    def search(
        self,
        sources: Sequence[Source],
        options: SearchOptions | None = None,
        nbest: int = 1,
        on_step: OnStep | None = None,
    ) -> list[list[AlignedPair]]:
        """Return up to ``nbest`` translations of each source, best first.

        Args:
            options: default: the translator's.
            on_step: called after each step of a batch, with the best unfinished target ids of each source in it that
                has no parts, by position in ``sources``. An exception that it raises ends the search.
        """
        owned = [(number, unit) for number, source in enumerate(sources) for unit in source.units]
        whole = {place: number for place, (number, _) in enumerate(owned) if not sources[number].parts}
        step = on_step and (lambda best: on_step({whole[place]: best[place] for place in best if place in whole}))
        found = iter(self._search([unit for _, unit in owned], options, nbest, step))
        several = ([next(found) for _ in source.units] for source in sources)
        return [[*map(join_pairs, combine(translations))] for translations in several]

    def _search(
        self, sources: Sequence[Source], options: SearchOptions | None, nbest: int, on_step: OnStep | None
    ) -> list[list[AlignedPair]]:
        search = make_search(self.options if options is None else options)
        if self._model is None:
            self._model = search_model([(network.encoder, network.decoder) for network in self.networks])
        self._warn_of_missing_trees(sources)
        results = {number: [self._copy(source)] for number, source in enumerate(sources) if source.copy is not None}
        searched = [number for number in range(len(sources)) if number not in results]
        for places in batches([len(sources[number].ids) for number in searched]):
            batch = [searched[place] for place in places]
            step = on_step and (lambda best, batch=batch: on_step({batch[place]: best[place] for place in best}))
            words, forest = self._pad([sources[number] for number in batch])
            for number, hypotheses in zip(batch, search.search(self._model, words, forest, step)):
                source, results[number] = sources[number], []
                # Those that lose none of the markup come first.
                symbols = {*self.target_vocabulary.encode(SYMBOLS[: len(source.spans)]).tolist()}
                ranked = sorted(hypotheses, key=lambda hypothesis: len(symbols.difference(hypothesis.words)))
                for best in ranked[:nbest]:
                    target, columns = self.target_vocabulary.words(best.words), words.size(1)
                    pair = self._pair(source, target, best.words, best.logprobs, best.weights, columns)
                    self._replace_unknown(pair)
                    pair.score, pair.text = best.score, self.decode(pair.words, source)
                    results[number].append(pair)
        return [results[number] for number in range(len(sources))]

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
                pair = self._pair(source, [*target, END], ids, logprobs[row, : len(ids)], weights, words.size(1))
                pair.score = pair.logprobs.sum().item()
                results[number] = pair
        return [results[number] for number in range(len(pairs))]

    def _pad(self, sources: Sequence[Source]) -> tuple[Tensor, Forest | None]:
        trees = [source.tree for source in sources] if self.reads_trees else None
        return pad_sources([source.ids for source in sources], trees, self.device)

    def decode(self, words: Sequence[str], source: Source) -> str:
        """The text of the words of a translation of ``source``."""
        if source.prepared:
            return " ".join(words)
        text = self.target_codec.decode(words)
        return source.mark + unmask(text.upper() if source.in_capitals else text, source.spans)

    def _replace_unknown(self, pair: AlignedPair) -> None:
        """Replace unknown target words, if there is a dictionary; they stay marked as unknown."""
        for place, is_unknown in enumerate(pair.target_unknown):
            if is_unknown and self.dictionary is not None:
                word = pair.source[pair.weights[place, :-1].argmax()]
                pair.target[place] = self.dictionary.get(word, word)

    def _pair(
        self,
        source: Source,
        target: list[str],
        ids: Sequence[int],
        logprobs: Tensor,
        attention: Tensor | None,
        columns: int,
    ) -> AlignedPair:
        """Pair a source with T target words, their ``ids`` and ``logprobs``.

        ``attention`` ``(T, columns + most phrases)`` is that of the source's row in a batch of ``columns`` columns.
        """
        phrases = [] if source.tree is None else source.tree.spans()
        weights = phrase_weights = None
        if self.has_attention:
            if attention is None:  # the search failed
                attention = torch.zeros(len(ids), columns + len(phrases))
            weights, phrase_weights = attention[:, : len(source.ids)], attention[:, columns : columns + len(phrases)]
        unknown = ([number == UNK for number in numbers] for numbers in (source.ids.tolist(), ids))
        pair = AlignedPair([*source.words, END], target, *unknown, logprobs=logprobs, weights=weights)
        if self.reads_trees:
            pair.phrases, pair.phrase_weights = phrases, phrase_weights
        return pair

    def _copy(self, source: Source) -> AlignedPair:
        """A sentence as its own translation, each word aligned with itself."""
        size, phrases = len(source.ids), 0 if source.tree is None else source.tree.leaves - 1
        ids = [EOS] * size  # no word is unknown where none is translated
        pair = self._pair(source, [*source.words, END], ids, torch.zeros(size), torch.eye(size, size + phrases), size)
        pair.score, pair.text = 0.0, source.copy
        return pair

    def _warn_of_missing_trees(self, sources: Sequence[Source]) -> None:
        trees = [source.tree for source in sources if source.copy is None]
        if self.reads_trees and trees and not any(trees) and not self._warned_of_trees:
            self._warned_of_trees = True
            logger.warning(
                "the model reads trees, and no sentence has one: give the parses of the sentences (trees, --trees), "
                "since the model was trained with them"
            )

    def _read_sources(self, sentences: Texts, trees: Trees) -> list[Source]:
        numbered = enumerate(zip(sentences, [None] * len(sentences) if trees is None else trees, strict=True), 1)
        return [self.read_source(sentence, tree, f"sentence {number}") for number, (sentence, tree) in numbered]

    def _read_pairs(self, sources: Texts, targets: Texts, trees: Trees) -> list[tuple[Source, list[str]]]:
        numbered = enumerate(zip(targets, self._read_sources(sources, trees), strict=True), 1)
        return [(source, self.read_target(target, source, f"target {number}")) for number, (target, source) in numbered]

    def _split(self, codec: TextCodec, text: str, where: str, prepared: bool) -> list[str]:
        words = text.split() if prepared else codec.encode(text)
        if len(words) > MAX_SENTENCE_WORDS:
            raise InputError(f"{where} has {len(words):,} words, and at most {MAX_SENTENCE_WORDS:,} are read; split it")
        return words

    def _read_parse(self, parse: str | None, words: list[str], where: str) -> Tree | None:
        if parse is None or parse.strip() in ("", "-"):
            return None
        if not self.reads_trees:
            raise InputError(f"{where}: the model reads no trees; leave the parse out")
        if not parse.lstrip().startswith("("):
            tree = parse_transitions(parse, f"the parse of {where}")
            if tree.leaves > len(words):
                raise InputError(f"{where}: its parse has {tree.leaves} leaves, but it has {len(words)} words")
            return tree
        read = read_penn(parse)
        if read is NoParse.EMPTY:
            return None
        if isinstance(read, NoParse):
            raise InputError(f"the parse of {where} is not one tree in brackets; give one like (S (NP he) (VP slept))")
        difference = first_difference(read.words, words, lowercase=self.source_codec.preparation.lowercase)
        if difference is not None:
            raise InputError(
                f"{where}: {difference}; parse the words that the model reads: {quote(repr(' '.join(words)))}"
            )
        return read.tree
