"""Find the texts of a Markdown page, and write their translations in their places.

pyromark (pulldown-cmark) reads CommonMark, tables, footnotes and lists of definitions, tells where each part of a text
stands, and takes time in proportion to the page. mistletoe, which translate-toolkit uses, takes quadratic time;
markdown-it-py does not tell where something stands in a paragraph; tree-sitter-markdown is not always right.

A text is a paragraph, a heading, a cell, a term or the text of an item, on one line but for hard line breaks.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from operator import methodcaller
from typing import Any

from pyromark import Options, events_with_range

from rnnsearch_fairseq.documents.html import html_units
from rnnsearch_fairseq.documents.units import FRONT_MATTER, SHOWN, TEMPLATE, Document, Page, Part, Place, Unit
from rnnsearch_fairseq.text.markup import LETTER

OPTIONS = Options.ENABLE_TABLES | Options.ENABLE_FOOTNOTES | Options.ENABLE_DEFINITION_LIST
OPTIONS |= Options.ENABLE_STRIKETHROUGH | Options.ENABLE_TASKLISTS
INLINE = {"Emphasis", "Strong", "Strikethrough", "Link", "Image"}
BREAKS = {"SoftBreak", "HardBreak"}
# Lines that stay, after blanks and signs of quotations, and end a paragraph.
KEPT_LINE = re.compile(
    rb"""(?::{3,}|/{3,}).* | \[!\w[^\]]*\].* | \*\[[^\]]+\]:.*     # ::: note, /// note, [!NOTE], an abbreviation
    | ::[\w-]*(?:[{\[].*)? | \#[a-z][\w-]*     # ::card{} and #slot of Nuxt Content
    | import\b.*['"];? | export\ (?:const|default)\b.* | -+8<-+.*     # of MDX, and what MkDocs includes
    | \[{1,2}_?(?i:toc)_?\]{1,2} | \{:?\ ?[\#.:][^{}]*\} | \([\w:.-]+\)=     # [TOC], attributes, a target of MyST
    | (?:\{(?:%(?:(?!%\}).)*%|\{(?:(?!\}\}).)*\}|\#(?:(?!\#\}).)*\#)\}\ *)+ | \$\$.+\$\$     # templates and formulas
    | %(?:\ .*)? | \+{3}.* | \{/\*.*\*/\}     # comments and block metadata of MyST and MDX
    """,
    re.VERBOSE,
)
# !!! note "Title", perhaps as an item of a list, and a text indented.
TITLED = re.compile(rb'((?:[-*+:][ \t]+)?)(?:!!!|\?\?\?\+?|===[!+]?)(?:[ \t]|(?=[a-z]))[^"]*(?:"(.*)")?')
ITEM = b"-   #"  # instead of it, so that the text may be indented by 4 to 7 blanks
# :::tip Title, :::note[Title], :::{admonition} Title and > [!NOTE] Title.
TITLE_LINE = re.compile(
    rb"(?::{3,}[ \t]*[a-z][\w-]*(?:\[|[ \t]+(?=\S+[ \t]|[A-Z]))|[:`]{3,}\{admonition\}[ \t]+|\[!\w+\][+-]?[ \t]+)"
    rb"(?P<title>[^{}\[\]=\"\n]+)\]?(?:\{[^{}]*\})?"
)
# Sites of Hugo and Zola, which leave out HTML and read {#id} behind a heading.
HUGO = re.compile(rb"\A(?:\xef\xbb\xbf)?\+\+\+|\{\{[<%]")
# ```{note} and ```admonish, which hold text.
ADMONITION = (
    r"(?:`{3,}|~{3,})[ \t]*(?:admonish\b|\{(?:admonition|attention|caution|danger|dropdown|error|hint|important|note"
    r"|seealso|sidebar|tab-item|tip|todo|topic|versionadded|versionchanged|warning)\})[^\n]*"
)
FENCE = re.compile(ADMONITION.encode() + rb"|:{3,}\{[\w-]+\}.*")
OPTION = re.compile(rb":[\w-]+:(?:[ \t].*)?")
# Blocks that stay: the pattern of their first line, with a NAME as its group, and how they end.
KEPT_BLOCKS = (
    (rb"\{%-? *(highlight|comment)\b.*", rb"\{%-? *endNAME\b"),  # of Jekyll
    # Of Hugo; a shortcode that names a programming language holds code.
    (rb"\{\{[<%] *(highlight|code-toggle|mermaid|\w+(?=[^\n]*\b(?:code)?lang=))\b.*", rb"\{\{[<%] */ *NAME\b"),
    (rb"(\$\$)(?!.*\$\$).*", rb"NAME"),  # formulas
    (rb"\\begin\{(\w+\*?)\}.*", rb"\\end\{NAME\}"),
    (rb"(?<![ \t>])(import|export) .*[\[\{(]", rb"\n[\]\})][^\n]*"),  # code of MDX on several lines
    (rb"<([A-Z][\w.]*)[^<>]*", rb"(?<!=)/?>[ \t]*(?=\r?\n)"),  # a tag of a component on several lines
    (rb"(\{[{%])(?!.*[%}]\}).*", rb"[%}]\}"),  # a template on several lines
    (rb"(\{)[\w.]+\((?!.*\)\}).*", rb"\n[ \t]*\)+\}"),  # a call of MDX
)
# Metadata in the middle of a page, as of Slidev and Pandoc.
LATER_MATTER = re.compile(rb"---[ \t]*\r?\n(?:(?:[a-zA-Z][\w-]*:|[ \t]+\S)[^\n]*\n)+?[ \t]*---[ \t]*\r?$", re.MULTILINE)
KEPT_BLOCK = re.compile(b"|".join(begin for begin, _ in KEPT_BLOCKS))
MAX_BLOCK = 20_000  # bytes in which a block must end
CODE_FENCE = re.compile(rb"(?:(?:[-*+]|\d+[.)])[ \t]+)?(`{3,}(?!.*`)|~{3,})")
CODE = re.compile(TEMPLATE.encode())
CAPTION = re.compile(rb'\b(?:alt|caption|header|title)="([^"]*)"')  # in a shortcode
NO_SIGNS = bytes.maketrans(b"_*`[]<>", b"xxxxxxx")  # so that the parser sees no emphasis in code of templates
PREFIX = re.compile(rb"[ \t>]*")
LINE_END = re.compile(r"(?<![ \t])[ \t]*[\r\n][ \t\r\n>]*")
MARK = re.compile(rb"(?:[?!][ \t]+)?[A-Z]{2,}:(?:[ \t]+|[ \t]*\r?\n[ \t>]*|$)")  # NOTE:
ATTRIBUTES = re.compile(rb"\{(?::?[ ]?[#.%]|-)[^{}\n]*\}")  # # Heading {#id}, {-} or {% #id %}
BREAK = re.compile(rb"[ \t]*\\?\r?\n?[ \t>]*")
REFERENCE = re.compile(r"\[([^\[\]]*)\]\[[^\[\]]*\]")  # whose target is on another page
# A line with a tag of a component of MDX, whose text is Markdown; and where the next line begins as code would.
COMPONENT = re.compile(rb"<(/?)[A-Z][\w.]*(?:\s[^<>]*)?>")
INDENTED = re.compile(rb"\s*?\n?(?: {4}|\t)")
BARE_ATTRIBUTE = re.compile(r"\A(<[a-zA-Z][\w.-]*)\s+[^\s<>=/][^<>=]*?( ?/?>)\Z")  # a tag such as <code v-pre>
TOUCHED = re.compile(rb"[\w):`\x80-\xff]|.?[`_]\Z", re.DOTALL)  # the signs around code that only the parser sees
# The beginning of a line that is not joined to the line before: @param, :param a:, Pandoc's bar, an icon, a component,
# "Status:".
OWN_LINE = re.compile(
    rb"[ \t>]*(?:[@\\][a-z]+[ \t]|:[^:\s][^:\n]{0,40}:[ \t\r\n]|\|[ \t]|\xe2[\x98-\x9e]|\xf0\x9f"
    rb"|</?[A-Z][^<>]*>[ \t]*\r?\n|[A-Z][\w ]{0,40}:[ \t\r\n])"
)
# A line in bold type. The next line is not joined to it.
BOLD_LINE = re.compile(rb"[ \t>]*\*\*[^*\n]+\*\*:?[ \t]*")
# Columns whose words in small letters are names or values.
NAME_COLUMN = re.compile(
    r"(?:arg(?:ument)?|attribute|column|default(?: value)?|field|flag|input|key|name|option|output|param(?:eter)?"
    r"|prop(?:erty)?|type|value|variable)s?",
    re.IGNORECASE,
)
VALUE = re.compile(r"""(["']?)(?:[a-z][\w.:-]*/?|[A-Z]+|\d[\w.]*)\1""")
NAME = re.compile(r"[a-z][\w.:-]*/?")
HALVE_STARS = methodcaller("replace", "**", "*")
Line = tuple[int, bytes]  # where it begins, and the line
# What the parser finds: "Start" or "End" of a block or an element with a name, or "Text", "Code" and so on; its value,
# and where it stands.
Event = tuple[str, str, Any, Place]


def read_markdown(content: bytes, is_mdx: bool = False) -> Document:
    """The units of a page in UTF-8; ``is_mdx``: no text of the page is code because it is indented."""
    page, front = Page(content), FRONT_MATTER.match(content)
    head = front.end() if front else 0
    lines = content[head:].splitlines(keepends=True)
    located = [*zip(accumulate(map(len, lines), initial=head), lines)]
    return Document(page, [*_read_blocks(page, located, is_mdx, Counter())])


read_mdx = partial(read_markdown, is_mdx=True)


def _without_indent(lines: Sequence[Line], readable: Sequence[bytes]) -> list[Line]:
    """Lines without the columns that are blank in all of them; lines that are blank for the parser do not count."""
    columns = min((len(PREFIX.match(line)[0].expandtabs(4)) for line in readable if line.strip()), default=0)
    cuts = [_find_column(PREFIX.match(line)[0], columns) for _, line in lines]
    return [(start + cut, line[cut:]) for (start, line), cut in zip(lines, cuts)]


def _find_column(prefix: bytes, columns: int) -> int:
    """How many signs of a line's beginning fill so many columns; a tab reaches to the next multiple of four."""
    column = 0
    for place, sign in enumerate(prefix):
        if column >= columns:
            return place
        column += 4 - column % 4 if sign == ord("\t") else 1
    return len(prefix)


def _read_lines(
    content: bytes, parts: Sequence[Line], is_mdx: bool
) -> tuple[list[bytes], dict[int, Place], list[Place]]:
    """The lines of a page as the parser reads them; and the places of titles, for each place where the parser sees a
    heading instead.

    The places of the tags of components, and of lines of shortcodes, follow.
    What extensions of Markdown read at the beginning of a line is blank for the parser; all other signs stay in place.
    """
    indent, in_head = 0, False  # of options of ::: module and /// note; whether :options: of ```{note} may follow
    lines, titles, components, fences = [], dict[int, Place](), list[Place](), []
    block_end, code = 0, list[bytes]()  # of a block that stays; the fence of the code around a line
    for position, line in parts:
        prefix = PREFIX.match(line)[0]
        text = line[len(prefix) :].rstrip()
        start = position + len(prefix)
        changed = b" " * len(text)
        is_option = 0 < indent <= len(prefix) or (in_head and OPTION.fullmatch(text))
        begins_text, ends_text = FENCE.fullmatch(text) is not None, _is_end(text, fences[-1:])
        in_head = begins_text or (in_head and bool(is_option))
        if start >= block_end and (matter := LATER_MATTER.match(content, start)):
            block_end = matter.end()
        if start >= block_end and not code:
            block_end = _find_block_end(content, start, start + len(text))
            if COMPONENT.fullmatch(content, start, block_end):
                components.append((start, block_end))
        if _is_end(text, code):
            code = []
        elif start >= block_end and not (code or begins_text or ends_text) and (fence := CODE_FENCE.match(text)):
            code = [fence[1]]
        if is_option or start < block_end:
            pass
        elif in_head:
            fences.append(text[: len(text) - len(text.lstrip(text[:1]))])
        elif ends_text:
            fences.pop()
        elif title := TITLED.fullmatch(text):
            # An item of a list, whose text is indented, too.
            changed = ((b"-" * bool(title[1])).ljust(len(title[1])) + ITEM).ljust(len(text))[: len(text)]
            if title[2] and title[2].count(b"[") == title[2].count(b"](") and LETTER.search(title[2].decode()):
                titles[start + len(title[1]) + ITEM.index(b"#")] = start + title.start(2), start + title.end(2)
        elif (tag := COMPONENT.fullmatch(text)) and (
            is_mdx or tag[1] or not INDENTED.match(content, position + len(line))
        ):
            if b"=" in text:  # only attributes have text
                components.append((start, start + len(text)))
        elif not KEPT_LINE.fullmatch(text):
            # In :rocket: and the like, the parser would see a definition.
            changed = b"." + text[1:] if text.startswith(b":") and text[1:2] not in (b" ", b"\t", b"-") else text
        if not is_option and start >= block_end and (head := TITLE_LINE.fullmatch(text)):
            changed = b"#".ljust(len(text))
            titles[start] = start + head.start("title"), start + head.end("title")
        if not is_option:
            indent = (len(prefix) + 4) * text.startswith((b":::", b"///"))
        if text.startswith(b"{{") and not changed.strip():
            components.append((start, start + len(text)))
        changed = CODE.sub(lambda code: code[0].translate(NO_SIGNS), changed)
        lines.append(prefix + changed + line[len(prefix) + len(text) :])
    return lines, titles, components


def _is_end(line: bytes, fences: Sequence[bytes]) -> bool:
    """Whether a line ends what one of the fences began."""
    return any(line.startswith(fence) and not line.strip(fence[:1]) for fence in fences)


def _find_block_end(content: bytes, start: int, end: int) -> int:
    """Where the block ends that stays and begins with this line; 0: the line begins none, or the block has no end."""
    if (begin := KEPT_BLOCK.fullmatch(content, start, end)) is None:
        return 0
    ending = KEPT_BLOCKS[begin.lastindex - 1][1].replace(b"NAME", re.escape(begin[begin.lastindex]))
    closing = re.compile(ending).search(content, end, start + MAX_BLOCK)
    return closing.end() if closing else 0


def _read_blocks(page: Page, lines: list[Line], is_mdx: bool, slugs: Counter[str]) -> Iterator[Unit]:
    """The units of the texts in lines of a page, of titles, HTML, tags of components and shortcodes outside code.

    ``slugs``: how often each name of a heading occurred.
    """
    readable, titles, components = _read_lines(page.content, lines, is_mdx)
    inside: set[str] = set()  # blocks
    column, named = 0, set[int]()  # of a table; its columns of names
    events: list[Event] = []
    is_hugo = not is_mdx and HUGO.search(page.content) is not None
    starts = [*accumulate((len(line) for _, line in lines), initial=0)]  # of lines, for the parser

    def find_place(offset: int) -> int:
        number = min(bisect_right(starts, offset), len(lines)) - 1
        return lines[number][0] + offset - starts[number]

    text = b"".join(readable).replace("\ufeff".encode(), b"   ").decode()
    for event, span in events_with_range(text, options=OPTIONS):
        start, end = find_place(span["start"]), find_place(span["end"])
        kind, value = (event, None) if isinstance(event, str) else next(iter(event.items()))
        name = "" if kind not in ("Start", "End") else value if isinstance(value, str) else next(iter(value))
        if kind not in ("Start", "End", "Rule", "TaskListMarker") or name in INLINE:
            events.append((kind, name, value, (start, end)))
            continue
        if "HtmlBlock" in inside:
            places = [place for *_, place in events]
            if places and all(first[1] == second[0] for first, second in pairwise(places)):
                yield from html_units(page, (places[0][0], places[-1][1]))
        elif events and "CodeBlock" not in inside:
            if "TableHead" in inside and NAME_COLUMN.fullmatch("".join(_words(events))):
                named.add(column)
            yield from _read_text(page, events, inside, slugs, "TableRow" in inside and column in named, is_hugo)
        if name == "CodeBlock" and kind == "Start":
            del components[bisect_left(components, (start,)) : bisect_left(components, (end,))]
            if is_mdx and value[name] == "Indented":
                place = slice(bisect_right(starts, span["start"]) - 1, bisect_left(starts, span["end"]))
                inner = _without_indent(lines[place], readable[place])
                if inner != lines[place]:
                    yield from _read_blocks(page, inner, is_mdx, slugs)
        if name == "Table":
            named.clear()
        elif name == "TableCell":
            column += kind == "End"
        elif name in ("TableHead", "TableRow"):
            column = 0
        if name == "Heading" and (place := titles.pop(start, None)):
            yield _quoted_unit(page, place)
        events = []
        (inside.add if kind == "Start" else inside.discard)(name)
    for place in components:
        is_shortcode = page.content.startswith(b"{{", place[0])
        yield from _shortcode_units(page, place) if is_shortcode else html_units(page, place)


def _shortcode_units(page: Page, place: Place) -> Iterator[Unit]:
    """The units of titles and captions in shortcodes of Hugo; one word in small letters is a name."""
    for found in CAPTION.finditer(page.content, *place):
        if LETTER.search(text := found[1].decode()) and not NAME.fullmatch(text):
            yield _quoted_unit(page, found.span(1))


def _quoted_unit(page: Page, place: Place) -> Unit:
    """The unit of a text that stands between quotation marks."""
    return page.make_unit(place, [Part(page.content[slice(*place)].decode(), place)], methodcaller("replace", '"', "'"))


def _words(events: list[Event]) -> Iterator[str]:
    """The words of a text without markup, and blanks in the place of ends of lines."""
    return (value if kind in ("Text", "Code") else " " * (kind in BREAKS) for kind, _, value, _ in events)


def _read_text(
    page: Page, events: list[Event], inside: set[str], slugs: Counter[str], in_names: bool, is_hugo: bool
) -> Iterator[Unit]:
    """The unit of a text, if it has letters outside code and addresses; ``in_names``: a cell of a column of names."""
    content = page.content
    # The model reads *name* as reStructuredText's form of a variable, which stays, and **name** as emphasis.
    whole = content[events[0][3][0] : events[-1][3][1]]
    is_doubled = b"**" not in whole and all(name != "Strong" for _, name, *_ in events)
    tags, has_letters, (start, end) = _find_tags(content, events, is_doubled)
    if not has_letters:
        return
    if mark := MARK.match(content, start, end):
        start = mark.end()
    brace = content.rfind(b"{", start, end)
    attributes = content[brace:end] if brace >= 0 and ATTRIBUTES.fullmatch(content, brace, end) else b""
    end -= len(attributes)
    parts, around, last = [], ("", ""), start
    in_order = sorted(tags, key=lambda tag: (tag[0][0], -tag[0][1]))
    for (begin, stop), tag in [*in_order, ((end, end), Part("", ""))]:  # without tags inside others
        if last <= begin and stop <= end:
            parts += [Part(LINE_END.sub(" ", content[last:begin].decode()), ""), tag]
            last = stop
    text = "".join(_words(events)).removesuffix(attributes.decode())
    if "Heading" in inside:
        ids = [*dict.fromkeys(_find_ids(text, slugs))]
        if b"#" not in attributes and b"](#tab/" not in whole:
            around = ("", f" {{#{ids[0]}}}") if is_hugo else ("".join(f'<a id="{name}"></a>' for name in ids), "")
    may_be_name = in_names or text.endswith("/") or not inside.isdisjoint(["Heading", "DefinitionListTitle"])
    name = VALUE if in_names else NAME
    if not (may_be_name and name.fullmatch(text)) and any(LETTER.search(part.shown) for part in parts if not part.tag):
        yield page.make_unit((start, end), parts, HALVE_STARS if is_doubled else str, around)


def _find_tags(content: bytes, events: list[Event], is_doubled: bool) -> tuple[list[tuple[Place, Part]], bool, Place]:
    """The tags in a text and where they stand, whether the text has letters outside of them, and where it stands.

    Links are shown as tags, so that no sign of a target can mislead; their titles stand between two tags. So do texts
    that are struck out, and emphasis in a text that also has strong emphasis, unless it ``is_doubled``. Other marks of
    emphasis are shown as two asterisks each.
    """
    tags: list[tuple[Place, Part]] = []
    opened: list[tuple[str, bool]] = []  # of each element: the kind of a link, and whether there are letters before it
    has_letters, last = False, 0  # last: where the last part of a title ends
    text_start, text_end = events[0][3][0], 0
    if events[0][0] == "Text":  # a backslash takes its meaning from the sign behind it
        text_start -= content[text_start - 1 : text_start] == b"\\"

    def add(place: Place, shown: str, tag: str = "-", written: str = "") -> None:
        tags.append((place, Part(shown, written or place, tag)))

    for kind, name, value, (start, end) in events:
        number = len(tags)
        if kind == "Start":
            opened.append((value[name].get("link_type", "") if isinstance(value, dict) else "", has_letters))
            has_letters, last = False, start
            continue
        if kind == "End":
            link, had_letters = opened.pop()
            end += 2 * (link == "Collapsed" and content.startswith(b"[]", end))
            if link in ("Autolink", "Email") or (link and not has_letters):
                has_letters = False
                add((start, end), f"<x{number}/>")
            elif link:  # a title that is translated names no target
                first = start + 1 + content.startswith(b"!", start)
                title_end = max(first, last)
                target = f"][{content[first:title_end].decode()}]" if link in ("Shortcut", "Collapsed") else ""
                add((start, first), f"<a{number}>", f"a{number}")
                add((title_end, end), f"</a{number}>", f"/a{number}", target)
            elif name == "Strikethrough" and content.startswith(b"~~", start):
                add((start, start + 2), f"<s{number}>", f"s{number}")
                add((end - 2, end), f"</s{number}>", f"/s{number}")
            elif name == "Emphasis" and not is_doubled:  # *this* beside **that**
                add((start, start + 1), f"<e{number}>", f"e{number}", "*")
                add((end - 1, end), f"</e{number}>", f"/e{number}", "*")
            elif name == "Emphasis" or (name == "Strong" and content.startswith(b"_", start)):
                width = 1 if name == "Emphasis" else 2
                add((start, start + width), "**", "")
                add((end - width, end), "**", "")
            has_letters |= had_letters
        elif kind == "HardBreak" or (kind == "SoftBreak" and _is_apart(content, start, end)):
            add((start, BREAK.match(content, start).end()), "\n")
        elif kind == "Text":
            has_letters |= LETTER.search(value) is not None
        elif kind == "Code" and TOUCHED.match(content[start - 1 : start] + content[end : end + 1]):
            add((start, end), f"<x{number}/>")
        elif kind == "InlineHtml" or (kind != "SoftBreak" and b"\n" in content[start:end]):
            shown = BARE_ATTRIBUTE.sub(rf'\1 id="{number}"\2', content[start:end].decode())
            add((start, end), shown if SHOWN.fullmatch(shown) and "\n" not in shown else f"<x{number}/>")
        if kind not in BREAKS:
            last, text_end = end, max(text_end, end)
    return tags, has_letters, (text_start, text_end)


def _is_apart(content: bytes, start: int, end: int) -> bool:
    """Whether the end of a line, from ``start`` to ``end``, stays."""
    line = content[content.rfind(b"\n", 0, start) + 1 : start]
    return BOLD_LINE.fullmatch(line) is not None or OWN_LINE.match(content, end) is not None


def _find_ids(heading: str, slugs: Counter[str]) -> list[str]:
    """The names by which links lead to a heading: GitHub's (and MyST's), and Python-Markdown's (MkDocs)."""
    heading = re.sub(TEMPLATE, "", REFERENCE.sub(r"\1", heading)).strip()
    words = re.sub(r"[^\w\s-]", "", heading).strip().lower()
    latin = re.sub(r"[^\w\s-]", "", unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode())
    ids = []
    for slug, sign in ((re.sub(r"\s", "-", words), "-"), (re.sub(r"[-\s]+", "-", latin.strip().lower()), "_")):
        number = slugs[slug + sign]
        slugs[slug + sign] += 1
        ids.append(f"{slug}{sign}{number}" if number else slug)
    return ids
