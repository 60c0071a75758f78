"""Write the pages of Microsoft's documentation that people translated, and the English pages that they translated.

``python -m recipes.docs_en_fr.microsoft_pages ENGLISH FRENCH OUT``

ENGLISH and FRENCH are clones with their history. Each French version of a page names its translator, a person or a
machine, and the English commit. Of each page ``OUT/en`` and ``OUT/fr`` get the newest version by a person whose English
commit ENGLISH has, without the anchors of headings, which English pages lack.
"""

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryFile

from rnnsearch_fairseq.command_line import program

HISTORY = ("log", "-m", "--first-parent", "--raw", "--no-abbrev", "--no-renames", "--format=", "HEAD", "--", "*.md")
PERSON = re.compile(r"\nms\.translationtype: *H")
COMMIT = re.compile(r'\nms\.sourcegitcommit: *"?([0-9a-f]{40})')
ANCHOR = re.compile(r'<a name="[^"]*"></a>')


def read_versions(french: Path) -> Iterator[tuple[str, str]]:
    """The path of each page and the name of each of its versions, the newest one first."""
    history = subprocess.run(["git", "-C", french, *HISTORY], stdout=subprocess.PIPE, check=True, text=True).stdout
    for line in history.splitlines():
        described, path = line.split("\t")
        yield path, described.split()[3]


def read_contents(clone: Path, names: Iterable[str]) -> Iterator[str]:
    """The text of each version of a page, empty where the clone lacks it."""
    with TemporaryFile() as wanted:
        wanted.write("".join(f"{name}\n" for name in names).encode())
        wanted.seek(0)
        with subprocess.Popen(["git", "-C", clone, "cat-file", "--batch"], stdin=wanted, stdout=subprocess.PIPE) as git:
            for head in git.stdout:
                size = int(head.split()[-1]) + 1 if b" blob " in head else 0
                yield git.stdout.read(size)[:-1].decode("utf-8-sig", "ignore")


@program
def main() -> None:
    english, french, out = map(Path, sys.argv[1:])
    versions = [*read_versions(french)]
    pages = zip(versions, read_contents(french, (name for _, name in versions)))
    people = ((path, page) for (path, _), page in pages if PERSON.search(page))
    translated = [(path, page, commit[1]) for path, page in people if (commit := COMMIT.search(page))]
    originals = read_contents(english, (f"{commit}:{path}" for path, _, commit in translated))
    for (path, page, _), original in zip(translated, originals):
        if original and not (out / "fr" / path).exists():
            for language, text in ("en", original), ("fr", ANCHOR.sub("", page)):
                (out / language / path).parent.mkdir(parents=True, exist_ok=True)
                (out / language / path).write_text(text)
