"""The folder of runs that ``recipes.reproduce.report`` reads, and what it lacks."""

import io
import re
import tarfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from recipes.reproduce.bleu import scored_by_bleu
from recipes.reproduce.epochs import read_log
from recipes.reproduce.systems import Links, TestSet, link_scores, read_links, read_parallel, read_systems
from rnnsearch_fairseq.corpus.rows import texts_of
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.vocabulary import Vocabulary

LONG = 30  # words of a long sentence
KEPT = LOG, TRANSLATIONS, BANNED, FAIRSEQ = "train.log", "groundhog.tok", "nounk.tok", "fairseq.tok"
ALIGNMENTS, SCORES, LINKS = "groundhog.jsonl", "score.jsonl", "score.align"
UPDATES_LINE = re.compile(rb"^.*\| train_inner \|.*\n", re.MULTILINE)  # a line of a log, on which no report depends
SEED = re.compile(r"'seed': ([0-9]{1,9})")  # of a training, in its log
DATA, OTHERS, GOLD = "data", "others", "test.align"
NAMES = {name: name for name in ("RNNencdec-30", "RNNsearch-30", "RNNencdec-50", "RNNsearch-50")}
PHRASE_BASED = "phrase-based"  # of recipes/reproduce/phrase_based.sh, which has no seed; the paper's is Moses
NAMES["RNNsearch-50-long"] = "RNNsearch-50⋆"


class BahdanauRuns:
    """The content of a folder of runs.

    ``folders`` has the models' folders by name, in the order of the tables; ``systems`` the translations by the models
    and by ``others``; ``banned`` their translations with unknown words banned (of ``others``, the same);
    ``by_fairseq`` the models' translations by fairseq's search. Sentences of ``least`` words or more are long.

    Raises:
        InputError: there is no run or no test set, or a file is bad.
    """

    def __init__(self, folder: Path, source_lang: str, target_lang: str, least: int = LONG) -> None:
        self.folder, self.data, self.least = folder, folder / DATA, least
        folders = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
        runs = {path.name: path for path in folders if any((path / file).exists() for file in (*KEPT, SCORES, LINKS))}
        self.folders = {NAMES.get(name, name): runs[name] for name in (*NAMES, *runs) if name in runs}
        if not self.folders:
            raise InputError(f"{folder}: holds no run; give a folder that has RNNsearch-50/{TRANSLATIONS} and the like")
        self._texts = texts_of(self.data / "test", source_lang, target_lang)
        self.test = TestSet(*read_parallel(*self._texts))
        self.dictionaries = [self.data / f"dict.{language}.txt" for language in (source_lang, target_lang)]
        self.systems, self.banned, self.by_fairseq = (
            read_systems(self.with_file(file), self._texts[1]) for file in (TRANSLATIONS, BANNED, FAIRSEQ)
        )
        self._others = sorted(path for path in (folder / OTHERS).glob("[!.]*") if path.stem not in self.folders)
        self.others = read_systems({path.stem: path for path in self._others}, self._texts[1])
        self.systems |= self.others
        self.banned |= self.others

    def with_file(self, file: str) -> dict[str, Path]:
        """The path of a file of each model that has it."""
        return {name: path / file for name, path in self.folders.items() if (path / file).exists()}

    def lacking(self, *files: str) -> list[str]:
        """The models that lack files, and which."""
        folders = self.folders.items()
        lacks = {name: [f"no {file}" for file in files if not (path / file).exists()] for name, path in folders}
        return [f"{name} ({', '.join(of_model)})" for name, of_model in lacks.items() if of_model]

    @cached_property
    def seeds(self) -> dict[str, str]:
        """The seed of each model's training, as its log has it; empty if the log has none."""
        return {name: (SEED.findall(read_log(path)) or [""])[-1] for name, path in self.with_file(LOG).items()}

    @cached_property
    def links(self) -> dict[str, list[Links]]:
        """Each model's links of the test set's words, of SCORES or as kept in LINKS."""
        kept = {name: read_links(path, self._texts[0]) for name, path in self.with_file(LINKS).items()}
        found = kept | {name: [*link_scores(path, *self._texts)] for name, path in self.with_file(SCORES).items()}
        return {name: found[name] for name in self.folders if name in found}

    @cached_property
    def gold(self) -> list[Links] | None:
        """The gold links of the test set, if there are any."""
        path = self.data / GOLD
        return read_links(path, self._texts[0]) if path.exists() else None

    def translations_kept(self) -> bytes:
        """A .tar.xz of the folder as the report reads it, with links in place of weights, and without checkpoints."""
        models = [path for folder in self.folders.values() for path in sorted(folder.glob("*")) if path.name in KEPT]
        files = [*sorted(self.data.iterdir()), *self._others, *models]
        links = {f"{self.folders[name].name}/{LINKS}": _write_links(links) for name, links in self.links.items()}
        return packed({str(path.relative_to(self.folder)): path.read_bytes() for path in files} | links)

    @cached_property
    def known(self) -> list[int] | None:
        """The sentences without unknown words, that is, all of whose words, on both sides, are in the dictionaries.

        None if a dictionary is missing.
        """
        if not all(path.exists() for path in self.dictionaries):
            return None
        vocabularies = [Vocabulary.read(path) for path in self.dictionaries]
        return [
            number
            for number, pair in enumerate(zip(self.test.source, self.test.reference))
            if all(word in known for line, known in zip(pair, vocabularies) for word in line.split())
        ]


def bleu_by_seed(
    seeds: Sequence[BahdanauRuns],
    name: str,
    sentences: Sequence[int],
    drawn: np.ndarray,
    banned: bool = False,
    penalised: bool = True,
) -> np.ndarray:
    """A system's BLEU on some sentences, in each row of a draw of them: a row for each seed, the mean of its runs.

    Without a log, the seed is the folder. Equal translations, as of another system in two folders, count once.
    """
    found: dict[tuple[str, ...], str] = {}
    for number, runs in enumerate(seeds):
        if lines := (runs.banned if banned else runs.systems).get(name):
            found.setdefault(tuple(lines), runs.seeds.get(name) or f"folder {number}")
    rows: dict[str, list[np.ndarray]] = {}
    for lines, seed in found.items():
        scored = scored_by_bleu(lines, seeds[0].test.reference_words, penalised)
        rows.setdefault(seed, []).append(scored.on(sentences).scores(drawn))
    return np.array([np.mean(of, axis=0) for of in rows.values()])


def _write_links(sentences: Sequence[Links]) -> bytes:
    """Links as :func:`read_links` reads them, in the order of the target words."""
    lines = (" ".join(f"{i}-{j}" for i, j in sorted(links, key=lambda link: link[::-1])) for links in sentences)
    return "".join(f"{line}\n" for line in lines).encode()


def packed(files: Mapping[str, bytes]) -> bytes:
    """A .tar.xz of files, by their names in it, without the intervals of logs."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz") as archive:
        for name, text in files.items():
            lines = UPDATES_LINE.sub(b"", text)
            member = tarfile.TarInfo(name)
            member.size = len(lines)
            archive.addfile(member, io.BytesIO(lines))
    return content.getvalue()
