"""Prepare typed text as a model's training text was prepared: by its record, by options, or by its dictionaries."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from fairseq import utils
from fairseq.data import Dictionary, encoders
from fairseq.dataclass.configs import GenerationConfig
from fairseq.dataclass.utils import overwrite_args_by_name
from fairseq.registry import REGISTRIES
from fairseq.tasks.translation import TranslationTask
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.files.preparation import CODES, FILES, PIECES, RECORD, Preparation, read_record

logger = logging.getLogger(__name__)

# What the Moses tokenizer writes for & | < > ' " [ ]; text that it has not passed has none of them.
MOSES_ESCAPES = ("&amp;", "&#124;", "&lt;", "&gt;", "&apos;", "&quot;", "&#91;", "&#93;")
BPE_MARK, PIECE_MARK = "@@", "▁"
# What fairseq-generate's options do to the search; the others are about what it prints, or are read elsewhere.
SEARCH_OPTIONS = ("search", "beam", "lenpen", "unkpen", "unnormalized", "temperature", "no_repeat_ngram_size")
SEARCH_OPTIONS += ("max_len_a", "max_len_b", "min_len", "min_len_a", "match_source_len", "length_statistics")
SEARCH_OPTIONS += ("length_smoothing", "sampling", "sampling_topk", "sampling_topp", "diverse_beam_groups")
SEARCH_OPTIONS += ("diverse_beam_strength", "diversity_rate")
CACHED_CHARACTERS = 1_000_000  # of words whose subwords are remembered
CURE = "write it by rnnsearch record"


class Found(NamedTuple):
    """How text of the source and of the target was prepared; the files that are needed lie in ``folder``."""

    source: Preparation
    target: Preparation
    folder: Path


def find_record(folders: Iterable[Path], languages: Sequence[str]) -> Found | None:
    """The record of the first of these folders that has one.

    Raises:
        InputError: it is damaged, or lacks one of the two languages.
    """
    for folder in folders:
        record = read_record(folder)
        if record is None:
            continue
        for language in languages:
            if language not in record:
                raise InputError(f"{folder / RECORD}: does not say how the text in {language} was prepared; {CURE}")
        return Found(*(record[language] for language in languages), folder)
    return None


def find_preparation(checkpoint: Path, task: TranslationTask) -> Found:
    """How a model's text was prepared: by the record beside the checkpoint, or by the one beside the dictionaries.

    Without a record it is guessed, and a warning says what is assumed.

    Args:
        checkpoint: folder of the checkpoint.
        task: its languages, its dictionaries, and their folder.

    Raises:
        InputError: a record is damaged, or lacks one of the languages.
    """
    data = Path(utils.split_paths(task.cfg.data)[0])
    languages = (task.cfg.source_lang, task.cfg.target_lang)
    found = find_record((checkpoint, data), languages)
    if found is None:
        found = guess_preparation(data, task.source_dictionary, task.target_dictionary)
        logger.warning(
            "no %s in %s or %s: as the dictionaries look, the training's text was %s; %s",
            *(RECORD, checkpoint, data, found.source.describe(), CURE),
        )
    return found


def guess_preparation(data: Path, source: Dictionary, target: Dictionary) -> Found:
    """How text was prepared as far as the dictionaries show it.

    Escapes tell that it was the Moses tokenizer. Subwords need the file that
    ``rnnsearch prepare`` learnt, in ``data`` or in ``text`` beside it; a warning says so where
    it is missing. Text of a language without capitals is lowercased.

    Args:
        data: folder of the dictionaries.
    """
    marks = dict.fromkeys(("tokenizer", CODES, PIECES), False)
    for symbol in (*source.symbols, *target.symbols):
        marks["tokenizer"] |= "&" in symbol and any(escape in symbol for escape in MOSES_ESCAPES)
        marks[CODES] |= len(symbol) > len(BPE_MARK) and symbol.endswith(BPE_MARK)
        marks[PIECES] |= len(symbol) > len(PIECE_MARK) and symbol.startswith(PIECE_MARK)
    both, folder = Preparation("moses" if marks["tokenizer"] else None), data
    file = CODES if marks[CODES] else PIECES if marks[PIECES] else None
    if file is not None:
        near = [place for place in (data, data.parent / "text") if (place / file).is_file()]
        if near:
            folder = near[0]
            both = replace(both, **{"bpe_codes" if file == CODES else "sentencepiece_model": file})
        else:
            option = "bpe_codes" if file == CODES else "sentencepiece_model"
            logger.warning("%s holds subwords, but no %s is near; give %s, or split text", data, file, option)
    lowercase = [all(symbol == symbol.lower() for symbol in side.symbols) for side in (source, target)]
    return Found(*(replace(both, lowercase=lower) for lower in lowercase), folder)


def combine(found: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """The options that were found, but those of a tokenizer or of a bpe only where ``options`` name no other."""
    kept = dict(found)
    for kind, its in (("tokenizer", ("moses_no_escape", "moses_no_dash_splits")), ("bpe", FILES)):
        if kind in options:
            kept = {name: value for name, value in kept.items() if name not in (kind, *its)}
    return {**kept, **options}


def configure(options: dict[str, Any]) -> DictConfig:
    """fairseq's sections ``generation``, ``tokenizer`` and ``bpe``, with these options.

    Raises:
        InputError: an option is unknown or cannot have its value, or a file is missing.
    """
    sections: dict[str, Any] = {}
    text_options = {"tokenizer", "bpe"}
    for kind in ("tokenizer", "bpe"):
        registry = REGISTRIES[kind]
        name = options.get(kind)
        if name is not None and name not in registry["registry"]:
            raise InputError(f"there is no {kind} {name!r}; choose one of {', '.join(registry['registry'])}")
        sections[kind] = None
        if name is not None:
            text_options |= {field.name for field in fields(registry["dataclass_registry"][name])}
    for option in ("bpe_codes", "sentencepiece_model"):
        if option in options and not Path(options[option]).is_file():
            raise InputError(f"{option} {options[option]}: no such file; give the one that prepared the training text")
    of_search = {name: value for name, value in options.items() if name not in text_options}
    generation = set_generation(OmegaConf.structured(GenerationConfig), of_search)
    cfg = OmegaConf.create({"generation": generation, **sections})
    overwrite_args_by_name(cfg, {name: value for name, value in options.items() if name in text_options})
    return cfg


def set_generation(generation: DictConfig, options: dict[str, Any]) -> DictConfig:
    """fairseq's section ``generation`` with these options, which are not checked together.

    Raises:
        InputError: one is unknown or cannot have its value.
    """
    changed = generation.copy()
    for name, value in options.items():
        if name not in SEARCH_OPTIONS:
            raise InputError(f"{name!r} is no option of a search, nor of the tokenizer or bpe; leave it out")
        try:
            changed[name] = value
        except OmegaConfBaseException:
            raise InputError(f"{name} cannot be {value!r}; see fairseq-generate --help for its values") from None
    return changed


class TextEncoder:
    """Text of one language to words (or subwords) with blanks between, as the training text was made.

    Args:
        cfg: see `configure`; ``tokenizer`` and ``bpe`` count.
        lowercase: after the tokenizer, before the subwords.
        dictionary: a word that is unknown there, and known in lower case, becomes lower case. Where words are split,
            this is a word of which a part is unknown.

    Raises:
        InputError: the file of the subwords is damaged.
    """

    def __init__(
        self, cfg: DictConfig, language: str, lowercase: bool = False, dictionary: Dictionary | None = None
    ) -> None:
        tokenizer = cfg.tokenizer
        if tokenizer is not None and "source_lang" in tokenizer:
            tokenizer = OmegaConf.merge(tokenizer, {"source_lang": language, "target_lang": language})
        self.tokenizer = encoders.build_tokenizer(tokenizer)
        self.bpe = _build_bpe(cfg.bpe)
        self.lowercase = lowercase
        self.dictionary = dictionary
        self._cached = 0

    def encode(self, text: str) -> str:
        """Words with single blanks between."""
        text = " ".join(text.split())
        if self.tokenizer is not None:
            text = self.tokenizer.encode(text)
        if self.lowercase:
            text = text.lower()
        words = self._split(text)
        if self._knows(words):
            return words
        return self._split(" ".join(map(self._as_known, text.split())))

    def decode(self, words: str) -> str:
        """Text again."""
        if self.bpe is not None:
            words = self.bpe.decode(words)
        return words if self.tokenizer is None else self.tokenizer.decode(words)

    def _split(self, text: str) -> str:
        if self.bpe is not None:
            self._bound_cache(len(text))
            text = self.bpe.encode(text)
        return " ".join(text.split())

    def _knows(self, words: str) -> bool:
        return self.dictionary is None or all(word in self.dictionary for word in words.split())

    def _as_known(self, word: str) -> str:
        lower = word.lower()
        known_in_lower_case = not self._knows(self._split(word)) and self._knows(self._split(lower))
        return lower if known_in_lower_case else word

    def _bound_cache(self, characters: int) -> None:
        """subword-nmt remembers every word that it has split, for ever."""
        cache = getattr(getattr(self.bpe, "bpe", None), "cache", None)
        self._cached += characters
        if cache is not None and self._cached > CACHED_CHARACTERS:
            cache.clear()
            self._cached = characters


class TypedText(NamedTuple):
    """What prepares typed text of the source, and makes text of the words of the target."""

    source: TextEncoder
    target: TextEncoder

    def encode(self, text: str) -> str:
        """Words of the source with single blanks between."""
        return self.source.encode(text)

    def decode(self, words: str) -> str:
        """Text of the target."""
        return self.target.decode(words)

    @classmethod
    def of(
        cls, task: TranslationTask, cfgs: Sequence[DictConfig], lowercase: Sequence[bool] = (False, False)
    ) -> "TypedText":
        """For the languages and dictionaries of a task; see `TextEncoder` for the rest, of source and target."""
        languages = (task.cfg.source_lang, task.cfg.target_lang)
        dictionaries = (task.source_dictionary, task.target_dictionary)
        return cls(*map(TextEncoder, cfgs, languages, lowercase, dictionaries))


def typed_lines(task: TranslationTask, cfg: DictConfig, checkpoint: Path) -> TypedText:
    """What prepares the lines that `fairseq-interactive` reads.

    Without a record, a line holds words already, as without this package; a warning says so.

    Args:
        cfg: fairseq's sections ``tokenizer`` and ``bpe``, which count if there is either; and ``post_process``, which
            tells whether subwords are joined already when words are to become text.
        checkpoint: folder of the first checkpoint, whose record counts otherwise, or that beside the dictionaries.

    Raises:
        InputError: a record or a file of subwords is damaged.
    """
    sides, lowercase = [cfg, cfg], [False, False]
    if cfg.tokenizer is None and cfg.bpe is None:
        data = Path(utils.split_paths(task.cfg.data)[0])
        found = find_record((checkpoint, data), (task.cfg.source_lang, task.cfg.target_lang))
        if found is None:
            logger.warning("no %s in %s or %s: lines are taken to be prepared; %s", RECORD, checkpoint, data, CURE)
        else:
            sides = [configure(side.options(found.folder)) for side in (found.source, found.target)]
            lowercase = [found.source.lowercase, found.target.lowercase]
    typed = TypedText.of(task, sides, lowercase)
    if cfg.post_process is not None:
        typed.target.bpe = None
    return typed


def _build_bpe(cfg: DictConfig | None) -> Any:
    """
    Raises:
        InputError: a file that it needs is damaged.
    """
    try:
        return encoders.build_bpe(cfg)
    except (Exception, SystemExit) as error:  # subword-nmt ends the program at a damaged line
        files = [str(cfg[name]) for name in ("bpe_codes", "sentencepiece_model") if name in cfg]
        raise InputError(
            f"{', '.join(files) or cfg._name}: cannot split words ({in_short(error)}); give the file that split the "
            "training text"
        ) from error
