"""Find the texts of a Markdown page, and write their translations in their places.

pyromark (pulldown-cmark) reads CommonMark, tables, footnotes and lists of definitions, tells where each part of a text
stands, and takes time in proportion to the page. mistletoe, which translate-toolkit uses, takes quadratic time and
writes the whole page anew; markdown-it-py does not tell where something stands in a paragraph; the authors of
tree-sitter-markdown advise against it where the result must be right.

A text is a paragraph, a heading, a cell, a term or the text of an item, on one line but for hard line breaks. What
extensions read at the beginning of a line stays as it is (`_Lines`).
"""

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from rnnsearch_fairseq.documents.html import html_units
from rnnsearch_fairseq.documents.units import Document, Page, Place, Unit
from rnnsearch_fairseq.text.markup import LETTER

# Lines that stay, after blanks and signs of quotations, and end a paragraph.
KEPT_LINE = re.compile(
    rb""":{3,}.* | \[![\w-]+\].* | \*\[[^\]]+\]:.*     # ::: note, [!NOTE] and an abbreviation
    | import\b.*['"];? | export\ (?:const|default)\b.* | -+8<-+.*     # of MDX, and what MkDocs includes
    | \[{1,2}_?(?i:toc)_?\]{1,2} | \{:?\ ?[\#.:][^{}]*\} | \([\w:.-]+\)=     # [TOC], attributes, a target of MyST
    | \{%.*%\} | \{\{.*\}\} | \{\#.*\#\} | \$\$.+\$\$     # templates
    """,
    re.VERBOSE,
)
TITLED = re.compile(rb'(?:!!!|\?\?\?\+?|===[!+]?)[ \t]+[^"]*(?:"([^"]+)")?')  # !!! note "Title", and a text indented
# ```{note} and ```admonish, which hold text.
FENCE = re.compile(
    rb"(`{3,}|~{3,})[ \t]*(?:admonish\b|\{(?:admonition|attention|caution|danger|error|hint|important|note|seealso|tip"
    rb"|todo|versionadded|versionchanged|warning)\}).*"
)
FRONT_MATTER = re.compile(rb"(?:\xef\xbb\xbf)?(---|\+\+\+)[ \t]*\r?\n(?=[\w\"'\[#])")
PREFIX = re.compile(rb"[ \t>]*")
BLANKS = re.compile(r"[ \t\r\n]*\n[ \t\r\n>]*")
MARK = re.compile(rb"(?:[?!][ \t]+)?[A-Z]{2,}:(?:[ \t]+|[ \t]*\r?\n[ \t>]*|$)")  # NOTE:
ATTRIBUTES = re.compile(rb"\{:?[ ]?[#.][^{}\n]*\}")  # # Heading {#id}
BREAK = re.compile(rb"[ \t]*\\?\r?\n?[ \t>]*")
REFERENCE = re.compile(r"\[([^\[\]]*)\]\[[^\[\]]*\]")  # whose target is on another page
NAME = re.compile(r"[*_`]*[a-z][\w.:-]*[*_`]*")
BAR = re.compile(r"(?<!\\)\|")
INLINE = {"Emphasis", "Strong", "Strikethrough", "Link", "Image"}
LINK_TAG = re.compile(r"</?[ax]\d+/?>")  # of a link, as a translator sees it
NUMBER = re.compile(rb"<[/ax]{1,2}(\d+)")  # the page's own


def read_markdown(content: bytes, attribute_lists: bool = False) -> Document:
    """The units of a page in UTF-8.

    Args:
        content: the page.
        attribute_lists: its site reads "# Heading {#id}", as MkDocs does with its extension attr_list.
    """
    page = Page(content)
    lines = _Lines(page)
    units = list(_Reader(page, attribute_lists).read(lines.readable()))
    return Document(page, [unit for _, unit in sorted(lines.units + units, key=lambda found: found[0])])


def has_attribute_lists(path: Path) -> bool:
    """Whether a page belongs to a site of MkDocs that reads attributes."""
    files = (folder / name for folder in path.resolve().parents for name in ("mkdocs.yml", "mkdocs.yaml"))
    found = next(filter(os.path.isfile, files), None)
    return found is not None and b"attr_list" in found.read_bytes()


