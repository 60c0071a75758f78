"""Prepare typed text as a model's training text was prepared, by the record, by options, or by the dictionaries."""

import logging
import re
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
from rnnsearch_fairseq.inference.record import Preparation, read_record
from rnnsearch_fairseq.text.lines import BPE_MARK
from rnnsearch_fairseq.text.preparation import CODES, PIECES, RECORD

logger = logging.getLogger(__name__)

# The Moses tokenizer's escapes of & | < > ' " [ ]; other text has none of them.
MOSES_ESCAPE = "&(amp|#124|lt|gt|apos|quot|#91|#93);"
# For each kind of subwords, the option of its file, the file, and the mark in a dictionary's symbols.
SUBWORDS = (("bpe_codes", CODES, f".{BPE_MARK}$"), ("sentencepiece_model", PIECES, "^▁."))
# fairseq-generate's options that change the search.
SEARCH_OPTIONS = ("search", "beam", "lenpen", "unkpen", "unnormalized", "temperature", "no_repeat_ngram_size")
SEARCH_OPTIONS += ("max_len_a", "max_len_b", "min_len", "min_len_a", "match_source_len", "length_statistics")
SEARCH_OPTIONS += ("length_smoothing", "sampling", "sampling_topk", "sampling_topp", "diverse_beam_groups")
SEARCH_OPTIONS += ("diverse_beam_strength", "diversity_rate")
CACHED_CHARACTERS = 1_000_000  # the most characters of words in subword-nmt's cache
CURE = "write it with rnnsearch prepare"


class Found(NamedTuple):
    """The preparations of source and target text; their files are in ``folder``."""

    source: Preparation
    target: Preparation
    folder: Path


def find_record(folders: Iterable[Path], languages: Sequence[str]) -> Found | None:
    """Read the record of the first of these folders that has one.

    Raises:
        InputError: the record is damaged, or lacks one of the two languages.
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
    """Find how a model's text was prepared: from the record beside the checkpoint, or the one beside the dictionaries.

    Without a record, the preparation is guessed from the dictionaries, and a warning states the guess.

    Args:
        checkpoint: folder of the checkpoint.
        task: holds the languages, the dictionaries, and their folder.

    Raises:
        InputError: a record is damaged, or lacks one of the languages.
    """
    data = Path(utils.split_paths(task.cfg.data)[0])
    languages = (task.cfg.source_lang, task.cfg.target_lang)
    found = find_record((checkpoint, data), languages)
    if found is None:
        found = guess_preparation(data, task.source_dictionary, task.target_dictionary)
        logger.warning(
            "no %s in %s or %s: by the dictionaries, the training text seems to be %s; %s",
            *(RECORD, checkpoint, data, found.source.describe(), CURE),
        )
    return found


def guess_preparation(data: Path, source: Dictionary, target: Dictionary) -> Found:
    """Guess how text was prepared from the symbols of the dictionaries.

    Escapes mean the Moses tokenizer, marks of subwords mean BPE or sentencepiece, and a dictionary without capitals
    means lower case. The file of the subwords is searched in ``data`` and in ``text`` beside it; a warning says if it
    is missing.

    Args:
        data: folder of the dictionaries.
    """
    symbols = [*source.symbols, *target.symbols]
    escaped = any(re.search(MOSES_ESCAPE, symbol) for symbol in symbols)
    both, folder = Preparation("moses" if escaped else None), data
    for option, file, mark in SUBWORDS:
        if any(re.search(mark, symbol) for symbol in symbols):
            near = [place for place in (data, data.parent / "text") if (place / file).is_file()]
            if near:
                both, folder = replace(both, **{option: file}), near[0]
            else:
                logger.warning("%s holds subwords, but no %s is near; give %s, or text in subwords", data, file, option)
            break
    lowercase = [all(symbol == symbol.lower() for symbol in side.symbols) for side in (source, target)]
    return Found(*(replace(both, lowercase=lower) for lower in lowercase), folder)


def options_of(side: Preparation, folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """fairseq's options for a preparation, overridden by ``options``.

    A tokenizer or bpe in ``options`` drops the own options of the one in ``side``, whose files are in ``folder``.
    """
    if "tokenizer" in options:
        side = replace(side, tokenizer=None)
    if "bpe" in options:
        side = replace(side, bpe_codes=None, sentencepiece_model=None)
    return {**side.options(folder), **options}


def configure(options: dict[str, Any]) -> DictConfig:
    """Build fairseq's sections ``generation``, ``tokenizer`` and ``bpe`` from these options.

    Raises:
        InputError: an option is unknown or has a wrong value, or a file is missing.
    """
    text_options = {"tokenizer", "bpe"}
    for kind in ("tokenizer", "bpe"):
        registry, name = REGISTRIES[kind], options.get(kind)
        if name is None:
            continue
        if name not in registry["registry"]:
            raise InputError(f"there is no {kind} {name!r}; choose one of {', '.join(registry['registry'])}")
        text_options |= {field.name for field in fields(registry["dataclass_registry"][name])}
    for option in ("bpe_codes", "sentencepiece_model"):
        if option in options and not Path(options[option]).is_file():
            raise InputError(f"{option} {options[option]}: no such file; give the one that prepared the training text")
    search_options = {name: value for name, value in options.items() if name not in text_options}
    generation = set_generation(OmegaConf.structured(GenerationConfig), search_options)
    cfg = OmegaConf.create({"generation": generation, "tokenizer": None, "bpe": None})
    overwrite_args_by_name(cfg, {name: value for name, value in options.items() if name in text_options})
    return cfg


def set_generation(generation: DictConfig, options: dict[str, Any]) -> DictConfig:
    """Return a copy of fairseq's section ``generation`` with these options; combinations are not checked.

    Raises:
        InputError: an option is unknown or has a wrong value.
    """
    changed = generation.copy()
    for name, value in options.items():
        if name not in SEARCH_OPTIONS:
            raise InputError(f"{name!r} is not an option of the search, the tokenizer or the bpe; leave it out")
        try:
            changed[name] = value
        except OmegaConfBaseException:
            raise InputError(f"{name} cannot be {value!r}; see fairseq-generate --help for its values") from None
    return changed


class TextEncoder:
    """Convert text of one language to words or subwords with single blanks between, and back.

    Args:
        cfg: see `configure`; the sections ``tokenizer`` and ``bpe`` are used.
        lowercase: lowercase text after the tokenizer and before the split into subwords.
        dictionary: a word that is only known in lower case is lowercased; None: no word is. A word of several subwords
            is known if all of them are.

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
        """Convert text to words with single blanks between."""
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
        """Convert words to text."""
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
        """Clear subword-nmt's cache of split words, which is otherwise never cleared."""
        cache = getattr(getattr(self.bpe, "bpe", None), "cache", None)
        self._cached += characters
        if cache is not None and self._cached > CACHED_CHARACTERS:
            cache.clear()
            self._cached = characters


