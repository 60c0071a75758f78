"""Translate, score and align text from Python.

A model is loaded from a folder that fairseq-train or a recipe wrote. Text is plain text, and is split into words as the
training text was; a list of sentences is computed in batches. The model in ``folder`` here has memorised five
sentences:

>>> from rnnsearch_fairseq.models.rnnsearch import RNNsearchModel
>>> model = RNNsearchModel.from_pretrained(folder)
>>> model.translate(["The dog sleeps.", "The black cat eats."])
['le chien dort.', 'le chat noir mange.']

``score`` gives ln p(y|x), end-of-sentence included:

>>> right, wrong = model.score(["the dog sleeps ."] * 2, ["le chien dort .", "le chat noir mange ."])
>>> -0.5 < right < 0 and wrong < right - 5
True

``align`` gives a weight for each pair of a target word and a source word, of given translations or of the model's own:

>>> (alignment,) = model.align(["the black cat eats ."])
>>> alignment.target
['le', 'chat', 'noir', 'mange', '.', '</s>']
>>> alignment.weights.shape  # target words, source words
torch.Size([6, 6])
>>> (alignment,) = model.align(["the green cat eats ."], ["le chat vert mange ."])
>>> [word for word, unknown in zip(alignment.source, alignment.source_unknown) if unknown]
['green']
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fairseq import utils
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.models import BaseFairseqModel
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationTask
from omegaconf import DictConfig
from torch import Tensor

from rnnsearch_fairseq.data.tree_pairs import encode_transitions
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.loading import find_checkpoints, load_models
from rnnsearch_fairseq.inference.scoring import BATCH_SIZE, MAX_TOKENS, group_by_size, score_pairs
from rnnsearch_fairseq.inference.text import TypedText, configure, find_preparation, options_of, set_generation
from rnnsearch_fairseq.models.rnnsearch import RNNsearchModel
from rnnsearch_fairseq.models.tree2seq import Tree2SeqModel
from rnnsearch_fairseq.search.interface import OnStep
from rnnsearch_fairseq.tasks.tree_translation import TreeTranslationTask
from rnnsearch_fairseq.text.trees import (
    NoParse,
    Tree,
    first_difference,
    format_transitions,
    parse_transitions,
    read_penn,
    shown,
)

MOST_CHARACTERS = 10_000  # in a sentence
PARSE_FACTOR = 20  # a parse may have this many times the characters of a sentence


class Source(NamedTuple):
    """A sentence to translate: its words, their ids with end-of-sentence ``(S,)``, and its tree, if it has one."""

    words: list[str]
    ids: Tensor
    tree: Tree | None


@dataclass(frozen=True, eq=False)
class Alignment:
    """The alignment of a sentence with a translation: S source words, T target words, P phrases; tensors on the CPU.

    Attributes:
        source, target: the words as the model splits them, end-of-sentence included.
        source_unknown, target_unknown: whether each word is unknown to the model; the model writes these as ``<unk>``.
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


def load(
    model_name_or_path: str | Path,
    checkpoint_file: str | None = None,
    data_name_or_path: str | Path | None = None,
    source_lang: str | None = None,
    target_lang: str | None = None,
    **options: Any,
) -> "TranslationHub":
    """Load one model or an ensemble, onto the CPU; the arguments are named as in fairseq's ``from_pretrained``.

    Args:
        model_name_or_path: local folder of the checkpoint.
        checkpoint_file: its name in the folder, or several with colons between; default: see `find_checkpoints`.
        data_name_or_path: folder of the dictionaries; if it begins with a dot, it is relative to the checkpoint's.
            Default: see `rnnsearch_fairseq.inference.loading.find_data`.
        source_lang, target_lang: default: the languages in the checkpoint or the binarized data.
        options: search options of fairseq-generate, which become the defaults of ``translate``, and ``tokenizer`` and
            ``bpe`` with their own options. Without these two, text is prepared as the training text was (see
            `find_preparation`); ``tokenizer=None, bpe=None`` takes text that is split already.

    Raises:
        InputError: a file is missing or damaged, files do not match, or an option is unknown.
    """
    folder, data = Path(model_name_or_path), data_name_or_path
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; give the one that fairseq-train saved checkpoints to")
    if checkpoint_file is None:
        paths = [str(path) for path in find_checkpoints(folder)]
    else:
        paths = [str(folder / name) for name in utils.split_paths(checkpoint_file)]
    if data is not None:
        data = None if data == "." else str(folder / data if str(data).startswith(".") else data)
    models, task = load_models(paths, data, source_lang, target_lang, cpu=True)
    found = find_preparation(Path(paths[0]).parent, task)
    sides = (found.source, found.target)
    cfgs = [configure(options_of(side, found.folder, options)) for side in sides]
    return TranslationHub(cfgs[0], task, models, TypedText.of(task, cfgs, [side.lowercase for side in sides]))


