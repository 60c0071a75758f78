"""The parts of a report, and their Markdown and HTML."""

import base64
import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rnnsearch_fairseq.output import check_not_input, open_output

STYLE = """
body { font: 16px/1.5 sans-serif; color: #222; max-width: 60em; margin: 2em auto; padding: 0 1em; }
h1, h2, h3 { line-height: 1.2; margin: 1.6em 0 0.6em; }
table { border-collapse: collapse; margin: 1em 0; }
th, td { border-bottom: 1px solid #ccc; padding: 0.3em 0.8em; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #222; }
td { overflow-wrap: anywhere; }
img { max-width: 100%; height: auto; margin: 1em 0; }
"""
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
    """A PNG: the name of its file, its bytes, and a description of what it shows."""

    name: str
    png: bytes
    shows: str


Block = str | Table | Bullets | Picture  # str: a paragraph


@dataclass
class Section:
    """A heading and the blocks under it. All text is plain: the marks of Markdown and HTML are escaped."""

    title: str
    blocks: list[Block] = field(default_factory=list)

    def missing(self, what: Sequence[str]) -> None:
        """Name what is missing, if anything is."""
        if what:
            self.blocks.append(f"Missing: {', '.join(what)}.")

    @property
    def pictures(self) -> list[Picture]:
        """The blocks that are pictures."""
        return [block for block in self.blocks if isinstance(block, Picture)]


def to_markdown(sections: Sequence[Section], title: str | None = None) -> str:
    """The document as Markdown; pictures are linked by the names of their files."""
    parts = [f"# {_mark(title)}"] if title else []
    for section in sections:
        parts.append(f"## {_mark(section.title)}")
        parts += map(markdown_block, section.blocks)
    return "\n\n".join(parts) + "\n"


def markdown_block(block: Block) -> str:
    """A block as Markdown, without a line break at its end."""
    if isinstance(block, Table):
        header, *rows = [f"| {' | '.join(map(_mark, cells))} |" for cells in (block.header, *block.rows)]
        return "\n".join([header, f"| {' | '.join(['---'] * len(block.header))} |", *rows])
    if isinstance(block, Bullets):
        return "\n".join(f"- {_mark(item)}" for item in block.items)
    if isinstance(block, Picture):
        return f"![{_mark(block.shows)}]({block.name})"
    return _mark(block)


def _mark(text: str) -> str:
    """Plain text as Markdown that shows it."""
    return SPECIAL.sub(r"\\\g<0>", text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def to_html(sections: Sequence[Section], title: str) -> str:
    """The document as one page that needs no other file: style and pictures are in it."""
    body = [f"<h1>{html.escape(title)}</h1>"]
    for section in sections:
        body.append(f"<h2>{html.escape(section.title)}</h2>")
        body += map(_html_block, section.blocks)
    head = f'<head><meta charset="utf-8"><title>{html.escape(title)}</title><style>{STYLE}</style></head>'
    return "\n".join(["<!DOCTYPE html>", '<html lang="en">', head, "<body>", *body, "</body>", "</html>\n"])


def _html_block(block: Block) -> str:
    if isinstance(block, Table):
        rows = [
            "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"
            for tag, row in [("th", block.header), *(("td", row) for row in block.rows)]
        ]
        return "<table>\n" + "\n".join(rows) + "\n</table>"
    if isinstance(block, Bullets):
        return "<ul>\n" + "\n".join(f"<li>{html.escape(item)}</li>" for item in block.items) + "\n</ul>"
    if isinstance(block, Picture):
        code = base64.b64encode(block.png).decode()
        return f'<img src="data:image/png;base64,{code}" alt="{html.escape(block.shows)}">'
    return f"<p>{html.escape(block)}</p>"


def write_text(text: str, path: Path | None, inputs: Iterable[Path | None]) -> None:
    """Write to a file, whole or not at all; None: print it.

    Raises:
        InputError: the file cannot be written, or is one of the ``inputs``, of which None are not there.
    """
    if path is None:
        print(text, end="")
        return
    check_not_input(path, filter(None, inputs))
    with open_output(path) as out:
        out.write(text.encode())
