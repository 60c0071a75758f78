"""Trained models from Python: translate, score and align text.

A model is loaded from the folder that fairseq-train, or a recipe, wrote. Text is given as people write it, and is split
into words as that of the training was; a list of sentences is computed in batches. ``folder`` is here that of a model
which has learnt five sentences by heart:

>>> from rnnsearch_fairseq.models.rnnsearch import RNNsearchModel
>>> model = RNNsearchModel.from_pretrained(folder)
>>> model.translate(["The dog sleeps.", "The black cat eats."])
['le chien dort.', 'le chat noir mange.']

``score`` gives ln p(y|x), end-of-sentence included:

>>> right, wrong = model.score(["the dog sleeps ."] * 2, ["le chien dort .", "le chat noir mange ."])
>>> -0.5 < right < 0 and wrong < right - 5
True

``align`` gives the weights of the source words for each target word, of a given translation or of the model's own:

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
from fairseq.data import data_utils
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.models import BaseFairseqModel
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationTask
from omegaconf import DictConfig
from torch import Tensor

from rnnsearch_fairseq.data.tree_pairs import encode_transitions
from rnnsearch_fairseq.data.trees import (
    NoParse,
    Tree,
    first_difference,
    format_transitions,
    parse_transitions,
    read_penn,
    shown,
)
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.inference.loading import find_checkpoint, load_models
from rnnsearch_fairseq.inference.scoring import BATCH_SIZE, MAX_TOKENS, score_pairs
from rnnsearch_fairseq.inference.text import TypedText, combine, configure, find_preparation, set_generation
from rnnsearch_fairseq.models.rnnsearch import RNNsearchModel
from rnnsearch_fairseq.models.tree2seq import Tree2SeqModel
from rnnsearch_fairseq.search.progress import OnStep, watch
from rnnsearch_fairseq.tasks.tree_translation import TreeTranslationTask

MOST_CHARACTERS = 10_000  # of a sentence
LETTERS_OF_PARSE = 20  # most characters of a parse for each of its sentence


class Source(NamedTuple):
    """A sentence to translate: its words, their ids and end-of-sentence's ``(S,)``, and its tree, if it has one."""

    words: list[str]
    ids: Tensor
    tree: Tree | None


