"""The folder of runs that ``rnnsearch report`` reads, and what it lacks."""

from functools import cached_property
from pathlib import Path

from recipes.reproduce import bahdanau_tables
from recipes.reproduce.systems import read_systems, read_test_set
from rnnsearch_fairseq.errors import InputError

LOG, TRANSLATIONS, BANNED, FAIRSEQ, SCORES = "train.log", "generate.out", "nounk.out", "fairseq.out", "score.jsonl"
FILES = (LOG, TRANSLATIONS, BANNED, FAIRSEQ, SCORES)
DATA, OTHERS, GOLD, SEGMENTS = "data", "others", "test.align", "test.segments"
NAMES = {name: name for name in ("RNNencdec-30", "RNNsearch-30", "RNNencdec-50", "RNNsearch-50")}
NAMES["RNNsearch-50-long"] = "RNNsearch-50⋆"


class BahdanauRuns:
    """What a folder of runs holds, and what it lacks.

    ``folders`` has the models' folders by name, in the order of the tables; ``systems`` the translations by the models
    and by ``others``; ``banned`` their translations with unknown words banned (of ``others``, the same);
    ``by_fairseq`` the models' translations by fairseq's search. Sentences of ``least`` words or more are long.

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
        self.test = read_test_set(*(self.data / f"test.{x}" for x in (source_lang, target_lang)), [])
        self.dictionaries = [self.data / f"dict.{x}.txt" for x in (source_lang, target_lang)]
        self.systems, self.banned, self.by_fairseq = (
            read_systems(self.with_file(file), self.test) for file in (TRANSLATIONS, BANNED, FAIRSEQ)
        )
        others: dict[str, Path] = {}
        for path in sorted((folder / OTHERS).glob("[!.]*")):
            if path.stem in {*self.folders, *others}:
                raise InputError(f"{path}: another system is called {path.stem}, too; rename the file")
            others[path.stem] = path
        self.others = read_systems(others, self.test)
        self.systems |= self.others
        self.banned |= self.others

    def with_file(self, file: str) -> dict[str, Path]:
        """The models that have a file, and its path."""
        return {name: path / file for name, path in self.folders.items() if (path / file).exists()}

    def lacking(self, file: str) -> list[str]:
        """The paper's models that have no folder, and all models that lack a file, each with the reason."""
        absent = [f"{name} (no folder {folder})" for folder, name in NAMES.items() if name not in self.folders]
        return absent + [f"{name} (no {file})" for name in self.folders if name not in self.with_file(file)]

    @cached_property
    def known(self) -> list[int] | None:
        """The sentences without unknown words; None if a dictionary is missing."""
        there = all(path.exists() for path in self.dictionaries)
        return bahdanau_tables.known_sentences(self.test, *self.dictionaries) if there else None
