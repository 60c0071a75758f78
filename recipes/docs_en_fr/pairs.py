"""Write the sentence pairs of French translations of documentation and software, in one of three parts.

``python -m recipes.docs_en_fr.pairs OUT DIR... [TABLE...]``

Each DIR has some of ``PROJECTS``: folders of PO files, or tables with tabs. OUT gets ``{train,valid,test}.{en,fr}``,
and the messages that are drawn of each held-out project in ``PROJECT.{en,fr}``.
Files and projects that ``held_out.txt`` names are held out, and the training text has no sentence of theirs.
With a TABLE, such as ``php.tsv``, the training text has its pairs and the obsolete messages of the PO files, too.
"""

import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from rnnsearch_fairseq.command_line import program
from rnnsearch_fairseq.corpus.pairs import Pair, read_files
from rnnsearch_fairseq.corpus.rows import texts_of, write_rows
from rnnsearch_fairseq.corpus.split import clean_pair
from rnnsearch_fairseq.documents.formats import is_document, read_document
from rnnsearch_fairseq.errors import InputError

# Folders and tables that are always read; and those that are read twice from the third part of the training on: much
# reviewed documentation, tutorials in the second person, and messages of programs with counts and errors.
PROJECTS, TWICE = (
    names.split()
    for names in (
        "python-fr django-fr frc picard dash cloudstack flask open-contracting beeware comprehensive-rust godot-editor "
        "netbox horizon jupyterlab sphinx wagtail geotrek pycord tldr.tsv tatoeba.tsv fpm-docs warehouse elgg twlight "
        "penpot elixir-school datalab bookshelf",
        "python-fr django-fr react vue rust-book hf-course hf-agents yii2 android-apps canada duckduckgo-app firefox "
        "gladys matrix-react-sdk postgresql scratch wikipedia-app astro starlight fastapi iot-for-beginners",
    )
)
HELD_OUT = Path(__file__).with_name("held_out.txt")  # lines "valid NAME" and "test NAME" of files and of whole projects
MAX_HELD_OUT = 300  # messages that are drawn of each held-out project
MAX_EQUAL_WORDS = 2  # of equal sides: names, which a model should learn to copy; longer ones are not translated


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


def read_pairs(path: Path, max_equal_words: int, obsolete: bool = False) -> Iterator[Pair]:
    """Yield the cleaned pairs of a file whose sides differ, or are equal and short."""
    left_out: Counter[str] = Counter()
    for raw in chain(read_files([path], ("en", "fr"), left_out)[0], read_obsolete(path) if obsolete else ()):
        pair = clean_pair(raw, left_out, keep_markup=True, keep_equal=True)
        if pair is not None and (pair[0] != pair[1] or len(pair[0].split()) <= max_equal_words):
            yield pair


def read_obsolete(path: Path) -> Iterator[Pair]:
    """Yield the pairs of a PO file's obsolete messages (``#~``), which its program or page no longer has."""
    if is_document(path) and b"\n#~" in path.read_bytes():
        for message in read_document(path).store.units:
            if message.isobsolete() and message.target and not message.isfuzzy():
                yield str(message.source), str(message.target)


def write_pairs(out: Path, folders: list[Path], tables: Sequence[Path] = ()) -> None:
    """Write the pairs of all projects, each once; those for training in random order, with those of ``tables``."""
    files = find_texts(folders) | {table.name: table for table in tables}
    held_out = {name: part for part, name in map(str.split, HELD_OUT.read_text().splitlines())}
    for name in held_out.keys() - files.keys() - set(PROJECTS):
        raise InputError(f"{name}: no such file; give the folders of the projects")
    parts: dict[str, dict[Pair, str]] = {"valid": {}, "test": {}, "train": {}}  # each pair's project
    projects: dict[str, dict[Pair, str]] = {}
    for name, path in files.items():
        project = name.partition("/")[0]
        part = held_out.get(name) or held_out.get(project) or "train"
        chosen = projects.setdefault(project, {}) if project in held_out else parts[part]
        most, obsolete = (MAX_EQUAL_WORDS, bool(tables)) if part == "train" else (0, False)
        chosen |= {pair: project for pair in read_pairs(path, most, obsolete) if pair not in chosen}
    out.mkdir(parents=True, exist_ok=True)
    for project, pairs in projects.items():
        drawn = random.Random(1).sample([*pairs], min(MAX_HELD_OUT, len(pairs)))
        if held_out[project] == "valid":
            parts["valid"] |= dict.fromkeys(drawn, project)
        write_rows(texts_of(out / project, "en", "fr"), drawn)
    known: set[str] = set()
    for part, pairs in parts.items():
        if part == "train":
            known.update(side for pairs_of_project in projects.values() for pair in pairs_of_project for side in pair)
        chosen_pairs = [pair for pair in pairs if known.isdisjoint(pair)]
        known.update(side for pair in chosen_pairs for side in pair)
        if part == "train":
            for project in dict.fromkeys(pairs.values()):
                words = [len(source.split()) for source, target in chosen_pairs if pairs[source, target] == project]
                print(f"{project}: {len(words):,} pairs, {sum(words):,} English words")
            if len(tables) > 1:  # of the third part and later ones
                chosen_pairs += [pair for pair in chosen_pairs if pairs[pair].partition(".")[0] in TWICE]
            random.Random(1).shuffle(chosen_pairs)
        write_rows(texts_of(out / part, "en", "fr"), chosen_pairs)
        print(f"{part}: {len(chosen_pairs):,} pairs")


@program
def main() -> None:
    out, *paths = map(Path, sys.argv[1:])
    write_pairs(out, [*filter(Path.is_dir, paths)], [*filter(Path.is_file, paths)])
