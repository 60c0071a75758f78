"""Translate, score and align text from Python, without fairseq.

A model is loaded from a folder that ``rnnsearch export`` wrote, from the folder of a training, or from a checkpoint.
Text is plain text, and is split into words as the training text was; a list of sentences is computed in batches. The
model in ``folder`` here has memorised five sentences:

>>> import rnnsearch_fairseq
>>> model = rnnsearch_fairseq.load(folder)
>>> model.translate(["The dog sleeps.", "The black cat eats."])
['le chien dort.', 'le chat noir mange.']

``score`` gives ln p(y|x), end-of-sentence included:

>>> right, wrong = model.score(["the dog sleeps ."] * 2, ["le chien dort .", "le chat noir mange ."])
>>> -0.5 < right < 0 and wrong < right - 5
True

``align`` gives a weight for each pair of a target word and a source word, of a given translation or of the model's own:

>>> alignment = model.align("the black cat eats .")
>>> alignment.target
['le', 'chat', 'noir', 'mange', '.', '</s>']
>>> alignment.weights.shape  # target words, source words
torch.Size([6, 6])
>>> alignment = model.align("the green cat eats .", "le chat vert mange .")
>>> [word for word, unknown in zip(alignment.source, alignment.source_unknown) if unknown]
['green']
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.loading import Member, load_members
from rnnsearch_fairseq.inference.scoring import Pair, batches, reads_trees, score_pairs, source_batch
from rnnsearch_fairseq.modules.symbols import EOS, UNK
from rnnsearch_fairseq.search import Ensemble, Hypothesis, OnStep, SearchModel, SearchOptions, make_search, search_model
from rnnsearch_fairseq.text.codec import make_codecs
from rnnsearch_fairseq.text.markup import find_spans, known_characters, mask, unmask
from rnnsearch_fairseq.text.trees import NoParse, Tree, first_difference, parse_transitions, read_penn, shown

MOST_CHARACTERS = 10_000  # in a sentence
MOST_WORDS = 1_023  # in a sentence
PARSE_FACTOR = 20  # a parse may have this many times the characters of a sentence


class Source(NamedTuple):
    """A sentence to translate: its words, their ids with end-of-sentence ``(S,)``, and its tree, if it has one.

    ``spans`` are the spans of markup for which symbols stand in the words.
    """

    words: list[str]
    ids: Tensor
    tree: Tree | None
    spans: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Alignment:
    """The alignment of a sentence with a translation: S source words, T target words, P phrases; tensors on the CPU.

    Attributes:
        source, target: the words as the model splits them, end-of-sentence included.
        source_unknown, target_unknown: whether each word is unknown to the model.
        logprobs: ``(T,)``, ln p of each target word, float64.
        weights: ``(T, S)``, the attention to words; None if the model has no attention.
        phrases: of models that read trees, the first word of each phrase and the word after its last one, empty without
            a parse; None for other models.
        phrase_weights: ``(T, P)``, the attention to phrases, or None like ``phrases``. Row t of ``weights`` and row t
            of this sum to one.
    """

    source: list[str]
    target: list[str]
    source_unknown: list[bool]
    target_unknown: list[bool]
    logprobs: Tensor
    weights: Tensor | None
    phrases: list[tuple[int, int]] | None
    phrase_weights: Tensor | None


@dataclass(frozen=True, eq=False)
class Translation:
    """A translation.

    ``score`` is the search's ranking score (in fairseq's search, the mean ln p of the words, or their sum if
    ``unnormalized``); it is minus infinity if the search failed. ``words`` are target words without end-of-sentence.
    """

    text: str
    score: float
    words: list[str]


def load(path: str | Path, device: str | torch.device = "cpu", **options: Any) -> "Translator":
    """Load a model or an ensemble.

    Args:
        path: a folder that ``rnnsearch export`` wrote; a checkpoint, or the folder of a training, whose best checkpoint
            is taken; or several of these with colons between: an ensemble.
        device: "cuda" for a GPU.
        options: fields of :class:`~rnnsearch_fairseq.search.SearchOptions` that become the translator's defaults.

    Raises:
        InputError: a file is missing, damaged or hostile, files do not match, there is no such device, or an option is
            unknown or unfit.
    """
    return Translator(load_members(path), device, **options)


class Translator:
    """A model or an ensemble with its vocabularies, for plain text.

    A word that the model knows only in lower case is read in lower case. The translation of a sentence without words is
    empty. All sentences are checked before any is computed; errors name them by number, from 1.
    """

    def __init__(self, members: Sequence[Member], device: str | torch.device = "cpu", **options: Any) -> None:
        self.options = _with(SearchOptions(), options)
        text = members[0].text
        self.languages, (self.source_vocabulary, self.target_vocabulary) = text.languages, text.vocabularies
        self.source_codec, self.target_codec = make_codecs(text.preparations, text.languages, text.vocabularies)
        self.known_characters = known_characters(self.source_vocabulary.symbols)
        try:
            self.networks = [member.network.to(device) for member in members]
        except (RuntimeError, AssertionError) as error:
            raise InputError(f"the device {device} cannot be used ({str(error).splitlines()[0]}); give cpu") from error
        self.device = torch.device(device)
        self.reads_trees = any(map(reads_trees, self.networks))
        self.has_attention = any(getattr(member.config, "context", "attention") != "last" for member in members)
        self._model: SearchModel | None = None

    # Sentences

    def translate(
        self, sentences: Sequence[str] | str, trees: Sequence[str | None] | str | None = None, **options: Any
    ) -> list[str] | str:
        """Return the best translation of each sentence, or of a single one, as text.

        Args:
            trees: for models that read trees, the parse of each sentence, in Penn brackets or as transitions; None or
                "" for a sentence without one.
            options: as in :func:`load`.

        Raises:
            InputError: a sentence or its parse cannot be read, or an option is unknown or unfit.
        """
        if isinstance(sentences, str):
            return self.translate([sentences], _alone(trees), **options)[0]
        return [best.text for best, *_ in self.translations(sentences, 1, trees, **options)]

    def translations(
        self,
        sentences: Sequence[str] | str,
        nbest: int = 5,
        trees: Sequence[str | None] | str | None = None,
        **options: Any,
    ) -> list[list[Translation]] | list[Translation]:
        """Return up to ``nbest`` translations of each sentence, best first; see :meth:`translate`."""
        if isinstance(sentences, str):
            return self.translations([sentences], nbest, _alone(trees), **options)[0]
        return self.search(self.read_sources(sentences, trees), _with(self.options, options), nbest)

    def score(
        self,
        sources: Sequence[str] | str,
        targets: Sequence[str] | str,
        trees: Sequence[str | None] | str | None = None,
    ) -> list[float] | float:
        """Return ln p(y|x) of each translation in ``targets``, end-of-sentence included, not divided by length.

        Raises:
            InputError: a sentence or its parse cannot be read, or there are not as many targets as sources.
        """
        if isinstance(sources, str):
            return self.score([sources], _alone(targets), _alone(trees))[0]
        alignments = self.align_words(self._read_pairs(sources, targets, trees))
        return [alignment.logprobs.sum().item() for alignment in alignments]

    def align(
        self,
        sources: Sequence[str] | str,
        targets: Sequence[str] | str | None = None,
        trees: Sequence[str | None] | str | None = None,
    ) -> list[Alignment] | Alignment:
        """Align each sentence with its translation in ``targets``; default: with the one that :meth:`translate` finds.

        Raises:
            InputError: the model has no attention; a sentence or its parse cannot be read, or there are not as many
                targets as sources.
        """
        if not self.has_attention:
            raise InputError("the model has no alignment (RNNencdec, --context last); load one of RNNsearch")
        if isinstance(sources, str):
            return self.align([sources], _alone(targets), _alone(trees))[0]
        if targets is None:
            read = self.read_sources(sources, trees)
            pairs = [(source, best.words) for source, (best, *_) in zip(read, self.search(read))]
        else:
            pairs = self._read_pairs(sources, targets, trees)
        return self.align_words(pairs)

    # Steps of the methods above

    def read_sources(self, sentences: Sequence[str], trees: Sequence[str | None] | None = None) -> list[Source]:
        """Call :meth:`read_source` for each sentence."""
        trees = [None] * len(_listed(sentences)) if trees is None else trees
        if len(trees) != len(sentences):
            raise InputError(f"there are {len(sentences):,} sentences and {len(trees):,} trees; give one for each")
        numbered = enumerate(zip(sentences, trees), 1)
        return [self.read_source(sentence, tree, f"sentence {number}") for number, (sentence, tree) in numbered]

    def read_source(
        self, sentence: str, parse: str | None = None, where: str = "the sentence", prepared: bool = False
    ) -> Source:
        """Split a sentence into words, and read its parse: Penn brackets, transitions, or none.

        Args:
            where: the sentence's name in messages.
            prepared: the sentence is words with blanks between, prepared like the training text.

        Raises:
            InputError: the sentence is not Unicode text or is too long, or the parse has other words.
        """
        _check_text(sentence, where)
        has_markup = self.source_codec.preparation.markup and not prepared
        spans = find_spans(sentence, self.known_characters) if has_markup else []
        words = self._split(self.source_codec, mask(sentence, spans, self.known_characters), where, prepared)
        ids = self.source_vocabulary.encode(words)
        return Source(words, ids, self._read_parse(parse, words, where), spans)

    def read_target(
        self, sentence: str, source: Source, where: str = "the translation", prepared: bool = False
    ) -> list[str]:
        """Split a translation of ``source`` into words, as :meth:`read_source`."""
        _check_text(sentence, where)
        return self._split(self.target_codec, mask(sentence, source.spans, self.known_characters), where, prepared)

    def search(
        self,
        sources: Sequence[Source],
        options: SearchOptions | None = None,
        nbest: int = 1,
        on_step: OnStep | None = None,
    ) -> list[list[Translation]]:
        """Return up to ``nbest`` translations of each source, best first.

        Args:
            options: default: the translator's.
            on_step: called after each step of a batch, with the best unfinished target ids of each source in it, by
                position in ``sources``. An exception that it raises ends the search.
        """
        search = make_search(self.options if options is None else options)
        if self._model is None:
            members = [search_model(network.encoder, network.decoder) for network in self.networks]
            self._model = members[0] if len(members) == 1 else Ensemble(members)
        results: dict[int, list[Translation]] = {}
        for batch in batches([len(source.ids) for source in sources]):
            step = on_step and (lambda best, batch=batch: on_step({batch[place]: best[place] for place in best}))
            chosen = [(sources[number].ids, sources[number].tree) for number in batch]
            with torch.inference_mode():
                hypotheses = search.search(self._model, source_batch(chosen, self.reads_trees, self.device), step)
            for number, best in zip(batch, hypotheses):
                results[number] = [self._read(each, sources[number]) for each in best[:nbest]]
        return [results[number] for number in range(len(sources))]

    def align_words(self, pairs: Sequence[tuple[Source, Sequence[str]]]) -> list[Alignment]:
        """Align each source with the words of a translation, which are without end-of-sentence."""
        encoded = [
            Pair(source.ids, self.target_vocabulary.encode(words), source.tree if self.reads_trees else None)
            for source, words in pairs
        ]
        alignments = []
        for (source, words), pair, score in zip(pairs, encoded, score_pairs(self.networks, encoded)):
            weights, size = score.weights, len(pair.source)
            alignments.append(
                Alignment(
                    [*source.words, "</s>"],
                    [*words, "</s>"],
                    [number == UNK for number in pair.source.tolist()],
                    [number == UNK for number in pair.target.tolist()],
                    score.logprobs,
                    None if weights is None else weights[:, :size],
                    ([] if pair.tree is None else pair.tree.spans()) if self.reads_trees else None,
                    weights[:, size:] if self.reads_trees else None,
                )
            )
        return alignments

    def decode(self, words: Sequence[str], source: Source) -> str:
        """The text of the words of a translation of ``source``."""
        return unmask(self.target_codec.decode(" ".join(words)), source.spans)

    def _read(self, hypothesis: Hypothesis, source: Source) -> Translation:
        words = self.target_vocabulary.words([number for number in hypothesis.words if number != EOS])
        return Translation(self.decode(words, source), hypothesis.score, words)

    def _read_pairs(
        self, sources: Sequence[str], targets: Sequence[str], trees: Sequence[str | None] | None
    ) -> list[tuple[Source, list[str]]]:
        read = self.read_sources(sources, trees)
        if len(_listed(targets)) != len(read):
            raise InputError(f"there are {len(read):,} sources and {len(targets):,} targets; give one for each")
        numbered = enumerate(zip(targets, read), 1)
        return [(source, self.read_target(target, source, f"target {number}")) for number, (target, source) in numbered]

    def _split(self, codec: Any, text: str, where: str, prepared: bool) -> list[str]:
        words = (text if prepared else codec.encode(text)).split()
        if len(words) > MOST_WORDS:
            raise InputError(f"{where} has {len(words):,} words, and the model reads at most {MOST_WORDS:,}; split it")
        return words

    def _read_parse(self, parse: str | None, words: list[str], where: str) -> Tree | None:
        if parse is None or (isinstance(parse, str) and parse.strip() in ("", "-")):
            return None
        if not self.reads_trees:
            raise InputError(f"{where}: the model reads no trees; leave the parse out")
        _check_text(parse, f"the parse of {where}", MOST_CHARACTERS * PARSE_FACTOR)
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
        position = first_difference(read.words, words, lowercase=self.source_codec.preparation.lowercase)
        if position is not None:
            leaf, word = (shown(side[position]) if position < len(side) else "missing" for side in (read.words, words))
            raise InputError(
                f"{where}: leaf {position + 1} of its parse is {leaf}, but word {position + 1} is {word}; "
                f"parse the words that the model reads: {shown(' '.join(words))}"
            )
        return read.tree


def _with(options: SearchOptions, changed: dict[str, Any]) -> SearchOptions:
    known = [field.name for field in fields(SearchOptions)]
    if unknown := changed.keys() - known:
        raise InputError(f"{min(unknown)!r} is no option of the search; choose among {', '.join(known)}")
    return replace(options, **changed)


def _alone(text: Any) -> Any:
    """What goes with a single sentence, as the list that goes with a list."""
    return None if text is None else [text]


def _listed(sentences: Sequence[str]) -> Sequence[str]:
    if isinstance(sentences, str) or not isinstance(sentences, Sequence):
        raise InputError(f"sentences are a {type(sentences).__name__}; give a list of strings")
    return sentences


def _check_text(text: str, where: str, most: int = MOST_CHARACTERS) -> None:
    if not isinstance(text, str):
        raise InputError(f"{where} is a {type(text).__name__}; give a string")
    if len(text) > most:
        raise InputError(f"{where} has {len(text):,} characters, and at most {most:,} are read; split it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{where}: character {error.start + 1} is half of a surrogate pair; delete it, or decode the text as it "
            "was encoded"
        ) from error