@dataclass(frozen=True, eq=False)
class Alignment:
    """How a model aligns a sentence with a translation. S source words, T target words, P phrases.

    ``source`` and ``target`` are words as the model splits them, end-of-sentence included, and ``source_unknown`` and
    ``target_unknown`` tell which of these it does not know; in a translation of its own these read ``<unk>``.
    ``logprobs`` ``(T,)`` are ln p of each target word, float64. ``weights`` ``(T, S)`` are the attention's, None of a
    model without one. Of models that read trees, ``phrases`` are pairs of a first word and the word after the last one,
    none without a parse, and ``phrase_weights`` ``(T, P)`` their weights, which make one with those of the words; of
    others, both are None. All tensors are on the CPU.
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
    """A translation that was found.

    ``score`` is what the search ranks by (fairseq's: the mean of the words' natural log-probabilities, unless
    ``unnormalized``); it is minus infinity if the search failed. ``words`` are the target's, without end-of-sentence.
    """

    text: str
    score: float
    words: list[str]


def load(
    folder: str | Path,
    checkpoint_file: str | None = None,
    data: str | Path | None = None,
    source_lang: str | None = None,
    target_lang: str | None = None,
    **options: Any,
) -> "TranslationHub":
    """Load one model or an ensemble, onto the CPU.

    Args:
        folder: local folder of the checkpoint.
        checkpoint_file: its name there, or several with colons between; default: the best, see `find_checkpoint`.
        data: folder of the dictionaries; one that begins with a dot is within ``folder``. Default: see
            `rnnsearch_fairseq.inference.loading.find_data`.
        source_lang, target_lang: default: those that the checkpoint or the binarized data names.
        options: of the search, as in fairseq-generate, defaults of ``translate``; and ``tokenizer`` and ``bpe`` with
            theirs. Without these two, text is prepared as the training's was, by its record (see `find_preparation`);
            ``tokenizer=None, bpe=None`` is for text that is split already.

    Raises:
        InputError: a file is missing or damaged, files do not go together, or an option is unknown.
    """
    if not Path(folder).is_dir():
        raise InputError(f"{folder}: no such folder; give the one that fairseq-train saved checkpoints to")
    if checkpoint_file is None:
        paths = [str(find_checkpoint(Path(folder)))]
    else:
        paths = [str(Path(folder, name)) for name in utils.split_paths(checkpoint_file)]
    if data == ".":
        data = None
    elif data is not None:
        data = str(Path(folder, data) if str(data).startswith(".") else data)
    models, task = load_models(paths, data, source_lang, target_lang, cpu=True)
    found = find_preparation(Path(paths[0]).parent, task)
    sides = (found.source, found.target)
    cfgs = [configure(combine(side.options(found.folder), options)) for side in sides]
    return TranslationHub(cfgs[0], task, models, TypedText.of(task, cfgs, [side.lowercase for side in sides]))


def from_pretrained(
    cls: type[BaseFairseqModel],
    model_name_or_path: str | Path,
    checkpoint_file: str | None = None,
    data_name_or_path: str | Path | None = None,
    **options: Any,
) -> "TranslationHub":
    """Load trained models from a local folder: `load` under the names that fairseq's ``from_pretrained`` has.

    Args:
        model_name_or_path: folder of the checkpoint.
        checkpoint_file: default: the best one there.
        data_name_or_path: folder of the dictionaries; default: found near the checkpoint. ``data`` is the same.
        options: see `load`.

    Raises:
        InputError: a file is missing or damaged, or an option is unknown.
    """
    if data_name_or_path is not None:
        options["data"] = data_name_or_path
    return load(model_name_or_path, checkpoint_file, **options)


# Here and not in the models: models must not import inference.
for _model in (RNNsearchModel, Tree2SeqModel):
    _model.from_pretrained = classmethod(from_pretrained)


class TranslationHub(GeneratorHubInterface):
    """fairseq's hub interface to trained models, for text as people write it.

    A word that the model knows in lower case alone is read in lower case. A sentence without words is translated by
    none. Sentences are refused by number, from 1, before any is computed.

    Args:
        cfg: see `configure`.
        task: its dictionaries and languages.
        models: an ensemble.
        text: prepares text of both languages.
    """

    def __init__(
        self, cfg: DictConfig, task: TranslationTask, models: Sequence[BaseFairseqModel], text: TypedText
    ) -> None:
        super().__init__(cfg, task, models)
        self.source_encoder, self.target_encoder = text
        self.reads_trees = any(getattr(model.encoder, "parses", False) for model in models)

    # What fairseq's own methods call

    def encode(self, sentence: str) -> Tensor:
        """The ids of a source sentence, end-of-sentence included, ``(S,)``."""
        return self.binarize(self.source_encoder.encode(sentence))

    def decode(self, tokens: Tensor) -> str:
        """Text of target ids."""
        return self.target_encoder.decode(self.string(tokens))

    def _build_batches(self, tokens: Sequence[Any], skip_invalid_size_inputs: bool) -> Iterator[dict[str, Any]]:
        """Batches of similar lengths, whose padded size is bounded; fairseq's are as large as those of the training."""
        lengths = np.array([len(ids[0] if isinstance(ids, tuple) else ids) for ids in tokens], dtype=np.int64)
        order = np.argsort(-lengths, kind="stable")
        if skip_invalid_size_inputs:
            order = order[lengths[order] <= self.max_positions[0]]
        dataset = self.task.build_dataset_for_inference(tokens, lengths)
        # fairseq refuses a sentence of more than max_tokens; counted as so many, it fills a batch alone.
        sizes = lengths[order].clip(max=MAX_TOKENS)
        batches = data_utils.batch_by_size(
            np.arange(len(order)), None, sizes, max_tokens=MAX_TOKENS, max_sentences=BATCH_SIZE
        )
        for batch in batches:
            yield dataset.collater([dataset[int(order[number])] for number in batch])

    # Sentences

    def translate(
        self,
        sentences: Sequence[str] | str,
        beam: int | None = None,
        verbose: bool = False,
        trees: Sequence[str | None] | None = None,
        **options: Any,
    ) -> list[str] | str:
        """The best translation of each sentence (or of the one that is given alone), as text.

        Args:
            beam: default: 5, or that of `load`.
            verbose: has no effect; it is fairseq's.
            trees: of models that read them, the parse of each sentence, in Penn brackets or as transitions; where there
                is none, None or "".
            options: of the search, as in fairseq-generate: ``search="groundhog"``, ``lenpen=0.6``, ``sampling=True``.

        Raises:
            InputError: a sentence or its parse cannot be read, or an option is unknown.
        """
        if "nbest" in options:
            raise InputError("translate gives the best translation alone; translations(sentences, nbest=3) gives three")
        if isinstance(sentences, str):
            return self.translate([sentences], beam, verbose, None if trees is None else [trees], **options)[0]
        return [best.text for best, *_ in self.translations(sentences, beam, 1, trees, **options)]

    def translations(
        self,
        sentences: Sequence[str],
        beam: int | None = None,
        nbest: int = 5,
        trees: Sequence[str | None] | None = None,
        **options: Any,
    ) -> list[list[Translation]]:
        """The ``nbest`` translations of each sentence, best first; see `translate`.

        Fewer, where the search finds fewer.
        """
        sources = self.read_sources(sentences, trees)
        return self.search(sources, self.build_generator(beam, **options), nbest)

    def score(
        self, sources: Sequence[str], targets: Sequence[str], trees: Sequence[str | None] | None = None
    ) -> list[float]:
        """ln p(y|x) of each translation in ``targets``, end-of-sentence included, not divided by its length.

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
        """The alignment of each sentence with its translation in ``targets``, or with the one that ``translate`` finds.

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
        """As `align`, of any model."""
        read = self.read_sources(sources, trees)
        if len(_listed(targets)) != len(read):
            raise InputError(f"there are {len(read):,} sources and {len(targets):,} targets; give one for each")
        words = []
        for number, target in enumerate(targets, 1):
            _check_text(target, f"target {number}")
            words.append(self.target_encoder.encode(target).split())
            _check_words(len(words[-1]), self.max_positions[1], f"target {number}")
        return self.align_words(list(zip(read, words)))

    # Their parts

    def read_sources(self, sentences: Sequence[str], trees: Sequence[str | None] | None = None) -> list[Source]:
        """`read_source` of each."""
        if trees is None:
            trees = [None] * len(_listed(sentences))
        elif len(trees) != len(sentences):
            raise InputError(f"there are {len(sentences):,} sentences and {len(trees):,} trees; give one for each")
        return [
            self.read_source(sentence, tree, f"sentence {number}")
            for number, (sentence, tree) in enumerate(zip(_listed(sentences), trees), 1)
        ]

    def read_source(self, sentence: str, parse: str | None = None, where: str = "the sentence") -> Source:
        """Split a sentence, and read its parse: Penn brackets, transitions, or nothing.

        Raises:
            InputError: it is no Unicode text, is too long, or the parse is not one of its words; says ``where``.
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
        _check_text(parse, f"the parse of {where}", MOST_CHARACTERS * LETTERS_OF_PARSE)
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
        """The search that these options describe, as in fairseq-generate, for `search`.

        Raises:
            InputError: an option is unknown or not for this search.
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
        """The ``nbest`` translations of each source, best first.

        Args:
            on_step: is called after each step of a batch with the best unfinished target words of its sources, by their
                positions in ``sources``. What it raises ends the search.
        """
        unparsed = encode_transitions("-", self.task.tree_dict) if isinstance(self.task, TreeTranslationTask) else None
        tokens: list[Any] = [source.ids for source in sources]
        if unparsed is not None:
            lines = (format_transitions(source.tree) for source in sources)
            tokens = [(ids, encode_transitions(line, self.task.tree_dict)) for ids, line in zip(tokens, lines)]
        found: dict[int, list[Translation]] = {}
        watch(generator, on_step)
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
        """The alignment of each source with the words of a translation, without end-of-sentence."""
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
    if words >= most:  # end-of-sentence is one more
        raise InputError(f"{where} has {words:,} words, and the model reads at most {most - 1:,}; split it")
