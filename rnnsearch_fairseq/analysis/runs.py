"""The folder of runs that ``rnnsearch report`` reads, and what it lacks."""

import json
from collections.abc import Sequence
from functools import cached_property
from math import hypot
from pathlib import Path

from rnnsearch_fairseq.analysis import bahdanau_tables
from rnnsearch_fairseq.analysis.bleu import RESAMPLES, metric
from rnnsearch_fairseq.analysis.systems import TestSet, check_size, read_system, read_test_set
from rnnsearch_fairseq.errors import InputError

LOG, TRANSLATIONS, BANNED, SCORES = "train.log", "generate.out", "nounk.out", "score.jsonl"
FILES = (LOG, TRANSLATIONS, BANNED, SCORES)
DATA, OTHERS, GOLD = "data", "others", "test.align"
NAMES = {
    "RNNencdec-30": "RNNencdec-30",
    "RNNsearch-30": "RNNsearch-30",
    "RNNencdec-50": "RNNencdec-50",
    "RNNsearch-50": "RNNsearch-50",
    "RNNsearch-50-long": "RNNsearch-50⋆",
}


class BahdanauRuns:
    """What a folder of runs holds, and what it lacks.

    ``folders`` has the models' folders by name, in the order of the tables; ``systems`` the translations by the models
    and by other systems; ``banned`` their translations with unknown words banned. Sentences of ``least`` words or more
    are long.

    Raises:
        InputError: there is no run or no test set, or a file is bad.
    """

    def __init__(self, folder: Path, source_lang: str, target_lang: str, least: int = bahdanau_tables.LONG) -> None:
        self.folder, self.data, self.least = folder, folder / DATA, least
        found = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
        models = [path for path in found if any((path / file).exists() for file in FILES)]
        models.sort(key=lambda path: list(NAMES).index(path.name) if path.name in NAMES else len(NAMES))
        self.folders = {NAMES.get(path.name, path.name): path for path in models}
        if not self.folders:
            raise InputError(f"{folder}: holds no run; give a folder that has RNNsearch-50/{TRANSLATIONS} and the like")
        self.ignored = [path.name for path in found if path not in models and path.name not in (DATA, OTHERS)]
        self.test: TestSet = read_test_set(*(self.data / f"test.{x}" for x in (source_lang, target_lang)), [])
        self.dictionaries = [self.data / f"dict.{x}.txt" for x in (source_lang, target_lang)]
        self.systems = {name: self._read(path / TRANSLATIONS) for name, path in self.with_file(TRANSLATIONS).items()}
        self.banned = {name: self._read(path / BANNED) for name, path in self.with_file(BANNED).items()}
        self._falls: dict[str, tuple[float, float, float]] = {}  # several claims need the same bootstraps
        others = sorted((folder / OTHERS).glob("[!.]*")) if (folder / OTHERS).is_dir() else []
        for path in others:
            if path.stem in {*self.folders, *self.systems}:
                raise InputError(f"{path}: another system is called {path.stem}, too; rename the file")
            self.systems[path.stem] = self.banned[path.stem] = self._read(path)

    def with_file(self, file: str) -> dict[str, Path]:
        """The folders of the models that have a file."""
        return {name: path for name, path in self.folders.items() if (path / file).exists()}

    def lacking(self, file: str) -> list[str]:
        """The paper's models that have no folder, and all models that lack a file, each with the reason."""
        absent = [f"{name} (no folder {folder})" for folder, name in NAMES.items() if name not in self.folders]
        return absent + [f"{name} (no {file})" for name in self.folders if name not in self.with_file(file)]

    def _read(self, path: Path) -> list[str]:
        lines = read_system(path)
        check_size(path, lines, self.test)
        return lines

    @cached_property
    def known(self) -> list[int] | None:
        """The sentences without unknown words; None if a dictionary is missing."""
        there = all(path.exists() for path in self.dictionaries)
        return bahdanau_tables.known_sentences(self.test, *self.dictionaries) if there else None

    @cached_property
    def long(self) -> list[int]:
        """The sentences of ``least`` words or more."""
        return [number for number, length in enumerate(self.test.lengths) if length >= self.least]

    @cached_property
    def short(self) -> list[int]:
        """The sentences of fewer than ``least`` words."""
        return [number for number, length in enumerate(self.test.lengths) if length < self.least]

    def fall(self, name: str) -> tuple[float, float, float]:
        """A system's BLEU in percent on short and on long sentences, and half the 95 % interval of the difference."""
        if name not in self._falls:
            (short, short_error), (long, long_error) = (self._interval(name, part) for part in (self.short, self.long))
            self._falls[name] = short, long, hypot(short_error, long_error)
        return self._falls[name]

    def _interval(self, name: str, sentences: Sequence[int]) -> tuple[float, float]:
        """BLEU in percent on some sentences, and half of its 95 % interval by sacrebleu's bootstrap."""
        hypotheses, references = (
            [lines[n] for n in sentences] for lines in (self.systems[name], self.test.reference_words)
        )
        measure = metric()
        score = measure.corpus_score(hypotheses, [references], n_bootstrap=RESAMPLES)
        told = score.format(width=6, signature=measure.get_signature().format(), is_json=True)
        return score.score, json.loads(told).get("confidence_var", 0.0)  # left out if BLEU is zero in every resample
