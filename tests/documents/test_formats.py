"""Translators' documents: what is read, and that only what is filled changes."""

import difflib
import re
from collections import Counter
from pathlib import Path

import pytest

from rnnsearch_fairseq.corpus.pairs import UNFINISHED, UNTRANSLATED, read_units
from rnnsearch_fairseq.documents import formats
from rnnsearch_fairseq.documents.formats import read_document
from rnnsearch_fairseq.errors import InputError

HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset={}\\n"\n\n'
PO = (
    HEADER.format("UTF-8")
    + r"""#~ msgid "gone"
#~ msgstr ""

#: a.py:1
#, python-format
msgctxt "menu"
msgid "%d "
"cat"
msgstr ""

#, fuzzy
#| msgid "old"
msgid "doubtful"
msgstr "douteux"

#, fuzzy
msgid "empty"
msgstr ""

#| msgid "older"
msgid "Say \"hi\"\n"
msgstr ""

msgid "one dog"
msgid_plural "%d dogs"
msgstr[0] "un chien"
msgstr[1] "%d chiens"

msgid "one cat"
msgid_plural "%d cats"
msgstr[0] ""
msgstr[1] ""

msgid "first\nsecond"
msgstr "premier\ndeuxième"

msgid "last"
msgstr ""
"""
)
FILLED_PO = r"""-#, python-format
+#, fuzzy, python-format
-msgstr ""
+msgstr "%d CAT"
-msgstr ""
+msgstr "EMPTY"
+#, fuzzy
-msgstr ""
+msgstr "SAY \"HI\"\n"
+#, fuzzy
-msgstr[0] ""
-msgstr[1] ""
+msgstr[0] "ONE CAT"
+msgstr[1] "%d CATS"
+#, fuzzy
-msgstr ""
+msgstr "LAST"
"""
XLIFF = """<?xml version="1.0" encoding="UTF-8"?>
<!-- <trans-unit><source>no</source></trans-unit> --><xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">
 <file original="a&gt;b" source-language="en" datatype="plaintext"><body>
  <trans-unit id="1" approved="yes">
   <source>The <g id="1">cat</g> &amp;
     dog</source>
  </trans-unit>
  <trans-unit id="2"><source><![CDATA[a < b]]></source><note/><target xml:lang="fr" state="new"/>
   <alt-trans><source>z</source><target>zz</target></alt-trans></trans-unit>
  <trans-unit id="3"><source>yes</source><note/><target state="translated">oui</target></trans-unit>
  <trans-unit id="4"><source>no</source><target state="needs-review-l10n">non</target></trans-unit>
  <group translate="no"><trans-unit id="5"><source>rnnsearch</source></trans-unit></group>
  <trans-unit id="6"><note/><source>c. d</source><seg-source><mrk mtype="seg" mid="0">c.</mrk>
<mrk mtype="seg" mid="1">d</mrk></seg-source></trans-unit>
  <trans-unit id="7"><source>copy</source><target state="needs-translation">copy</target></trans-unit>
 </body></file>
</xliff>
"""
FILLED_XLIFF = """-  <trans-unit id="1" approved="yes">
+  <trans-unit id="1" approved="no">
+  <target state="needs-review-translation">THE <g id="1">CAT</g> &amp; DOG</target>
-  <trans-unit id="2"><source><![CDATA[a < b]]></source><note/><target xml:lang="fr" state="new"/>
+  <trans-unit id="2"><source><![CDATA[a < b]]></source><note/><target xml:lang="fr"{}>A &lt; B</target>
-<mrk mtype="seg" mid="1">d</mrk></seg-source></trans-unit>
-  <trans-unit id="7"><source>copy</source><target state="needs-translation">copy</target></trans-unit>
+<mrk mtype="seg" mid="1">d</mrk></seg-source><target{}><mrk mtype="seg" mid="0">C.</mrk>
+<mrk mtype="seg" mid="1">D</mrk></target></trans-unit>
+  <trans-unit id="7"><source>copy</source><target{}>COPY</target></trans-unit>
""".replace("{}", ' state="needs-review-translation"')
XLIFF2 = """<?xml version="1.0" encoding="UTF-8"?>
<x:xliff xmlns:x="urn:oasis:names:tc:xliff:document:2.0" version="2.0"><x:file id="f"><x:unit id="1">
<x:segment><x:source>The <x:ph id="1"/>cat</x:source></x:segment>
<x:segment state="final"><x:source>yes</x:source><x:target>oui</x:target></x:segment></x:unit></x:file></x:xliff>
"""
FILLED_XLIFF2 = """-<x:segment><x:source>The <x:ph id="1"/>cat</x:source></x:segment>
+<x:segment state="initial"><x:source>The <x:ph id="1"/>cat</x:source>{}</x:segment>
""".replace("{}", '<x:target>THE <x:ph id="1"/>CAT</x:target>')
TS = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="fr_FR"><context><name>b</name>
<message><source>yes</source><translation>oui</translation></message>
<message><source>{}</source>
  <translation type="unfinished">{}</translation></message></context></TS>