class TypedText(NamedTuple):
    """The encoder of typed source text, and the decoder of target words."""

    source: TextEncoder
    target: TextEncoder

    def encode(self, text: str) -> str:
        """Convert source text to words with single blanks between."""
        return self.source.encode(text)

    def decode(self, words: str) -> str:
        """Convert target words to text."""
        return self.target.decode(words)

    @classmethod
    def of(
        cls, task: TranslationTask, cfgs: Sequence[DictConfig], lowercase: Sequence[bool] = (False, False)
    ) -> "TypedText":
        """Build both for a task; ``cfgs`` and ``lowercase`` are for source and target, see `TextEncoder`."""
        languages = (task.cfg.source_lang, task.cfg.target_lang)
        dictionaries = (task.source_dictionary, task.target_dictionary)
        return cls(*map(TextEncoder, cfgs, languages, lowercase, dictionaries))


def typed_lines(task: TranslationTask, cfg: DictConfig, checkpoint: Path) -> TypedText:
    """Build the text preparation for the lines of `fairseq-interactive`.

    With neither a record nor options, lines are read as words with blanks between, as in plain fairseq, and a warning
    says so.

    Args:
        cfg: fairseq's sections ``tokenizer`` and ``bpe``, which override the record if either is given; and
            ``post_process``, with which fairseq joins subwords itself.
        checkpoint: folder of the first checkpoint; its record comes before the one beside the dictionaries.

    Raises:
        InputError: a record or a file of subwords is damaged.
    """
    sides, lowercase = [cfg, cfg], [False, False]
    if cfg.tokenizer is None and cfg.bpe is None:
        data = Path(utils.split_paths(task.cfg.data)[0])
        found = find_record((checkpoint, data), (task.cfg.source_lang, task.cfg.target_lang))
        if found is None:
            logger.warning("no %s in %s or %s: lines are read as prepared text; %s", RECORD, checkpoint, data, CURE)
        else:
            sides = [configure(side.options(found.folder)) for side in (found.source, found.target)]
            lowercase = [found.source.lowercase, found.target.lowercase]
    typed = TypedText.of(task, sides, lowercase)
    if cfg.post_process is not None:
        typed.target.bpe = None
    return typed


def _build_bpe(cfg: DictConfig | None) -> Any:
    """Build fairseq's bpe.

    Raises:
        InputError: a file that it needs is damaged.
    """
    try:
        return encoders.build_bpe(cfg)
    except (Exception, SystemExit) as error:  # subword-nmt exits at a damaged line
        files = [str(cfg[name]) for name in ("bpe_codes", "sentencepiece_model") if name in cfg]
        raise InputError(
            f"{', '.join(files) or cfg._name}: cannot split words ({in_short(error)}); give the file that split the "
            "training text"
        ) from error
