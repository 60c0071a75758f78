"""Read sentence pairs as people have them: two files, a table with tabs, or a translation memory (TMX 1.4)."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.parsers import expat

from rnnsearch_fairseq.errors import InputError, in_short
from rnnsearch_fairseq.text.lines import check_rereadable, read_lines, read_pairs

Pair = tuple[str, str]

CHUNK = 1 << 16  # bytes of TMX to parse at a time
# Elements inside a segment that hold markup of a word processor, not text; <hi> holds text.
MARKUP = ("bpt", "ept", "it", "ph", "ut")


def is_folder(data: Sequence[Path]) -> bool:
    """Whether ``data`` is one folder, and not files for `read_corpus`; a missing path without an ending is one."""
    return len(data) == 1 and not data[0].is_file() and data[0].suffix.lower() not in (".tsv", ".tmx")


def read_corpus(data: Sequence[Path], languages: Pair) -> Iterator[Pair]:
    """Yield the pairs (source, target) of two text files, a ``.tsv`` or a ``.tmx``; a missing side is empty.

    Raises:
        InputError: other files are given, or a file cannot be read, is not UTF-8 or does not hold pairs.
    """
    check_rereadable(*data)
    endings = [path.suffix.lower() for path in data]
    if len(data) == 2 and not {".tsv", ".tmx"} & {*endings}:
        return read_pairs(*data, stray_returns=True)
    if endings == [".tsv"]:
        return read_tsv(data[0])
    if endings == [".tmx"]:
        return read_tmx(data[0], languages)
    names = " ".join(map(str, data))
    raise InputError(f"{names}: give a folder, two files of text (source, target), one .tsv or one .tmx, and then OUT")


def read_tsv(path: Path) -> Iterator[Pair]:
    """Yield the pairs of a file of lines "source TAB target"; quotation marks have no meaning."""
    for number, line in enumerate(read_lines(path, stray_returns=True), 1):
        fields = line.split("\t") if line.strip() else ["", ""]
        if len(fields) != 2:
            raise InputError(
                f"{path}, line {number}: columns: {len(fields)}, but a pair has two, source and target, with a tab "
                "between; cut -f 1,2 chooses two of several"
            )
        yield fields[0], fields[1]


def read_tmx(path: Path, languages: Pair) -> Iterator[Pair]:
    """Yield the pairs of a TMX file. The language ``en`` is also in segments of ``en-GB``.

    Raises:
        InputError: the file cannot be read, is not well-formed, defines entities, or has no unit in both languages.
    """
    units = _Units(path)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = units.doctype
    parser.StartElementHandler, parser.EndElementHandler = units.start, units.end
    parser.CharacterDataHandler = units.text
    seen: set[str] = set()
    complete = False
    try:
        with path.open("rb") as file:
            chunk = b" "
            while chunk:
                chunk = file.read(CHUNK)
                _parse(parser, chunk, path)
                for unit in units.take():
                    seen |= unit.keys()
                    source, target = (_in_language(unit, language.lower()) for language in languages)
                    complete |= bool(source and target)
                    yield source, target
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    if not complete:
        listing = in_short(", ".join(sorted(seen))) or "none"
        raise InputError(
            f"{path}: no unit has both {' and '.join(languages)}; name two of its languages by -s and -t: {listing}"
        )


def _parse(parser: expat.XMLParserType, chunk: bytes, path: Path) -> None:
    try:
        parser.Parse(chunk, not chunk)
    except InputError:  # of `_Units.doctype`
        raise
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise InputError(
            f"{path}, line {error.lineno}: not well-formed XML ({reason}); export the file again"
        ) from error
    except (LookupError, ValueError) as error:
        raise InputError(f"{path}: its encoding cannot be read ({in_short(error)}); export it as UTF-8") from error


def _in_language(unit: dict[str, str], language: str) -> str:
    of_regions = (text for code, text in unit.items() if code.replace("_", "-").startswith(f"{language}-"))
    return unit.get(language) or next(of_regions, "")


class _Units:
    """expat's handlers for TMX: gather units, each a mapping of its languages to the text of their first segments."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._done: list[dict[str, str]] = []
        self._unit: dict[str, str] = {}
        self._language = ""
        self._segment: list[str] | None = None
        self._markup = 0  # the number of open elements of MARKUP

    def take(self) -> list[dict[str, str]]:
        """The units that were complete since the last call."""
        done, self._done = self._done, []
        return done

    def doctype(self, name: str, system: str | None, public: str | None, has_definitions: bool) -> None:
        # Entities could expand without limit, or name a file. expat does not read the file of the DTD itself,
        # <!DOCTYPE tmx SYSTEM "tmx14.dtd">, which many programs write.
        if has_definitions:
            raise InputError(
                f"{self._path}: its <!DOCTYPE> holds definitions, and they are not safe to read; remove it"
            )

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "tu":
            self._unit = {}
        elif name == "tuv":
            self._language = attributes.get("xml:lang", attributes.get("lang", "")).lower()
        elif name == "seg":
            self._segment = []
        elif name in MARKUP:
            self._markup += 1

    def text(self, text: str) -> None:
        if self._segment is not None and not self._markup:
            self._segment.append(text)

    def end(self, name: str) -> None:
        if name == "seg":
            self._unit.setdefault(self._language, "".join(self._segment or []))
            self._segment = None
        elif name == "tu":
            self._done.append(self._unit)
        elif name in MARKUP:
            self._markup -= 1