"""
CATS = TS.format("%n cat(s)", "<numerusform></numerusform>\n<numerusform></numerusform>")
FILLED_TS = """-  <translation type="unfinished"><numerusform></numerusform>
-<numerusform></numerusform></translation></message></context></TS>
+  <translation type="unfinished"><numerusform>%N CAT(S)</numerusform>
+<numerusform>%N CAT(S)</numerusform></translation></message></context></TS>
"""
DOGS = [("one dog", "un chien"), ("%d dogs", "%d chiens"), ("first", "premier"), ("second", "deuxième")]


def shout(text: str) -> str:
    """The text in capital letters, but for markup."""
    parts = re.split(r"(<[^ ].*?>|%d)", text)
    return "".join(part if number % 2 else part.upper() for number, part in enumerate(parts))


def fill(path: Path, *translations: str) -> bytes:
    """Fill what is not translated in a document: by ``translations``, or in capital letters."""
    document, texts = read_document(path), iter(translations)
    for unit in document.units:
        if not any(unit.targets):
            unit.fill([next(texts) for _ in unit.sources] if translations else [*map(shout, unit.sources)])
    path.write_bytes(document.write("fr"))
    return path.read_bytes()


@pytest.mark.parametrize(
    ("name", "content", "filled", "pairs", "blank", "unfinished"),
    [
        ("a.po", PO, FILLED_PO, DOGS, 5, 1),
        ("b.po", PO.replace("\n", "\r\n"), FILLED_PO, DOGS, 5, 1),
        ("a.xlf", XLIFF, FILLED_XLIFF, [("yes", "oui")], 5, 1),
        ("a.xliff", XLIFF2, FILLED_XLIFF2, [("yes", "oui")], 1, 0),
        ("b.xlf", XLIFF.replace("\n", "\r\n"), FILLED_XLIFF, [("yes", "oui")], 5, 1),
        ("a.ts", CATS, FILLED_TS, [("yes", "oui")], 1, 0),
    ],
)
def test_only_what_is_filled_changes(
    tmp_path: Path, name: str, content: str, filled: str, pairs: list, blank: int, unfinished: int
) -> None:
    path, left_out = tmp_path / name, Counter()
    path.write_bytes(before := content.encode())
    assert [*read_units(path, ("en", "fr"), left_out)] == pairs
    assert left_out == Counter({UNTRANSLATED: blank, UNFINISHED: unfinished})
    assert bytes(read_document(path).store) == before
    after = fill(path).decode()
    assert after.count("\r\n") in (0, after.count("\n"))
    changes = difflib.unified_diff(content.splitlines(), after.splitlines(), n=0, lineterm="")
    assert "".join(f"{line}\n" for line in changes if line[:2] not in ("--", "++", "@@")) == filled
    left_out.clear()
    assert [*read_units(path, ("en", "fr"), left_out)] == pairs
    assert left_out == {UNFINISHED: blank + unfinished}


@pytest.mark.parametrize(
    ("source", "shown", "translation", "written"),
    [
        ('<g id="1">cat</g><x/>', None, '<g id="1">le chat</g> & <x/>', '<g id="1">le chat</g> &amp; <x/>'),
        ('<g id="1">cat</g><x/>', None, '<x/><g id="1">le chat</g>', '<x/><g id="1">le chat</g>'),
        ('<g id="1">cat</g><x/>', None, '<x/> </g> <g id="1"> <b>', ""),
        ('<g id="1">cat</g><x/>', None, "<x/> chat", ""),
        ("""T <x a="a > b" b='c>d'/> <ph id="5">{0}</ph><!-- <note> --> &amp;""",
         'T <x a="a &gt; b" b="c&gt;d"/> <ph id="5"/> &',
         '<ph id="5"/><x a="a &gt; b" b="c&gt;d"/>', '<ph id="5">{0}</ph><x a="a &gt; b" b="c&gt;d"/>'),
        ('a <mrk id="m" translate="no">b</mrk>', 'a <mrk id="m" translate="no"/>', 'c<mrk id="m" translate="no"/>',
         'c<mrk id="m" translate="no">b</mrk>'),
        ('a <mrk mtype="protected">b</mrk>', 'a <mrk mtype="protected"/>', "c", ""),
        ("a<![CDATA[<a href='%1$s'>b</a> & 'c']]>", "a<a href='%1$s'>b</a> & 'c'", "<b>", "&lt;b&gt;"),
    ],
)  # fmt: skip
def test_tags_of_xliff_are_those_of_the_source(
    tmp_path: Path, source: str, shown: str | None, translation: str, written: str
) -> None:
    path = tmp_path / "a.xlf"
    path.write_text(XLIFF1.format(f"<trans-unit><source>{source}</source></trans-unit>"))
    assert read_document(path).units[0].sources == [shown or source]
    after = fill(path, translation).decode()
    assert f">{written}</target>" in after if written else "<target" not in after


def test_other_encodings_and_numbers_of_forms(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    three = 'msgid "one"\nmsgid_plural "many"\nmsgstr[0] ""\nmsgstr[1] ""\nmsgstr[2] ""\n\n'
    text = f'{HEADER.format("iso-8859-1")}# à voir\n{three}msgid "m"\nmsgid_plural "all"\nmsgstr[0] ""\n'
    path.write_bytes(text.encode("iso-8859-1"))
    filled = fill(path, "été", "étés", "un", "tous").decode("iso-8859-1")
    assert "# à voir" in filled
    assert 'msgstr[0] "été"\nmsgstr[1] "étés"\nmsgstr[2] "étés"\n' in filled
    assert filled.endswith('\n#, fuzzy\nmsgid "m"\nmsgid_plural "all"\nmsgstr[0] "tous"\n')
    path.write_text(text)
    assert "charset=UTF-8" in fill(path, *["猫"] * 4).decode()
    path.write_text(text.replace("iso-8859-1", 'CHARSET\\n"\n"Language: \\n"\n"Plural-Forms: nplurals=INTEGER;'))
    header = 'charset=UTF-8\\n"\n"Language: fr\\n"\n"Plural-Forms: nplurals=2; plural=(n > 1);'
    assert header in fill(path, *["chat"] * 4).decode()
    (tmp_path / "a.ts").write_text(CATS)
    assert read_document(tmp_path / "a.ts").source == "", "no language is named"
    (xliff := tmp_path / "a.xlf").write_bytes(XLIFF.replace("UTF-8", "UTF-16").encode("utf-16"))
    units = read_document(xliff).units
    xliff.write_bytes(fill(xliff, *["été"] * 99))
    assert [unit.sources for unit in read_document(xliff).units] == [unit.sources for unit in units]


LONG = "a message that is not wrapped in this file, although it has more than eighty characters, as its users like it"
FORMS = "<numerusform>b</numerusform><numerusform></numerusform>"
LENGTHS = "<lengthvariants><lengthvariant></lengthvariant></lengthvariants>"
XLIFF1 = '<xliff xmlns:mq="b" xmlns:m="c" xmlns:sdl="d"><file><body>{}</body></file></xliff>'
UNIT = XLIFF1.format("<trans-unit {}><source {}> a  b</source></trans-unit>")
SEGMENT = '<mrk mtype="seg" mid="0">{}</mrk> <mrk mtype="seg" mid="1">{}</mrk>'
SEGMENTED = "<trans-unit><source>a b</source><seg-source>{}</seg-source><target>{{}}</target></trans-unit>"
SEGMENTED = XLIFF1.format(SEGMENTED.format(SEGMENT.format("a", "b")))
SEGMENTS = """<trans-unit><source>a. b</source><seg-source><mrk mtype="seg" mid="1">a.</mrk>
<mrk mtype="seg" mid="2">b</mrk></seg-source>
<sdl:seg-defs><sdl:seg id="1" locked="true"/><sdl:seg id="2"/></sdl:seg-defs></trans-unit>"""


def po(text: str, flags: str = "") -> str:
    return f'#, {flags}\nmsgid "{text}"\nmsgstr ""\n' if flags else f'msgid "{text}"\nmsgstr ""\n'


@pytest.mark.parametrize(
    ("name", "content", "translations", "written"),
    [
        ("a.po", po("The image {0}", "java-format"), {"The image {0}": "L'image {0}"}, "L''image {0}"),
        ("a.po", po("'{'a'}' of {0}", "java-format"), {"'{'a'}' of {0}": "'{'a'}' {0}"}, "'{'a'}' {0}"),
        ("a.po", po("{0} isn''t"), {"{0} isn't": "{0} n'est 'a'"}, "{0} n''est ''a''"),
        ("a.po", po("The image", "java-format"), {"The image": "L'image"}, "L'image"),
        ("a.po", po(r"\"A {b}!\""), {"A {b}!": "« A » {b} !"}, r'msgstr "\"« A » {b} !\""'),
        ("a.po", po(r"\"a\" or \"b\""), {'"a" or "b"': "c"}, 'msgstr "c"'),
        ("a.po", po(r"```admonish a\nb\n```\n"), {"b": "c"}, '"c\\n"\n"```\\n"'),
        ("a.po", po(LONG), {LONG: LONG.upper()}, f'msgstr "{LONG.upper()}"'),
        ("a.po", po("a", "no-wrap"), {"a": LONG}, f'msgstr "{LONG}"'),
        ("a.po", po("a"), {"a": LONG}, 'msgstr ""\n"a message that'),
        ("a.ts", TS.format("a<byte v='x'/> b", ""), {'a<byte v="x"/> b': 'c<byte v="x"/>'}, '>c<byte v="x"/><'),
        ("a.ts", TS.format("a'", ""), {"a'": "\"c\"\u202f!"}, '"c"\u202f!<'),
        ("a.ts", TS.format("a", FORMS), {"a": "c"}, "b</numerusform><numerusform>c<"),
        ("a.ts", TS.format("a", LENGTHS), {"a": "c"}, "<lengthvariant>c<"),
        ("a.ts", TS.format("a", "").replace("unfinished", "vanished"), {}, 'type="vanished"></'),
        ("a.xlf", XLIFF1.format(SEGMENTS), {"b": "c"}, '<mrk mtype="seg" mid="1"/>\n<mrk mtype="seg" mid="2">c</mrk>'),
        ("a.xlf", SEGMENTED.format(""), {"a": "c", "b": "d"}, SEGMENT.format("c", "d")),
        ("a.xlf", SEGMENTED.format(SEGMENT.format("oui", "")), {"b": "d"}, SEGMENT.format("oui", "d")),
        ("a.xlf", SEGMENTED.format("oui non"), {}, ">oui non<"),
        ("a.xlf", UNIT.format('mq:locked="locked"', ""), {}, "</source></trans-unit>"),
        ("a.xlf", UNIT.format('m:locked="True"', ""), {}, "</source></trans-unit>"),
        ("a.xlf", UNIT.format('m:locked="false"', ""), {" a b": "c"}, ">c</target>"),
        ("a.xlf", UNIT.format("", 'xml:space="preserve"'), {" a  b": "c"}, ">c</target>"),
    ],
)  # fmt: skip
def test_what_is_no_text_stays_around_a_translation(
    tmp_path: Path, name: str, content: str, translations: dict[str, str], written: str
) -> None:
    path = tmp_path / name
    path.write_text(HEADER.format("UTF-8") + content if name == "a.po" else content)
    document = read_document(path)
    units = [unit for unit in document.units if not any(unit.targets)]
    assert [unit.sources[0] for unit in units] == list(translations)
    for unit in units:
        unit.fill([translations[unit.sources[0]]])
    after = document.write("fr").decode()
    assert written in after


@pytest.mark.parametrize(
    ("flag", "source", "translation", "fault"),
    [
        ("c-format", "%d of %s", "%s, %d", "has directives in another order"),
        ("c-format", "About 5% of %d files", "Environ 5% environ %d", "lacks % o"),
        ("c-format", "%1$s %2$d", "%2$d %1$s", ""),
        ("python-brace-format", "{0} is {1}", "{0}", "lacks {1}"),
        ("no-c-format", "%d", "", ""),
        ("", r"caf\303\251 \\a", "a", r"its escape \303 would be lost"),
    ],
)
def test_what_a_program_could_not_print_is_not_written(
    tmp_path: Path, flag: str, source: str, translation: str, fault: str
) -> None:
    (tmp_path / "a.po").write_text(HEADER.format("UTF-8") + po(source, flag))
    document = read_document(tmp_path / "a.po")
    assert document.units[0].fill([translation]).startswith(fault or "\0") == bool(fault)
    assert (b"fuzzy" in bytes(document.store)) == (not fault)


REPEATED = [
    ("a.xlf", "", "<!--a-->", "<note/><source>a</source>"),
    ("a.xlf", "<note><![CDATA[", "<trans-unit <!-- ", "]]></note><source>a</source>"),
    ("a.xlf", "<source>a", '<x id="1"/> ', "</source>"),
    ("a.po", 'msgid "a"\nmsgstr ""\n\n', "#\n", ""),
    ("a.po", 'msgid "<a ', "don't ", '"\nmsgstr ""\n'),
    ("a.po", 'msgid "b"\n', '"a"\n', 'msgstr ""\n'),
    ("a.html", "<i translate=no>", "</a", ""),
    ("a.md", "!!!", " ", '"a"b'),
]
OPENERS = {
    "a.html": ["<!--", "<!", "<?", "<a ", "</", '<a "', "&#", "<script>", "<a b=", "<a>", "&lt;a", "<p>", "a<", "<li>a",
               "<p translate=no>", "<li translate=no>a<ul>", "<b>", "<div>", '<img alt="a b">', "</>", "<a x>b</a> ",
               "<td></p>"],
    "a.md": ["[a](", "[![a](b)](c) ", "*[a](b)* ", "[a] ", "[a][b", '[a](b "', '[a]: b "', "a<?", "> ", "- ", "`` ` ",
             "| a ", "a**b", "&", ": a\n", "{", "NOTE:\n", "a\\\n", "```{note}\n", ":a: ", "*A* "],
}  # fmt: skip
REPEATED += [(name, "[a]: b\n\n" * (name == "a.md"), opener, "") for name in OPENERS for opener in OPENERS[name]]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("name", "before", "repeated", "after"), REPEATED)
def test_repetition_takes_no_quadratic_time(tmp_path: Path, name: str, before: str, repeated: str, after: str) -> None:
    """Of a page of 40,000 characters, for which html.parser takes a minute, all is read within the time limit."""
    text = before + repeated * (40_000 // len(repeated) if "m" in name else 50_000) + after
    if name.endswith("xlf"):
        text = f"<xliff><file><body><trans-unit>{text}</trans-unit></body></file></xliff>"
    (tmp_path / name).write_text(HEADER.format("UTF-8") + text if name.endswith("po") else text)
    document = read_document(tmp_path / name)
    for unit in document.units:
        unit.fill([f"{source}b" for source in unit.sources])
    document.write("fr")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.po", b'msgid "a"\nmsgstr "b', r"a\.po: not PO .*; repair it"),
        ("a.po", b'msgid "a"\nmsgstr "b"\n\nmsgid "c" msgstr "d"\n', "not laid out as usual.*; repair it"),
        ("a.po", b"#" * 100_000, "has more than 99,999 bytes"),
        ("a.xlf", XLIFF.replace("</group>", "").encode(), r"a\.xlf: not XLIFF or TS .*line \d+"),
        ("a.xlf", b"<html/>", "neither XLIFF nor TS, .*first element is html; give the .po file"),
        ("a.xlf", b'<!DOCTYPE xliff [<!ENTITY a "b">]><xliff>&a;</xliff>', "not XLIFF or TS .*it defines entities"),
        ("a.html", "<p>été".encode("latin-1"), r"a\.html, line 1: not text in UTF-8; convert"),
        ("a.md", b"a\n\n\xe9", r"a\.md, line 3: not text in UTF-8; convert"),
        ("a.html", b"<html>\n<title/>", r"a\.html: line 2: HTML does not close <title/>, as XML does"),
    ],
)
def test_bad_documents_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, message: str
) -> None:
    monkeypatch.setattr(formats, "MAX_BYTES", 99_999)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_document(tmp_path / name)
