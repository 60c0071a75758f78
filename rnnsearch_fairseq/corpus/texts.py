"""What the commands on parallel text have in common: names without language, and two languages."""

import argparse
from pathlib import Path

Texts = tuple[Path, ...]


def add_languages(parser: argparse.ArgumentParser) -> None:
    """Add the options that name the two languages."""
    parser.add_argument(
        "-s", "--source-lang", required=True, help="language of the source, the ending of its files: en"
    )
    parser.add_argument("-t", "--target-lang", required=True, help="language of the target: fr")


def texts_of(name: str | Path, *endings: str) -> Texts:
    """The files of a text, one for each language: ``text/train`` stands for text/train.en and text/train.fr."""
    return tuple(Path(f"{name}.{ending}") for ending in endings)