class _Lines:
    """What extensions of Markdown read at the beginning of a line, which the parser does not see.

    Args:
        page: what is read.
    """

    def __init__(self, page: Page) -> None:
        self.units: list[tuple[int, Unit]] = []  # titles in quotation marks, and where they begin
        self._page = page
        self._fences: list[bytes] = []
        self._changed: list[bytes] = []

    def readable(self) -> str:
        """The page for the parser: each sign is where it was, or a blank is."""
        content = self._page.content
        begun = FRONT_MATTER.match(content)
        end = begun and re.compile(b"^%b[ \t\r]*$" % re.escape(begun[1]), re.MULTILINE).search(content, begun.end())
        first = end.end() if end else 0
        self._changed = [re.sub(rb"[^\n]", b" ", content[:first])]
        position = first
        for line in content[first:].splitlines(keepends=True):
            self._changed.append(self._read(line, position))
            position += len(line)
        return b"".join(self._changed).replace("\ufeff".encode(), b"   ").decode()

    def _read(self, line: bytes, position: int) -> bytes:
        """A line for the parser."""
        prefix = PREFIX.match(line)[0]
        text = line[len(prefix) :].rstrip()
        if FENCE.fullmatch(text):
            self._fences.append(FENCE.match(text)[1])
        elif self._fences and text.startswith(self._fences[-1]) and not text.strip(text[:1]):
            self._fences.pop()
        elif title := TITLED.fullmatch(text):
            if title[1] and LETTER.search(title[1].decode()):
                place = position + len(prefix) + title.start(1), position + len(prefix) + title.end(1)
                fill = partial(_fill_title, self._page, place)
                self.units.append((place[0], Unit(self._page.line(position), [title[1].decode()], [""], False, fill)))
            # An item of a list, whose text is indented, too.
            return prefix + b"- #".ljust(len(text)) + line[len(prefix) + len(text) :]
        elif not KEPT_LINE.fullmatch(text):
            return line
        return prefix + b" " * len(text) + line[len(prefix) + len(text) :]


def _fill_title(page: Page, place: Place, texts: Sequence[str]) -> list[str]:
    page.replace(place, [texts[0].replace('"', "'").encode()])
    return []


