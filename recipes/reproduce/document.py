"""The parts of a report, and their Markdown."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rnnsearch_fairseq.output import check_not_input, open_output

SPECIAL = re.compile(r"[\\`*_\[\]|~#]")


@dataclass(frozen=True)
class Table:
    """Rows of as many cells as the header has."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: Sequence[str]


@dataclass(frozen=True)
class Picture:
    """A PNG: the name of its file, its bytes, and a description of its content."""

    name: str
    png: bytes
    description: str


Block = str | Table | Bullets | Picture  # str: a paragraph


@dataclass
class Section:
    """A heading and the blocks under it. All text is plain: the marks of Markdown are escaped."""

    title: str
    blocks: list[Block] = field(default_factory=list)

    def missing(self, items: Sequence[str]) -> None:
        """Name the missing items, if there are any."""
        if items:
            self.blocks.append(f"Missing: {', '.join(items)}.")

    @property
    def pictures(self) -> list[Picture]:
        """The blocks that are pictures."""
        return [block for block in self.blocks if isinstance(block, Picture)]


def to_markdown(sections: Sequence[Section], title: str | None = None) -> str:
    """The document as Markdown; pictures are linked by the names of their files."""
    parts = [f"# {_escape(title)}"] if title else []
    for section in sections:
        parts.append(f"## {_escape(section.title)}")
        parts += map(markdown_block, section.blocks)
    return "\n\n".join(parts) + "\n"


def markdown_block(block: Block) -> str:
    """A block as Markdown, without a line break at its end."""
    if isinstance(block, Table):
        header, *rows = [f"| {' | '.join(map(_escape, cells))} |" for cells in (block.header, *block.rows)]
        return "\n".join([header, f"| {' | '.join(['---'] * len(block.header))} |", *rows])
    if isinstance(block, Bullets):
        return "\n".join(f"- {_escape(item)}" for item in block.items)
    if isinstance(block, Picture):
        return f"![{_escape(block.description)}]({block.name})"
    return _escape(block)


def _escape(text: str) -> str:
    return SPECIAL.sub(r"\\\g<0>", text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def write_text(text: str, path: Path | None, inputs: Iterable[Path | None]) -> None:
    """Write to a file, whole or not at all; print it if ``path`` is None.

    Raises:
        InputError: the file cannot be written, or is one of the ``inputs``, of which those that are None do not count.
    """
    if path is None:
        print(text, end="")
        return
    check_not_input(path, filter(None, inputs))
    with open_output(path) as out:
        out.write(text.encode())