# Here and not in the models: models must not import inference.
for _model in (RNNsearchModel, Tree2SeqModel):
    _model.from_pretrained = staticmethod(load)


class TranslationHub(GeneratorHubInterface):
    """fairseq's hub interface to trained models, for plain text.

    A word that the model knows only in lower case is read in lower case. The translation of a sentence without words is
    empty. All sentences are checked before any is computed; errors name them by number, from 1.

    Args:
        cfg: see `configure`.
        task: holds the dictionaries and languages.
        models: an ensemble.
        text: the text preparation of both languages.
    """

    def __init__(
        self, cfg: DictConfig, task: TranslationTask, models: Sequence[BaseFairseqModel], text: TypedText
    ) -> None:
        super().__init__(cfg, task, models)
        self.source_encoder, self.target_encoder = text
        self.reads_trees = any(getattr(model.encoder, "parses", False) for model in models)

    # Called by fairseq's own methods

    def encode(self, sentence: str) -> Tensor:
        """Convert a source sentence to ids with end-of-sentence, ``(S,)``."""
        return self.binarize(self.source_encoder.encode(sentence))

    def decode(self, tokens: Tensor) -> str:
        """Convert target ids to text."""
        return self.target_encoder.decode(self.string(tokens))

    def _build_batches(self, tokens: Sequence[Any], skip_invalid_size_inputs: bool) -> Iterator[dict[str, Any]]:
        """Yield batches of similar lengths and bounded padded size; fairseq's would be as large as in training."""
        lengths = np.array([len(ids[0] if isinstance(ids, tuple) else ids) for ids in tokens], dtype=np.int64)
        order = np.argsort(-lengths, kind="stable")
        if skip_invalid_size_inputs:
            order = order[lengths[order] <= self.max_positions[0]]
        dataset = self.task.build_dataset_for_inference(tokens, lengths)
        for batch in group_by_size(order, lengths, MAX_TOKENS, BATCH_SIZE):
            yield dataset.collater([dataset[int(number)] for number in batch])

    # Sentences

    def translate(
        self,
        sentences: Sequence[str] | str,
        beam: int | None = None,
        trees: Sequence[str | None] | None = None,
        **options: Any,
    ) -> list[str] | str:
        """Return the best translation of each sentence, or of a single one, as text.

        Args:
            beam: default: 5, or that of `load`.
            trees: for models that read trees, the parse of each sentence, in Penn brackets or as transitions; None or
                "" for a sentence without one.
            options: search options of fairseq-generate: ``search="groundhog"``, ``lenpen=0.6``, ``sampling=True``.

        Raises:
            InputError: a sentence or its parse cannot be read, or an option is unknown.
        """
        if "nbest" in options:
            raise InputError("translate returns one translation; translations(sentences, nbest=3) returns three")
        if isinstance(sentences, str):
            return self.translate([sentences], beam, None if trees is None else [trees], **options)[0]
        return [best.text for best, *_ in self.translations(sentences, beam, 1, trees, **options)]

    def translations(
        self,
        sentences: Sequence[str],
        beam: int | None = None,
        nbest: int = 5,
        trees: Sequence[str | None] | None = None,
        **options: Any,
    ) -> list[list[Translation]]:
        """Return up to ``nbest`` translations of each sentence, best first; see `translate`."""
        sources = self.read_sources(sentences, trees)
        return self.search(sources, self.build_generator(beam, **options), nbest)

    def score(
        self, sources: Sequence[str], targets: Sequence[str], trees: Sequence[str | None] | None = None
    ) -> list[float]:
        """Return ln p(y|x) of each translation in ``targets``, end-of-sentence included, not divided by length.

        Raises:
            InputError: a sentence or its parse cannot be read, or there are not as many targets as sources.
        """
        return [alignment.logprobs.sum().item() for alignment in self.align_all(sources, targets, trees)]

    def align(
        self,
        sources: Sequence[str],
        targets: Sequence[str] | None = None,
        trees: Sequence[str | None] | None = None,
    ) -> list[Alignment]:
        """Align each sentence with its translation in ``targets``; default: with the one that ``translate`` finds.

        Raises:
            InputError: the model has no attention; a sentence or its parse cannot be read, or there are not as many
                targets as sources.
        """
        if targets is None:
            read = self.read_sources(sources, trees)
            found = self.search(read, self.build_generator())
            alignments = self.align_words([(source, best.words) for source, (best, *_) in zip(read, found)])
        else:
            alignments = self.align_all(sources, targets, trees)
        if any(alignment.weights is None for alignment in alignments):
            raise InputError("the model has no alignment (RNNencdec, --context last); load one of RNNsearch")
        return alignments

    def align_all(
        self, sources: Sequence[str], targets: Sequence[str], trees: Sequence[str | None] | None
    ) -> list[Alignment]:
        """Align as `align` does, also with models without attention."""
        read = self.read_sources(sources, trees)
        if len(_listed(targets)) != len(read):
            raise InputError(f"there are {len(read):,} sources and {len(targets):,} targets; give one for each")
        words = []
        for number, target in enumerate(targets, 1):
            _check_text(target, f"target {number}")
            words.append(self.target_encoder.encode(target).split())
            _check_words(len(words[-1]), self.max_positions[1], f"target {number}")
        return self.align_words(list(zip(read, words)))

    # Steps of the methods above

    def read_sources(self, sentences: Sequence[str], trees: Sequence[str | None] | None = None) -> list[Source]:
        """Call `read_source` for each sentence."""
        if trees is None:
            trees = [None] * len(_listed(sentences))
        elif len(trees) != len(sentences):
            raise InputError(f"there are {len(sentences):,} sentences and {len(trees):,} trees; give one for each")
        return [
            self.read_source(sentence, tree, f"sentence {number}")
            for number, (sentence, tree) in enumerate(zip(_listed(sentences), trees), 1)
        ]

    def read_source(self, sentence: str, parse: str | None = None, where: str = "the sentence") -> Source:
        """Split a sentence into words, and read its parse: Penn brackets, transitions, or none.

        Raises:
            InputError: the sentence is not Unicode text or is too long, or the parse has other words; names ``where``.
        """
        _check_text(sentence, where)
        line = self.source_encoder.encode(sentence)
        ids = self.binarize(line)
        words = line.split()
        _check_words(len(words), self.max_positions[0], where)
        return Source(words, ids, self._read_parse(parse, words, where))

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
        position = first_difference(read.words, words, lowercase=self.source_encoder.lowercase)
        if position is not None:
            leaf, word = (shown(side[position]) if position < len(side) else "missing" for side in (read.words, words))
            raise InputError(
                f"{where}: leaf {position + 1} of its parse is {leaf}, but word {position + 1} is {word}; "
                f"parse the words that the model reads: {shown(' '.join(words))}"
            )
        return read.tree

    def build_generator(self, beam: int | None = None, **options: Any) -> SequenceGenerator:
        """Build the generator for `search` from search options of fairseq-generate.

        Raises:
            InputError: an option is unknown or unfit for this search.
        """
        beam = self.cfg.generation.beam if beam is None else beam
        if type(beam) is not int or beam < 1:
            raise InputError(f"beam is {beam!r}, but it must be a number of at least 1")
        args = set_generation(self.cfg.generation, {**options, "beam": beam})
        return self.task.build_generator(list(self.models), args)

    def search(
        self,
        sources: Sequence[Source],
        generator: SequenceGenerator,
        nbest: int = 1,
        on_step: OnStep | None = None,
    ) -> list[list[Translation]]:
        """Return up to ``nbest`` translations of each source, best first.

        Args:
            on_step: called after each step of a batch, with the best unfinished target words of each source in it, by
                position in ``sources``. An exception that it raises ends the search.
        """
        tokens: list[Any] = [source.ids for source in sources]
        if isinstance(self.task, TreeTranslationTask):
            lines = (format_transitions(source.tree) for source in sources)
            tokens = [(ids, encode_transitions(line, self.task.tree_dict)) for ids, line in zip(tokens, lines)]
        found: dict[int, list[Translation]] = {}
        generator.on_step = on_step
        for batch in self._build_batches(tokens, False):
            moved = utils.apply_to_sample(lambda tensor: tensor.to(self.device), batch)
            hypotheses = self.task.inference_step(generator, self.models, moved)
            for number, best in zip(batch["id"].tolist(), hypotheses):
                found[number] = [self._translation(hypothesis) for hypothesis in best[:nbest]]
        return [found[number] for number in range(len(sources))]

    def _translation(self, hypothesis: dict[str, Any]) -> Translation:
        tokens = hypothesis["tokens"].cpu()
        words = [self.tgt_dict[token] for token in tokens.tolist()]
        if words and tokens[-1] == self.tgt_dict.eos():
            words.pop()
        return Translation(self.decode(tokens), float(hypothesis["score"]), words)

    def align_words(self, pairs: Sequence[tuple[Source, Sequence[str]]]) -> list[Alignment]:
        """Align each source with the words of a translation, which are without end-of-sentence."""
        trees = [source.tree for source, _ in pairs] if self.reads_trees else None
        lines = ((" ".join(source.words), " ".join(words)) for source, words in pairs)
        scores = score_pairs(list(self.models), self.task, lines, trees=trees)
        return [
            Alignment(
                [*source.words, score.source[-1]],
                [*words, score.target[-1]],
                [word == self.src_dict.unk_word for word in score.source],
                [word == self.tgt_dict.unk_word for word in score.target],
                score.word_logprobs,
                score.alignment,
                score.phrases,
                score.phrase_attention,
            )
            for (source, words), score in zip(pairs, scores, strict=True)
        ]


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


def _check_words(words: int, most: int, where: str) -> None:
    if words >= most:  # end-of-sentence counts, too
        raise InputError(f"{where} has {words:,} words, and the model reads at most {most - 1:,}; split it")