class _Reader:
    """What the parser finds in a page, one after another."""

    def __init__(self, page: Page, attribute_lists: bool) -> None:
        self._page, self._attribute_lists = page, attribute_lists
        self._slugs: Counter[str] = Counter()
        self._first = 1 + max((int(number[:9]) for number in NUMBER.findall(page.content)), default=-1)
        self._text = _Text(page, self._first)
        self._literal: list[Place] = []  # the lines of a block of HTML
        self._inside = dict.fromkeys(("CodeBlock", "DefinitionListTitle", "Heading", "HtmlBlock", "TableCell"), False)

    def read(self, readable: str) -> Iterator[tuple[int, Unit]]:
        """The units, and where each begins."""
        from pyromark import Options, events_with_range

        options = Options.ENABLE_TABLES | Options.ENABLE_FOOTNOTES | Options.ENABLE_DEFINITION_LIST
        options |= Options.ENABLE_STRIKETHROUGH | Options.ENABLE_TASKLISTS
        for event, span in events_with_range(readable, options=options):
            kind, value = (event, None) if isinstance(event, str) else next(iter(event.items()))
            name = value if isinstance(value, str) else next(iter(value), "") if isinstance(value, dict) else ""
            place = span["start"], span["end"]
            if kind in ("Start", "End") and name in INLINE:
                self._text.add_element(kind, value[name] if isinstance(value, dict) else {}, place)
            elif kind in ("Start", "End", "Rule", "TaskListMarker"):
                yield from self._end_text()
                yield from self._turn(kind, name)
            elif self._inside["HtmlBlock"]:
                self._literal.append(place)
            elif not self._inside["CodeBlock"]:
                self._text.add(kind, value, place)

    def _turn(self, kind: str, name: str) -> Iterator[tuple[int, Unit]]:
        """A block begins or ends."""
        if name in self._inside:
            self._inside[name] = kind == "Start"
        lines, self._literal = self._literal, []
        if lines and all(end == start for (_, end), (start, _) in pairwise(lines)):
            yield from ((lines[0][0], unit) for unit in html_units(self._page, (lines[0][0], lines[-1][1])))

    def _end_text(self) -> Iterator[tuple[int, Unit]]:
        """The unit of the text that ends here."""
        text, self._text = self._text, _Text(self._page, self._first)
        if not text.has_letters:
            return
        attributes = text.trim()
        source, names = text.source(), self._inside["Heading"] or self._inside["DefinitionListTitle"]
        before = after = ""
        if self._inside["Heading"]:
            github, mkdocs = self._find_ids("".join(text.words).removesuffix(attributes.decode()))
            if self._attribute_lists and not attributes and not mkdocs[:1].isdigit():  # #12 may be an issue
                after = f" {{#{mkdocs}}}"
            elif b"#" not in attributes:
                before = "".join(f'<a id="{name}"></a>' for name in dict.fromkeys((github, mkdocs)))
        if LETTER.search(LINK_TAG.sub("", source)) and not (names and NAME.fullmatch(source)):
            form = text.form(before, after, self._inside["TableCell"])
            fill = partial(_fill, self._page, (text.start, text.end), source, PLAIN if form == PLAIN else form)
            yield text.start, Unit(self._page.line(text.start), [source], [""], False, fill)

    def _find_ids(self, heading: str) -> list[str]:
        """What links name a heading by, according to GitHub (and MyST) and to Python-Markdown (MkDocs)."""
        heading = REFERENCE.sub(r"\1", heading)
        words = re.sub(r"[^\w\s-]", "", heading).strip().lower()
        latin = re.sub(r"[^\w\s-]", "", unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode())
        ids = []
        for slug, sign in ((re.sub(r"\s", "-", words), "-"), (re.sub(r"[-\s]+", "-", latin.strip().lower()), "_")):
            number = self._slugs[slug + sign]
            self._slugs[slug + sign] += 1
            ids.append(f"{slug}{sign}{number}" if number else slug)
        return ids


class _Form(NamedTuple):
    """How a translation is written; a page has many texts, and most of them have the form PLAIN."""

    before: str  # the ids by which links name a heading
    after: str
    cell: bool  # of a table
    breaks: tuple[bytes, ...]  # hard ones
    written: dict[str, str]  # what tags stand for
    titles: dict[str, tuple[str, str]]  # of tags, a title before them, and what they stand for behind it

    def write(self, text: str) -> list[bytes]:
        """The parts of a translation."""
        first, *others = (self._write_line(line) for line in text.split("\n"))
        breaks = self.breaks if len(self.breaks) == len(others) else (self.breaks[:1] or (b" ",)) * len(others)
        return [self.before.encode(), first, *chain.from_iterable(zip(breaks, others)), self.after.encode()]

    def _write_line(self, line: str) -> bytes:
        def written(tag: re.Match[str]) -> str:
            title, same = self.titles.get(tag[0], ("", ""))
            return same if title and line.endswith(title, 0, tag.start()) else self.written.get(tag[0], tag[0])

        line = BAR.sub(r"\|", line) if self.cell else line
        return (LINK_TAG.sub(written, line) if self.written else line).encode()


PLAIN = _Form("", "", False, (), {}, {})


def _fill(page: Page, place: Place, source: str, form: _Form, texts: Sequence[str]) -> list[str]:
    """Write the translation of a text; see `Unit`."""
    if sorted(LINK_TAG.findall(source)) != sorted(LINK_TAG.findall(texts[0])):
        return ["is left out, since its links are not those of the source"]
    if texts[0] != source:
        page.replace(place, form.write(texts[0]))
    return []


