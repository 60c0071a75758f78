"""How a model's text was prepared, as found in the folders of its training, and what prepares more of it."""

import logging
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from fairseq.data import encoders
from fairseq.dataclass.configs import GenerationConfig
from fairseq.dataclass.utils import overwrite_args_by_name
from fairseq.registry import REGISTRIES
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rnnsearch_fairseq.corpora.prepare import CODES, PIECES
from rnnsearch_fairseq.errors import InputError

logger = logging.getLogger(__name__)

CHECKPOINTS = ("model.pt", "checkpoint_best.pt", "checkpoint_last.pt", "checkpoint.pt")
LEVELS_UP = 3  # recipes/reproduce: bin is beside runs, which is above RUN/checkpoints
# What the Moses tokenizer writes for & | < > ' " [ ]; text that it has not passed has none of them.
MOSES_ESCAPES = ("&amp;", "&#124;", "&lt;", "&gt;", "&apos;", "&quot;", "&#91;", "&#93;")
BPE_MARK, PIECE_MARK = "@@", "▁"
# What fairseq-generate's options do to the search; the others are about what it prints, or are read elsewhere.
SEARCH_OPTIONS = ("search", "beam", "lenpen", "unkpen", "unnormalized", "temperature", "no_repeat_ngram_size")
SEARCH_OPTIONS += ("max_len_a", "max_len_b", "min_len", "min_len_a", "match_source_len", "length_statistics")
SEARCH_OPTIONS += ("length_smoothing", "sampling", "sampling_topk", "sampling_topp", "diverse_beam_groups")
SEARCH_OPTIONS += ("diverse_beam_strength", "diversity_rate")
CACHED_CHARACTERS = 1_000_000  # of words whose subwords are remembered


def find_checkpoint(folder: Path) -> Path:
    """The best checkpoint in a folder that fairseq-train or a recipe wrote.

    Raises:
        InputError: there is none.
    """
    for place in (folder, folder / "checkpoints"):
        for name in CHECKPOINTS:
            if (place / name).is_file():
                return place / name
    raise InputError(f"{folder}: holds no {', '.join(CHECKPOINTS)}; give the folder that fairseq-train saved to")


def find_data(folder: Path) -> Path:
    """The folder of the dictionaries ``dict.LANGUAGE.txt``: this one, one above it, or ``bin`` in one of these.

    Raises:
        InputError: there is none.
    """
    folder = folder.resolve()
    for place in (folder, *list(folder.parents)[:LEVELS_UP]):
        for candidate in (place, place / "bin"):
            if any(candidate.glob("dict.*.txt")):
                return candidate
    raise InputError(f"{folder}: no dict.*.txt in it, nor above it or in bin; give the folder that they are in (data)")


def find_text_options(data: Path, symbols: Iterable[str]) -> dict[str, Any]:
    """fairseq's options ``tokenizer`` and ``bpe``, with what they need, by what prepared the text of the dictionaries.

    Escapes tell that it was the Moses tokenizer. Subwords need the file that
    ``rnnsearch prepare`` learnt, in ``data`` or in ``text`` beside it; a warning says so where
    it is missing.

    Args:
        data: folder of the dictionaries.
        symbols: the words of both.
    """
    options: dict[str, Any] = {}
    marks = dict.fromkeys(("tokenizer", CODES, PIECES), False)
    for symbol in symbols:
        marks["tokenizer"] |= "&" in symbol and any(escape in symbol for escape in MOSES_ESCAPES)
        marks[CODES] |= len(symbol) > len(BPE_MARK) and symbol.endswith(BPE_MARK)
        marks[PIECES] |= len(symbol) > len(PIECE_MARK) and symbol.startswith(PIECE_MARK)
    if marks["tokenizer"]:
        options["tokenizer"] = "moses"
    kinds = ((CODES, "subword_nmt", "bpe_codes"), (PIECES, "sentencepiece", "sentencepiece_model"))
    for file, bpe, option in kinds:
        found = [path for path in (data / file, data.parent / "text" / file) if path.is_file()]
        if marks[file] and found:
            return options | {"bpe": bpe, option: str(found[0])}
        if marks[file]:
            logger.warning("%s holds subwords, but no %s is near; give %s, or split text", data, file, option)
    return options


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
        cfg: see `configure`.
        lowercase: after the tokenizer, before the subwords.
    """

    def __init__(self, cfg: DictConfig, language: str, lowercase: bool) -> None:
        tokenizer = cfg.tokenizer
        if tokenizer is not None and "source_lang" in tokenizer:
            tokenizer = OmegaConf.merge(tokenizer, {"source_lang": language, "target_lang": language})
        self.tokenizer = encoders.build_tokenizer(tokenizer)
        self.bpe = encoders.build_bpe(cfg.bpe)
        self.lowercase = lowercase
        self._cached = 0

    def encode(self, text: str) -> str:
        """Words with single blanks between."""
        text = " ".join(text.split())
        if self.tokenizer is not None:
            text = self.tokenizer.encode(text)
        if self.lowercase:
            text = text.lower()
        if self.bpe is not None:
            self._bound_cache(len(text))
            text = self.bpe.encode(text)
        return " ".join(text.split())

    def decode(self, words: str) -> str:
        """Text again."""
        if self.bpe is not None:
            words = self.bpe.decode(words)
        return words if self.tokenizer is None else self.tokenizer.decode(words)

    def _bound_cache(self, characters: int) -> None:
        """subword-nmt remembers every word that it has split, for ever."""
        cache = getattr(getattr(self.bpe, "bpe", None), "cache", None)
        self._cached += characters
        if cache is not None and self._cached > CACHED_CHARACTERS:
            cache.clear()
            self._cached = characters
