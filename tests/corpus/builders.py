"""Small corpora in several formats, ``rnnsearch prepare``, and a run of train.sh that trains nothing."""

import json
import os
import random
import subprocess
import tempfile
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from rnnsearch_fairseq.corpus.pairs import Pair
from rnnsearch_fairseq.corpus.prepare import main
from tests.commands import printed_by

LANGUAGES = ("en", "fr")
ENGLISH = ["a", "big", "black", "cat", "sees", "the", "small", "red", "house", "of", "my", "good", "old", "friend"]
FRENCH = ["un", "grand", "noir", "chat", "voit", "la", "petite", "rouge", "maison", "de", "mon", "bon", "vieil", "ami"]


def make_pairs(number: int) -> list[Pair]:
    """Pairs of 2 to 6 words; many sources and targets repeat, in pairs of their own or equal ones."""
    generator = random.Random(1)
    pairs = []
    for _ in range(number):
        words = [generator.randrange(len(ENGLISH)) for _ in range(generator.randint(2, 6))]
        source, target = (" ".join(side[word] for word in words) for side in (ENGLISH, FRENCH))
        pairs.append((source, target))
        other = generator.choice(pairs)
        pairs += generator.choice([[], [], [], [other], [(source, other[1])], [(other[0], target)], [(source, "ami")]])
    return pairs[:number]


def number_pairs(number: int, first: int = 0) -> list[Pair]:
    """Pairs that have no sentence in common."""
    numbers = range(first, first + number)
    return [(f"a black cat number {n} sees it", f"un chat noir numéro {n} le voit") for n in numbers]


def write_files(folder: Path, pairs: list[Pair], name: str = "corpus") -> list[Path]:
    paths = [folder / f"{name}.{language}" for language in LANGUAGES]
    for path, side in zip(paths, zip(*pairs)):
        path.write_bytes("".join(f"{sentence}\n" for sentence in side).encode())
    return paths


def write_tsv(folder: Path, pairs: list[Pair], name: str = "corpus.tsv") -> list[Path]:
    path = folder / name
    path.write_bytes("".join(f"{source}\t{target}\n" for source, target in pairs).encode())
    return [path]


def unit(source: str, target: str) -> str:
    english, french = escape(source), escape(target)
    return f'<tu><tuv xml:lang="en"><seg>{english}</seg></tuv><tuv xml:lang="fr"><seg>{french}</seg></tuv></tu>\n'


def write_tmx(folder: Path, pairs: list[Pair]) -> list[Path]:
    return write_units(folder, "".join(unit(*pair) for pair in pairs))


def write_units(folder: Path, units: str, doctype: str = "", encoding: str = "utf-8") -> list[Path]:
    path = folder / "corpus.tmx"
    head = f'<?xml version="1.0" encoding="{encoding}"?>\n{doctype}\n<tmx version="1.4"><header/><body>'
    path.write_bytes(f"{head}{units}</body></tmx>\n".encode(encoding))
    return [path]


def write_po(folder: Path, pairs: list[Pair], name: str = "corpus.po") -> list[Path]:
    messages = (
        f"msgid {json.dumps(source, ensure_ascii=False)}\nmsgstr {json.dumps(target, ensure_ascii=False)}\n\n"
        for source, target in pairs
    )
    (folder / name).write_text(f'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8"\n\n{"".join(messages)}')
    return [folder / name]


def write_folder(folder: Path, pairs: list[Pair]) -> list[Path]:
    """A folder of a PO file, a TMX file and a table, each in its own folder, and of a file of another kind."""
    for number, write in enumerate((write_po, write_tmx, write_tsv)):
        part = folder / "folder" / str(number)
        part.mkdir(parents=True)
        write(part, pairs[100 * number : None if number == 2 else 100 * number + 100])
    (folder / "folder" / "notes.txt").write_text("not read")
    return [folder / "folder"]


def prepare(*words: str | Path, languages: tuple[str, str] = LANGUAGES) -> str:
    """What ``rnnsearch prepare`` prints when it is called with these words."""
    return printed_by(main, "-s", languages[0], "-t", languages[1], *words)


PROGRAMS = ("fairseq-preprocess", "fairseq-train", "rnnsearch", "sacrebleu")
PROGRAM = """#!/bin/sh
printf '%s\\0' "${0##*/}" "$@" > "$PLACE/$$.words"
mkdir -p bin.part checkpoints model.part
"""


def run_script(folder: Path) -> list[list[str]]:
    """Run FOLDER/train.sh with programs that only make its folders; returns the words of each command, in any order."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for program in PROGRAMS:
            (place / program).write_text(PROGRAM)
            (place / program).chmod(0o755)
        environment = {"PATH": f"{place}:{os.environ['PATH']}", "PLACE": name}
        subprocess.run(["bash", "train.sh"], cwd=folder, env=environment, check=True, capture_output=True)
        return [path.read_text().split("\0")[:-1] for path in place.glob("*.words")]


def parse(commands: list[list[str]], *beginning: str) -> Any:
    """The options of the command of fairseq that begins with these words, of those that `run_script` returns."""
    from fairseq import options

    (words,) = (words for words in commands if words[: len(beginning)] == [*beginning])
    words = [word for number, word in enumerate(words[1:]) if "--user-dir" not in words[number : number + 2]]
    if beginning == ("fairseq-preprocess",):
        return options.get_preprocessing_parser().parse_args(words)
    return options.parse_args_and_arch(options.get_training_parser(), words)