class _Text:
    """A text of a page, and how a translator sees it: links are tags, so that no sign of a target can mislead."""

    def __init__(self, page: Page, first: int) -> None:
        self.start, self.end = len(page.content), 0
        self.words: list[str] = []
        self.has_letters = False  # outside code and addresses
        self._page = page
        self._changes: list[tuple[int, int, str]] = []  # what a translator sees in other words
        self._breaks: list[bytes] = []  # hard ones
        self._next = first  # number of a tag
        self._written: dict[str, str] = {}  # what tags stand for
        self._titles: dict[str, tuple[str, str]] = {}  # of tags, a title before them, and what they stand for behind it
        self._open: list[tuple[str, int, bool]] = []  # the kind of each link; where its title begins; letters before it
        self._last = 0  # where the last part of a title ends

    def add(self, kind: str, value: Any, place: Place) -> None:
        """Add text, code, a tag or an end of a line."""
        content = self._page.content
        start, end = place
        if kind in ("SoftBreak", "HardBreak"):
            end = BREAK.match(content, start).end()
            self._changes.append((start, end, "\n" if kind == "HardBreak" else " "))
            self._breaks += [content[start:end]] * (kind == "HardBreak")
            self.words.append(" ")
            return
        if kind == "Text":
            start -= content[start - 1 : start] == b"\\"  # which takes its meaning from the sign
            self.has_letters |= LETTER.search(value) is not None
        elif b"\n" in content[start:end]:
            self._show(start, end, "<x{}/>")
        self._reach(start, end)
        self.words += [value] * (kind in ("Text", "Code"))

    def add_element(self, kind: str, value: dict[str, Any], place: Place) -> None:
        """Begin or end emphasis, a link or an image."""
        if kind == "Start":
            self._open.append((value.get("link_type", ""), place[0], self.has_letters))
            self._reach(*place)
            self._last = place[0]
            self.has_letters = False
            return
        link, start, before = self._open.pop()
        if link:
            self._add_link(link, start, place[1])
        self._last = place[1]
        self.has_letters |= before

    def _reach(self, start: int, end: int) -> None:
        self.start, self.end, self._last = min(self.start, start), max(self.end, end), end

    def _add_link(self, link: str, start: int, end: int) -> None:
        """Show a link as a tag, or its title between tags if it has words."""
        content = self._page.content
        first = start + 1 + content.startswith(b"!", start)
        last = max(first, self._last)
        end += 2 * (link == "Collapsed" and content.startswith(b"[]", end))
        self.end = max(self.end, end)
        if link in ("Autolink", "Email") or not self.has_letters:
            self.has_letters = False
            self._show(start, end, "<x{}/>")
            return
        self._show(start, first, "<a{}>")
        self._next -= 1
        tag = self._show(last, end, "</a{}>")
        if link in ("Shortcut", "Collapsed"):  # a title that is translated names no target
            title = content[first:last].decode()
            self._titles[tag] = f"<a{tag[3:]}{BLANKS.sub(' ', title)}", self._written[tag]
            self._written[tag] = f"][{title}]"

    def _show(self, start: int, end: int, tag: str) -> str:
        """Show a part of the text as a tag, in which a number is put."""
        tag = tag.format(self._next)
        self._next += 1
        self._changes.append((start, end, tag))
        self._written[tag] = self._page.content[start:end].decode()
        return tag

    def trim(self) -> bytes:
        """Leave out a mark before the text, and attributes behind it, which are returned."""
        content = self._page.content
        if mark := MARK.match(content, self.start, self.end):
            self.start = mark.end()
        first = content.rfind(b"{", self.start, self.end)
        if first < 0 or not ATTRIBUTES.fullmatch(content, first, self.end):
            return b""
        attributes, self.end = content[first : self.end], first
        self.end -= len(content[self.start : first]) - len(content[self.start : first].rstrip())
        return attributes

    def source(self) -> str:
        """The text as a translator sees it."""
        parts, last = [], self.start
        for start, end, shown in sorted(self._changes, key=lambda change: (change[0], -change[1])):
            if last <= start and end <= self.end:
                parts += [BLANKS.sub(" ", self._page.content[last:start].decode()), shown]
                last = end
        return "".join([*parts, BLANKS.sub(" ", self._page.content[last : self.end].decode())])

    def form(self, before: str, after: str, cell: bool) -> _Form:
        """How its translation is written."""
        return _Form(before, after, cell, tuple(self._breaks), self._written, self._titles)
