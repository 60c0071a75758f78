"""Translators' documents: what is read, and that only what is filled changes."""

import codecs
import difflib
import re
from collections import Counter
from pathlib import Path

import pytest

from rnnsearch_fairseq.corpus.pairs import UNFINISHED, UNTRANSLATED, read_units
from rnnsearch_fairseq.documents import formats
from rnnsearch_fairseq.documents.formats import fill, read_document
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.markup import same_markup

HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset={}\\n"\n\n'
PO = (
    HEADER.format("UTF-8")
    + r"""# In no editor's order and width.
#~ msgid "gone"
#~ msgstr ""
#, python-format
#: a.py:1
msgctxt "menu"
msgid "%d "
  "cat"
msgstr ""
#, fuzzy
#| msgid "old"
msgid "doubtful"
msgstr   "douteux"

msgid "Say \"hi\"\n"
""
msgstr ""
""

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
+#, fuzzy
-msgstr ""
-""
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
<!-- <trans-unit><source>no</source></trans-unit> --><xliff version="1.2">
 <file original="a>b" source-language='en' datatype="plaintext"><body>
  <trans-unit id="1" approved="yes">
   <source>The <g id="1">cat</g> &amp; dog</source>
  </trans-unit>
  <trans-unit id="2"><source ><![CDATA[a < b]]></source><target lang='fr' state="new" />
   <alt-trans><source>z</source><target>zz</target></alt-trans></trans-unit>
  <trans-unit id="3"><source>yes</source><target state="translated">oui</target></trans-unit>
  <trans-unit id="4"><source>no</source><target state="needs-review-l10n">non</target></trans-unit>
  <group translate="no"><trans-unit id="5"><source>rnnsearch</source></trans-unit></group>
  <trans-unit id="6"><source>passed over</source><note/><target>elsewhere</target></trans-unit>
  <trans-unit id="7"><source>copy</source><target state="needs-translation">copy</target></trans-unit>
 </body></file>
</xliff>
"""
FILLED_XLIFF = """-  <trans-unit id="1" approved="yes">
+  <trans-unit id="1">
+   <target state="needs-review-translation">THE <g id="1">CAT</g> &amp; DOG</target>
-  <trans-unit id="2"><source ><![CDATA[a < b]]></source><target lang='fr' state="new" />
+  <trans-unit id="2"><source ><![CDATA[a < b]]></source><target lang='fr'{}>A &lt; B</target>
-  <trans-unit id="7"><source>copy</source><target state="needs-translation">copy</target></trans-unit>
+  <trans-unit id="7"><source>copy</source><target{}>COPY</target></trans-unit>
""".replace("{}", ' state="needs-review-translation"')
XLIFF2 = """<x:xliff xmlns:x="urn:oasis:names:tc:xliff:document:2.0" version="2.0"><x:file id="f"><x:unit id="1">
<x:segment><x:source>The <x:ph id="1"/>cat</x:source></x:segment>
<x:segment state="final"><x:source>yes</x:source><x:target>oui</x:target></x:segment></x:unit></x:file></x:xliff>
"""
FILLED_XLIFF2 = """-<x:segment><x:source>The <x:ph id="1"/>cat</x:source></x:segment>
+<x:segment state="initial"><x:source>The <x:ph id="1"/>cat</x:source>{}</x:segment>
""".replace("{}", '<x:target>THE <x:ph id="1"/>CAT</x:target>')
DOGS = [("one dog", "un chien"), ("%d dogs", "%d chiens"), ("first", "premier"), ("second", "deuxième")]


def shout(text: str) -> str:
    """The text in capital letters, but for markup."""
    parts = re.split(r"(<[^ ].*?>|%d)", text)
    return "".join(part if number % 2 else part.upper() for number, part in enumerate(parts))


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("name", "content", "filled", "pairs", "blank", "unfinished"),
    [
        ("a.po", PO, FILLED_PO, DOGS, 4, 1),
        ("a.xlf", XLIFF, FILLED_XLIFF, [("yes", "oui")], 3, 1),
        ("a.xliff", XLIFF2, FILLED_XLIFF2, [("yes", "oui")], 1, 0),
    ],
)
def test_only_what_is_filled_changes(
    tmp_path: Path, name: str, content: str, filled: str, pairs: list, blank: int, unfinished: int, newline: str
) -> None:
    path, left_out = tmp_path / name, Counter()
    path.write_bytes(before := content.replace("\n", newline).encode())
    assert [*read_units(path, left_out)] == pairs
    assert left_out == Counter({UNTRANSLATED: blank, UNFINISHED: unfinished})
    _, units = read_document(path)
    blanks = {number: unit.sources for number, unit in enumerate(units) if not any(unit.targets)}
    assert fill(before, units, {}) == before
    path.write_bytes(fill(before, units, {number: [*map(shout, texts)] for number, texts in blanks.items()}))
    after = path.read_bytes().decode()
    assert after.count("\n") == after.count(newline)
    changes = difflib.unified_diff(content.splitlines(), after.splitlines(), n=0, lineterm="")
    assert "".join(f"{line}\n" for line in changes if line[:2] not in ("--", "++", "@@")) == filled
    left_out.clear()
    assert [*read_units(path, left_out)] == pairs
    assert left_out == {UNFINISHED: blank + unfinished}


