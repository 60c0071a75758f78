"""Write the sentence pairs of French translations of documentation and software, in one of three parts.

``python -m recipes.docs_en_fr.pairs OUT DIR... [TABLE]``

Each DIR has some of ``PROJECTS``: folders of PO files, or tables with tabs. OUT gets ``{train,valid,test}.{en,fr}``,
and the messages that are drawn of each held-out project once more in ``PROJECT.{en,fr}``.
Files and projects that ``held_out.txt`` names are held out, and the training text has no sentence of theirs.
TABLE, ``php.tsv``, adds its pairs and the obsolete messages of the PO files to the training text.
"""

import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rnnsearch_fairseq.command_line import print_without_traceback
from rnnsearch_fairseq.corpus.pairs import Pair, read_files
from rnnsearch_fairseq.corpus.rows import texts_of, write_rows
from rnnsearch_fairseq.corpus.split import clean_pair
from rnnsearch_fairseq.documents.formats import is_document, read_document
from rnnsearch_fairseq.errors import InputError

PROJECTS = [
    "python-fr",
    "django-fr",
    "frc",
    "picard",
    "dash",
    "cloudstack",
    "flask",
    "open-contracting",
    "beeware",
    "comprehensive-rust",
    "godot-editor",
    "netbox",
    "horizon",
    "jupyterlab",
    "sphinx",
    "wagtail",
    "geotrek",
    "pycord",
    "tldr.tsv",
    "tatoeba.tsv",
]
HELD_OUT = Path(__file__).with_name("held_out.txt")  # lines "valid NAME" and "test NAME" of files and of whole projects
MAX_HELD_OUT = 300  # messages that are drawn of each held-out project
MAX_EQUAL_WORDS = 2  # of equal sides: names, which a model should learn to copy; longer ones are not translated


def read_held_out() -> dict[str, str]:
    """The part, ``valid`` or ``test``, of each file and project that is held out."""
    return {name: part for part, name in map(str.split, HELD_OUT.read_text().splitlines())}


def find_texts(folders: list[Path]) -> dict[str, Path]:
    """The PO files and tables of all projects in ``folders``, by names that begin with the project's."""
    found = {}
    for project in PROJECTS:
        tops = [folder / project for folder in folders if (folder / project).exists()]
        if not tops:
            raise InputError(f"{project}: in none of {', '.join(map(str, folders))}; give its folder, too")
        files = [tops[0]] if tops[0].is_file() else sorted(tops[0].rglob("*.po"))
        found |= {path.relative_to(tops[0].parent).as_posix(): path for path in files}
    return found


def read_pairs(path: Path, max_equal_words: int, left_out: Counter[str]) -> Iterator[Pair]:
    """Yield the cleaned pairs of a file whose sides differ, or are equal and short."""
    for raw in read_files([path], ("en", "fr"), left_out)[0]:
        pair = clean_pair(raw, left_out, keep_markup=True, keep_equal=True)
        if pair is not None and (pair[0] != pair[1] or len(pair[0].split()) <= max_equal_words):
            yield pair


def read_obsolete(path: Path, left_out: Counter[str]) -> Iterator[Pair]:
    """Yield the cleaned pairs of a PO file's obsolete messages (``#~``), which its program or page no longer has."""
    for message in read_document(path).store.units if is_document(path) else []:
        if message.isobsolete() and message.target and not message.isfuzzy():
            pair = clean_pair((str(message.source), str(message.target)), left_out, keep_markup=True, keep_equal=True)
            if pair is not None:
                yield pair


def write_pairs(out: Path, folders: list[Path], table: Path | None = None) -> None:
    """Write the pairs of all projects, each once; those for training in random order, with those that ``table`` adds.

    Raises:
        InputError: a project is missing, what is held out is missing, or a file is bad.
    """
    files, held_out = find_texts(folders) | ({table.name: table} if table else {}), read_held_out()
    for name in held_out.keys() - files.keys() - set(PROJECTS):
        raise InputError(f"{name}: no such file; give the folders of the projects")
    parts: dict[str, dict[Pair, None]] = {"valid": {}, "test": {}, "train": {}}
    projects: dict[str, dict[Pair, None]] = {}
    left_out: Counter[str] = Counter()
    for name, path in files.items():
        project = name.partition("/")[0]
        part = held_out.get(name) or held_out.get(project) or "train"
        chosen = projects.setdefault(project, {}) if project in held_out else parts[part]
        chosen |= dict.fromkeys(read_pairs(path, MAX_EQUAL_WORDS if part == "train" else 0, left_out))
        if table and part == "train":
            chosen |= dict.fromkeys(read_obsolete(path, left_out))
    out.mkdir(parents=True, exist_ok=True)
    for project, pairs in projects.items():
        drawn = random.Random(1).sample([*pairs], min(MAX_HELD_OUT, len(pairs)))
        parts[held_out[project]] |= dict.fromkeys(drawn)
        write_rows(texts_of(out / project, "en", "fr"), drawn)
    known: set[str] = set()
    for part, pairs in parts.items():
        if part == "train":
            known.update(side for pairs_of_project in projects.values() for pair in pairs_of_project for side in pair)
        chosen_pairs = [pair for pair in pairs if known.isdisjoint(pair)]
        known.update(side for pair in chosen_pairs for side in pair)
        if part == "train":
            random.Random(1).shuffle(chosen_pairs)
        write_rows(texts_of(out / part, "en", "fr"), chosen_pairs)
        print(f"{part}: {len(chosen_pairs):,} pairs")


if __name__ == "__main__":
    print_without_traceback()
    paths = [*map(Path, sys.argv[1:])]
    write_pairs(paths[0], [*filter(Path.is_dir, paths[1:])], next(filter(Path.is_file, paths[1:]), None))
