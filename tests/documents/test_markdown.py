"""Pages of Markdown: what is text, and that all the rest stays byte for byte."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rnnsearch_fairseq.documents.formats import read_document
from rnnsearch_fairseq.documents.markdown import read_markdown
from rnnsearch_fairseq.text.markup import scan

ROOT = Path(__file__).resolve().parents[2]
KEPT = re.compile(r"`+[^`]*`+|<[^<>]*>|&\w+;|\\.|\{[^{}]*\}")


def shout(text: str) -> str:
    """The text in capital letters, but for code, tags and references."""
    parts = KEPT.split(text)
    return "".join(part.upper() + kept for part, kept in zip(parts, [*KEPT.findall(text), ""], strict=True))


def translate(content: str, is_mdx: bool = False) -> str:
    document = read_markdown(content.encode(), is_mdx)
    for unit in document.units:
        assert unit.fill([shout(unit.sources[0])]) == ""
    return document.write("fr").decode()


SHORT = "[a b]: x\n[`c`]: x\n[d e]: x\n[g]: x\n"


@pytest.mark.parametrize(
    ("page", "written"),
    [
        # What the texts of a page are, and what stays around them.
        ("* one\n  two\n* [ ] a\n\n1. b\n   > c\n   > d\n", "* ONE TWO\n* [ ] A\n\n1. B\n   > C D\n"),
        ("> a  \n> b\\\n> \\*c\n", "> A  \n> B\\\n> \\*C\n"),
        ("Title\n===\n\n## b ##\n", '<a id="title"></a>TITLE\n===\n\n## b ##\n'),
        ("---\ntitle: a b\n---\na\n", "---\ntitle: a b\n---\nA\n"),
        ("\ufeff+++\r\ntitle = 'a b'\r\n+++\r\na\r\nb\r\n", "\ufeff+++\r\ntitle = 'a b'\r\n+++\r\nA B\r\n"),
        ("Term\n\n:   what it\n    is\n\n[^1]: a\n    note\n", "TERM\n\n:   WHAT IT IS\n\n[^1]: A NOTE\n"),
        ("    code\n\n```\na\n```\n\n~~~~ {.b}\nc\n~~~~\n\n`e` \\<F>\n", None),
        ("<div>\n<p title='a'>b\n</div>\n\n<!-- c -->\n", "<div>\n<p title=\"A\">B\n</div>\n\n<!-- c -->\n"),
        # Entities, empty cells, tags over two lines, alignment, ends of lines, private characters.
        ("&lt;script&gt;a&lt;/script&gt; &amp;lt; &copy;\n", "&lt;SCRIPT&gt;A&lt;/SCRIPT&gt; &amp;LT; &copy;\n"),
        ("| a || b |\n|:--|---|:-:|\n| None || 3 \\| it |\n", "| A || B |\n|:--|---|:-:|\n| NONE || 3 \\| IT |\n"),
        ('it <img src="a"\n  alt="b"> is\n', 'IT <img src="a"\n  alt="b"> IS\n'),
        ("a \ue000 `\ue000`\n\n\ue001\n", "A \ue000 `\ue000`\n\n\ue001\n"),
        ("::: note\nopen\n:::\n\nclose <!--⟦0⟧--> it <a0>\n", "::: note\nOPEN\n:::\n\nCLOSE <!--⟦0⟧--> IT <a0>\n"),
        ("/// note | A\nopen\n///\n", "/// note | A\nOPEN\n///\n"),
        ("- a\n\n::: b.c\n    options:\n      - d\n\n    e\n", "- A\n\n::: b.c\n    options:\n      - d\n\n    E\n"),
        ("```{note} a\n:class: b c\n:d:\ne :f\n```\n", "```{note} a\n:class: b c\n:d:\nE :F\n```\n"),
        # Links.
        ("[a](b.md#c 'd') ![e](f)\n\n[g]: h 'i'\n", "[A](b.md#c 'd') ![E](f)\n\n[g]: h 'i'\n"),
        (f"[a b] [`c`] [d e][] [f][g] [h]\n\n{SHORT}", f"[A B][a b] [`c`] [D E][d e] [F][g] [H]\n\n{SHORT}"),
        ("[[1]](a.md) <https://a.b> [![](b)](c)\n", None),
        ("[the *a*\nb](<c d>) is\n", "[THE *A* B](<c d>) IS\n"),
        # Emphasis.
        ("_a_ __b__ ___c___ ~~d~~ e_f_g\n", "*A* **B** ***C*** ~~D~~ E_F_G\n"),
        ("an *a* or _b [c](d)_ \\*\\*\n", "AN *A* OR *B [C](d)* \\*\\*\n"),
        # Marks of extensions.
        ('!!! note "Read it"\n    a\n\n    b\n\n        c\n', '!!! note "READ IT"\n    A\n\n    B\n\n        c\n'),
        ('```\n!!! note "A b"\n```\n\n!!! note ""\n    a\n', '```\n!!! note "A b"\n```\n\n!!! note ""\n    A\n'),
        ('=== "See [a b]"\n    b\n!!! a "b [c](d)"\n', '=== "See [a b]"\n    B\n!!! a "B [C](D)"\n'),
        (":::tip Read it\na\n\n:::b[c]{d='e'}\n\n:::{admonition} f\n",
         ":::tip READ IT\nA\n\n:::b[C]{d='e'}\n\n:::{admonition} F\n"),
        ("> [!NOTE] a\n> b\n\n::: c\n\n::: d e='f'\n", "> [!NOTE] A\n> B\n\n::: c\n\n::: d e='f'\n"),
        ("- a/\n  - b\n\nC | d\n:-|:-\ne | f\n", "- a/\n  - B\n\nC | D\n:-|:-\nE | F\n"),
        (":   !!! note\n\n        a\n", ":   !!! note\n\n        A\n"),
        ("!!!a\n    b\n\nc `d`\n", "!!!a\n    B\n\nC `d`\n"),
        ('!!!note "See [a](b "c")"\n\n      d\n', '!!!note "SEE [A](B \'C\')"\n\n      D\n'),
        ('=== "Linux"\n    a\n\n??? tip\n    b\n', '=== "LINUX"\n    A\n\n??? tip\n    B\n'),
        ("NOTE: a\nb\n\nWARNING:\nc\n\n>! TIP: d\n\n> BLOCK:\n",
         "NOTE: A B\n\nWARNING:\nC\n\n>! TIP: D\n\n> BLOCK:\n"),
        ("> [!NOTE]\n> a\n\n[TOC]\n(c-d)=\n# `e`\n", "> [!NOTE]\n> A\n\n[TOC]\n(c-d)=\n# `e`\n"),
        ("```{note}\na\n```\n\n```admonish warning\nb\n```\n", "```{note}\nA\n```\n\n```admonish warning\nB\n```\n"),
        ("a\n*[HTML]: b\n{: .c }\n{% if d %}\ne\n{% end %}\n", "A\n*[HTML]: b\n{: .c }\n{% if d %}\nE\n{% end %}\n"),
        ("import {\n  a,\n} from './a';\n\nexport function B() {\n  return 1;\n}\n", None),
        ("- ```\n  export a {\n  ```\n\n```\nexport a(\n```\nb\n\n}\n",
         "- ```\n  export a {\n  ```\n\n```\nexport a(\n```\nB\n\n}\n"),
        ("<A\n  b='c'\n>\nd\n</A>\n{{< e\n  f='g'\n>}}\n", "<A\n  b='c'\n>\nD\n</A>\n{{< e\n  f='g'\n>}}\n"),
        ("<A\n  title='b'\n  c />\nd\n> e\n", '<A\n  title="B"\n  c />\nD\n> E\n'),
        ("{{ a({\n  b: c\n}) }}\nd\n{% e\n  f %}\n", "{{ a({\n  b: c\n}) }}\nD\n{% e\n  f %}\n"),
        ("c\n{d.e((f) => (\n  g\n))}\n", "C\n{d.e((f) => (\n  g\n))}\n"),
        ("a\n\n:b: c\n", "A\n\n:B: C\n"),
        ("% a\nb\n+++ c\nd\n{/* e */}\n", "% a\nB\n+++ c\nD\n{/* e */}\n"),
        ("Title: A\nDate: 1\n\n> [!div class='a']\n> b\n", "Title: A\nDate: 1\n\n> [!div class='a']\n> B\n"),
        ("import A from './a';\nexport const b = 1;\n--8<-- 'c.md'\n", None),
        ("```\n<A title='c'>\n```\n<B>\n- c\n- d\n</B>\n", "```\n<A title='c'>\n```\n<B>\n- C\n- D\n</B>\n"),
        ("a\n<B>\n  <C title='d e'>\n    f\n  </C>\n</B>\n", 'A\n<B>\n  <C title="D E">\n    F\n  </C>\n</B>\n'),
        ("::a{b=c}\n#d\ne\n:::f\n---\nto: g\n  ---\n:::\n::\n", "::a{b=c}\n#d\nE\n:::f\n---\nto: g\n  ---\n:::\n::\n"),
        ("**a**\nb\nSee c: d\nThe e:\nf\n", "**A**\nB\nSEE C: D\nTHE E: F\n"),
        ("| Name | a |\n|-|-|\n| b | c |\n| [d](#e) | f g |\n", "| NAME | A |\n|-|-|\n| b | C |\n| [d](#e) | F G |\n"),
        ("| Default |\n|-|\n| 'a' |\n| 2s |\n| No |\n", "| DEFAULT |\n|-|\n| 'a' |\n| 2s |\n| NO |\n"),
        (":::{note} a\n:class: b\nc\n:::\n", ":::{note} a\n:class: b\nC\n:::\n"),
        ("@a b\n@c d\n e\n| f\n| g\n✅ h\n🚀 i\n", "@A B\n@C D E\n| F\n| G\n✅ H\n🚀 I\n"),
        ("# a b\n---\nc: d\n---\n\n# [e g](#tab/f)\n", '# <a id="a-b"></a>A B\n---\nc: d\n---\n\n# [E G](#tab/f)\n'),
        # Blocks of code and formulas.
        ("{% highlight a %}\nb\n\n  c\n{% endhighlight %}\n", None),
        ("a\n$$\nb c\n$$\nd\n\n$$ e\nf $$\n\n$$\ng\n", "A\n$$\nb c\n$$\nD\n\n$$ e\nf $$\n\n$$ G\n"),
        ("\\begin{a*}\nb &= c\n\\end{a*}\nd\n", "\\begin{a*}\nb &= c\n\\end{a*}\nD\n"),
        ("{{< highlight a >}}\nb\n{{< /highlight >}}\nc\n", "{{< highlight a >}}\nb\n{{< /highlight >}}\nC\n"),
        ('{{< a title="b c" lang="d" >}}\ne\n{{< /a >}}\n', '{{< a title="B C" lang="d" >}}\ne\n{{< /a >}}\n'),
        ('{{< a alt="b" >}}\n\n```\n{{< a alt="B C" >}}\n```\n', None),
        ("{{% a _b_ %}} {{< c >}}\nd\n\n{{% a _b %}} *e_f*\n", "{{% a _b_ %}} {{< c >}}\nD\n\n{{% a _b %}} *E_F*\n"),
        ("```\n{a(b => {\n```\nc\n\n~~~\n$$\n~~~\nd\n", "```\n{a(b => {\n```\nC\n\n~~~\n$$\n~~~\nD\n"),
        ("a <b c>d</b>\n:e: f\n:g: h\n", "A <b c>D</b>\n:E: F\n:G: H\n"),
        # Headings: names stay, and links find what is translated.
        ("### theme\n\n##### **separator**\n\n## my_name.a\n", None),
        ("# a & b\n", '# <a id="a--b"></a><a id="a-b"></a>A & B\n'),
        ("é a\n-\n", '<a id="é-a"></a><a id="e-a"></a>É A\n-\n'),
        ("# a [b][c]\n", '# <a id="a-b"></a>A [B][C]\n'),
        ("# a b\n# a b\n", '# <a id="a-b"></a>A B\n# <a id="a-b-1"></a><a id="a-b_1"></a>A B\n'),
        ("# a b {-}\n\na {b}\n", '# <a id="a-b"></a>A B {-}\n\nA {b}\n'),
        ("+++\na = 1\n+++\n# a {{< c >}} b\n", "+++\na = 1\n+++\n# A {{< c >}} B {#a--b}\n"),
        ("# A b {#c}\n\n# d e {: .f }\n", '# A B {#c}\n\n# <a id="d-e"></a>D E {: .f }\n'),
    ],
)  # fmt: skip
def test_texts_are_found_and_written_back(page: str, written: str | None) -> None:
    assert translate(page) == (page if written is None else written)


@pytest.mark.parametrize(
    ("page", "written"),
    [
        ("<A>\n    a\n\n\t\t# b c\n  </A>\nd\n", '<A>\n    A\n\n\t\t# <a id="b-c"></a>B C\n  </A>\nD\n'),
        ("1. a\n\n    <B>\n    ```\n    c\n\n    # d\n    ```\n    </B>\n2. e\n",
         "1. A\n\n    <B>\n    ```\n    c\n\n    # d\n    ```\n    </B>\n2. E\n"),
        ("    <A title='b c'>\n        <p>d</p>\n    </A>\n", '    <A title="B C">\n        <p>D</p>\n    </A>\n'),
    ],
)  # fmt: skip
def test_a_text_of_mdx_is_no_code_because_it_is_indented(page: str, written: str) -> None:
    assert translate(page, is_mdx=True) == written


def test_words_in_single_stars_are_no_variables_for_the_translator() -> None:
    units = read_markdown(b"an *a* or _b_\n\na *b* **c**\n").units
    assert [unit.sources for unit in units] == [["an **a** or **b**"], ["a <e0>b</e0> **c**"]]


def test_code_at_the_beginning_of_a_link_is_code_for_the_translator() -> None:
    (unit,) = read_markdown(b"see the [`base` option](a.md)\n").units
    assert scan(unit.sources[0]).spans == ["<a0>", "`base`", "</a0>"]


PAGES = [path for path in sorted(ROOT.glob("**/README.md")) if ".venv" not in path.parts]


def test_pages_stay_byte_for_byte_where_nothing_is_translated() -> None:
    assert PAGES
    for path in PAGES:
        document = read_document(path)
        for unit in document.units:
            assert unit.fill(unit.sources) == ""
        assert document.write("fr") == path.read_bytes()


PARTS = [
    "a", "b c", "\n", "\r\n", "\n\n", "  \n", "\\\n", "> ", "- ", "    ", "1. ", "# ", "[", "]", "](", ")", "][", "![",
    "`", "```", "*", "**", "_", "~~", "<b>", "</b>", "<!-- ", "-->", "&lt;", "\\", "|", "\n|--|--|\n", "!!! note\n",
    ":::", "$$\n", "[a]: b\n", "é", "😀", "\t", "{#a}", "---\n",
]  # fmt: skip


@given(st.lists(st.sampled_from(PARTS), max_size=20).map("".join))
def test_any_page_stays_where_nothing_is_translated(page: str) -> None:
    document = read_markdown(page.encode())
    assert bytes(document.store).decode() == page
    for unit in document.units:
        assert unit.fill(unit.sources) == ""
    assert document.write("fr").decode() == page
    for unit in document.units:
        unit.fill([f"{unit.sources[0]}X"])
    document.write("fr").decode()


def test_deep_lists_and_quotations_are_read() -> None:
    deep = "".join(f"{'  ' * depth}- a\n" for depth in range(500)) + "\n" + "> " * 2_000 + "b\n"
    assert translate(deep) == deep.upper()