@pytest.mark.parametrize(
    ("translation", "written"),
    [
        ('<g id="1">le chat</g> & <x/>', '<g id="1">le chat</g> &amp; <x/>'),
        ('<x/><g id="1">le chat</g>', '<x/><g id="1">le chat</g>'),
        ('<x/> </g> <g id="1"> <b>', "   &lt;b&gt;"),
        ("<x/> chat", " chat"),
    ],
)
def test_tags_of_xliff_are_those_of_the_source_or_left_out(tmp_path: Path, translation: str, written: str) -> None:
    path = tmp_path / "a.xlf"
    path.write_text('<xliff><trans-unit><source><g id="1">cat</g><x/></source></trans-unit></xliff>')
    content, units = read_document(path)
    assert f">{written}</target>" in fill(content, units, {0: [translation]}).decode()


def test_tags_may_hold_what_ends_tags_and_comments_are_no_text(tmp_path: Path) -> None:
    path, text = tmp_path / "a.xlf", """T <x equiv-text="a > b" ctype='c>d'/> y"""
    path.write_text(f"<xliff><trans-unit><source>{text}<!-- <note> --></source></trans-unit></xliff>")
    content, units = read_document(path)
    assert units[0].sources == [text]
    assert f">{text}</target>" in fill(content, units, {0: [text]}).decode()
    assert same_markup(text, text) and not same_markup(text, text.replace("a > b", "a > c"))


def test_other_encodings_and_numbers_of_forms(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    three = 'msgid "one"\nmsgid_plural "many"\nmsgstr[0] ""\nmsgstr[1] ""\nmsgstr[2] ""\n\n'
    path.write_text(f'{HEADER.format("iso-8859-1")}{three}msgid "m"\nmsgid_plural "all"\nmsgstr[0] ""')
    content, units = read_document(path)
    filled = fill(content, units, {0: ["été", "étés"], 1: ["un", "tous"]}).decode("iso-8859-1")
    assert 'msgstr[0] "été"\nmsgstr[1] "étés"\nmsgstr[2] "étés"\n' in filled
    assert filled.endswith('\n#, fuzzy\nmsgid "m"\nmsgid_plural "all"\nmsgstr[0] "tous"\n')
    with pytest.raises(InputError, match=r"a\.po: iso-8859-1 lacks '猫'; rewrite it with msgconv -t UTF-8"):
        fill(content, units, {1: ["猫", "猫"]})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.po", b'msgid "a"\nmsgstr "b', r"a\.po: not a PO file .*; mend what msgfmt --check says"),
        ("a.po", b'msgid "a"\n\nmsgstr "b"\n', "not laid out as usual; rewrite it with msgcat"),
        ("a.po", codecs.BOM_UTF8 + PO.encode(), "delete its byte order mark"),
        ("a.po", PO.replace("UTF-8", "unheard").encode(), "not a PO file .*; mend"),
        ("a.xlf", XLIFF.replace("</group>", "").encode(), r"a\.xlf, line 14: not well-formed XML"),
        ("a.xlf", XLIFF.replace("UTF-8", "UTF-16").encode("utf-16"), "not in UTF-8"),
        ("a.po", b"#" * 100_000, "has more than 99,999 bytes; split it"),
        ("b.po", None, r"b\.po: cannot be read"),
    ],
)
def test_bad_documents_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes | None, message: str
) -> None:
    monkeypatch.setattr(formats, "MOST_BYTES", 99_999)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_document(tmp_path / name)
