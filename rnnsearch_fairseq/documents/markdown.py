"""Find the texts of a Markdown page, and write their translations in their places.

pyromark (pulldown-cmark) reads CommonMark, tables, footnotes and lists of definitions, tells where each part of a text
stands, and takes time in proportion to the page. mistletoe, which translate-toolkit uses, takes quadratic time and
writes the whole page anew; markdown-it-py does not tell where something stands in a paragraph; the authors of
tree-sitter-markdown advise against it where the result must be right.

A text is a paragraph, a heading, a cell, a term or the text of an item, on one line but for hard line breaks. What
extensions read at the beginning of a line stays as it is (`_Lines`).
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from rnnsearch_fairseq.documents.html import html_units
from rnnsearch_fairseq.documents.units import SHOWN, Document, Page, Part, Place, Unit
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
LINE_END = re.compile(r"(?<![ \t])[ \t]*[\r\n][ \t\r\n>]*")
MARK = re.compile(rb"(?:[?!][ \t]+)?[A-Z]{2,}:(?:[ \t]+|[ \t]*\r?\n[ \t>]*|$)")  # NOTE:
ATTRIBUTES = re.compile(rb"\{:?[ ]?[#.][^{}\n]*\}")  # # Heading {#id}
BREAK = re.compile(rb"[ \t]*\\?\r?\n?[ \t>]*")
REFERENCE = re.compile(r"\[([^\[\]]*)\]\[[^\[\]]*\]")  # whose target is on another page
NAME = re.compile(r"[*_`]*[a-z][\w.:-]*[*_`]*")
INLINE = {"Emphasis", "Strong", "Strikethrough", "Link", "Image"}


def read_markdown(content: bytes) -> Document:
    """The units of a page in UTF-8."""
    page = Page(content)
    readable, titles = _read_lines(page)
    return Document(page, [*titles, *_Reader(page).read(readable)])


def _read_lines(page: Page) -> tuple[str, list[Unit]]:
    """The page for the parser, and the units of titles in quotation marks.

    What extensions of Markdown read at the beginning of a line is blank for the parser; all other signs stay in place.
    """
    content = page.content
    begin = FRONT_MATTER.match(content)
    end = begin and re.compile(b"^%b[ \t\r]*$" % re.escape(begin[1]), re.MULTILINE).search(content, begin.end())
    position = end.end() if end else 0
    lines, titles, fences = [re.sub(rb"[^\n]", b" ", content[:position])], [], []
    for line in content[position:].splitlines(keepends=True):
        prefix = PREFIX.match(line)[0]
        text = line[len(prefix) :].rstrip()
        changed = b" " * len(text)
        if fence := FENCE.fullmatch(text):
            fences.append(fence[1])
        elif fences and text.startswith(fences[-1]) and not text.strip(text[:1]):
            fences.pop()
        elif title := TITLED.fullmatch(text):
            changed = b"- #".ljust(len(text))  # an item of a list, whose text is indented, too
            if title[1] and LETTER.search(title[1].decode()):
                place = position + len(prefix) + title.start(1), position + len(prefix) + title.end(1)
                titles.append(page.unit(place, title[1].decode(), _write_title))
        elif not KEPT_LINE.fullmatch(text):
            changed = text
        lines.append(prefix + changed + line[len(prefix) + len(text) :])
        position += len(line)
    return b"".join(lines).replace("\ufeff".encode(), b"   ").decode(), titles


def _write_title(text: str) -> list[bytes]:
    return [text.replace('"', "'").encode()]


class _Reader:
    """What the parser finds in a page, one after another."""

    def __init__(self, page: Page) -> None:
        self._page, self._text = page, _Text(page)
        self._slugs: Counter[str] = Counter()
        self._literal: list[Place] = []  # the lines of a block of HTML
        self._inside = dict.fromkeys(("CodeBlock", "DefinitionListTitle", "Heading", "HtmlBlock", "TableCell"), False)

    def read(self, readable: str) -> Iterator[Unit]:
        """The units."""
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

    def _turn(self, kind: str, name: str) -> Iterator[Unit]:
        """A block begins or ends."""
        if name in self._inside:
            self._inside[name] = kind == "Start"
        lines, self._literal = self._literal, []
        if lines and all(end == start for (_, end), (start, _) in pairwise(lines)):
            yield from html_units(self._page, (lines[0][0], lines[-1][1]))

    def _end_text(self) -> Iterator[Unit]:
        """The unit of the text that ends here."""
        text, self._text = self._text, _Text(self._page)
        if not text.has_letters:
            return
        attributes = text.trim()
        parts, before = text.parts(), ""
        if self._inside["Heading"]:
            ids = self._find_ids("".join(text.words).removesuffix(attributes.decode()))
            before = "".join(f'<a id="{name}"></a>' for name in dict.fromkeys(ids)) * (b"#" not in attributes)
        is_name = self._inside["Heading"] or self._inside["DefinitionListTitle"]
        is_name = is_name and NAME.fullmatch("".join(part.shown for part in parts)) is not None
        if not is_name and any(LETTER.search(part.shown) for part in parts if not part.tag):
            yield self._page.text_unit(parts, str, before)

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


class _Text:
    """A text of a page, and how a translator sees it: links are tags, so that no sign of a target can mislead."""

    def __init__(self, page: Page) -> None:
        self.words: list[str] = []
        self.has_letters = False  # outside code and addresses
        self._start, self._end = len(page.content), 0
        self._page = page
        self._tags: list[Part] = []
        self._open: list[tuple[str, int, bool]] = []  # the kind of each link; where its title begins; letters before it
        self._last = 0  # where the last part of a title ends

    def add(self, kind: str, value: Any, place: Place) -> None:
        """Add text, code, a tag or an end of a line."""
        content = self._page.content
        start, end = place
        if kind in ("SoftBreak", "HardBreak"):
            self.words.append(" ")
            if kind == "HardBreak":
                self._tags.append(Part((start, BREAK.match(content, start).end()), "\n", "-"))
            return
        shown = content[start:end].decode()
        if kind == "Text":
            start -= content[start - 1 : start] == b"\\"  # which takes its meaning from the sign
            self.has_letters |= LETTER.search(value) is not None
        elif "\n" in shown or kind == "InlineHtml":
            is_tag = SHOWN.fullmatch(shown) and "\n" not in shown
            self._tags.append(Part(place, shown if is_tag else f"<x{len(self._tags)}/>", "-"))
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
        self._start, self._end, self._last = min(self._start, start), max(self._end, end), end

    def _add_link(self, link: str, start: int, end: int) -> None:
        """Show a link as a tag, or its title between tags if it has words."""
        content, number = self._page.content, len(self._tags)
        first = start + 1 + content.startswith(b"!", start)
        last = max(first, self._last)
        end += 2 * (link == "Collapsed" and content.startswith(b"[]", end))
        self._end = max(self._end, end)
        if link in ("Autolink", "Email") or not self.has_letters:
            self.has_letters = False
            self._tags.append(Part((start, end), f"<x{number}/>", "-"))
            return
        # A title that is translated names no target.
        target = b"][%b]" % content[first:last] if link in ("Shortcut", "Collapsed") else b""
        self._tags.append(Part((start, first), f"<a{number}>", f"a{number}"))
        self._tags.append(Part((last, end), f"</a{number}>", f"/a{number}", target))

    def trim(self) -> bytes:
        """Leave out a mark before the text, and attributes behind it, which are returned."""
        content = self._page.content
        if mark := MARK.match(content, self._start, self._end):
            self._start = mark.end()
        first = content.rfind(b"{", self._start, self._end)
        if first < 0 or not ATTRIBUTES.fullmatch(content, first, self._end):
            return b""
        attributes, self._end = content[first : self._end], first
        return attributes

    def parts(self) -> list[Part]:
        """The tags and the text between them, without what is inside a tag."""
        parts, last = [], self._start
        end_of_text = Part((self._end, self._end), "")
        for tag in [*sorted(self._tags, key=lambda part: (part.place[0], -part.place[1])), end_of_text]:
            start, end = tag.place
            if last <= start and end <= self._end:
                between = self._page.content[last:start].decode()
                parts += [Part((last, start), LINE_END.sub(" ", between)), tag]
                last = end
        return parts
