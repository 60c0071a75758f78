"""Link Grammar: with a stand-in for link-parser, and with it where it is installed."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from recipes.trees.parse import main, parse_sentences, put_words
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.trees import first_difference, read_penn
from tests.commands import printed_by
from tests.recipes.reproduce.builders import write

TANAKA = Path(__file__).resolve().parents[4] / "shared/data/tanaka"
Parses = Callable[[list[str]], list[str]]

# Speaks as link-parser does. What a sentence's words make it do: die, print nothing, split a word.
# It writes down its starts and every line that it is given.
STAND_IN = """\
#!{python}
import sys
diary = open({diary!r}, "a", buffering=1)
diary.write("START\\n")
say = lambda line: print(line, flush=True)
say("constituents set to 3")
for line in sys.stdin:
    diary.write(line)
    if line.startswith("!short="):
        say("short set to " + line[7:].strip())
    elif not line.startswith(("!", "%")):
        words = line.split()
        if "die" in words:
            sys.exit(1)
        if words and "nothing" not in words:
            pieces = ["can {{'}} {{t}}" if word == "can't" else word + ".v" for word in words]
            say("Found 1 linkage\\n\\tUnique linkage, cost vector = (UNUSED=0)\\n(S " + " ".join(pieces) + ")\\n")
"""


@pytest.fixture
def parse(tmp_path: Path) -> Parses:
    """Gives the lines that the command writes for some sentences."""

    def parse(sentences: list[str]) -> list[str]:
        printed_by(main, write(tmp_path / "text.en", sentences), "--output", tmp_path / "text.tree")
        return (tmp_path / "text.tree").read_text(encoding="utf-8").split("\n")[:-1]

    return parse


@pytest.fixture
def diary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts a stand-in for link-parser first on the PATH; its diary."""
    program = write(tmp_path / "bin/link-parser", [STAND_IN.format(python=sys.executable, diary=f"{tmp_path}/diary")])
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return tmp_path / "diary"


def flat(sentence: str) -> str:
    """The tree that the stand-in gives a sentence."""
    return f"(S {' '.join(f'(X {word})' for word in sentence.split())})"


@pytest.mark.parametrize(
    ("tree", "sentence", "expected"),
    [
        ("(S (NP the cats.n) (VP sleep.v) .)", "The cats sleep .", "(S (NP (X The) (X cats)) (VP (X sleep)) (X .))"),
        ("(S {i} {'m} in.r)", "i 'm in", "(S (X i) (X 'm) (X in))"),
        ("(NP the (ADJP zxqw{?}.a) 5.50{!} emi{!} d{?}.misc-d)", "the zxqw 5.50 emi d", None),
        ("(S let.v-d 's.#us ....y Mr..x x{!}.v{?}.v z.n.n)", "let 's ... Mr. x{!}.v z.n", None),
        ("(S {{} he {}} {{!} \\{ .)", "( he ) [ \\( .", "(S (X -LRB-) (X he) (X -RRB-) (X [) (X \\-LRB-) (X .))"),
        ("(S it 's.v {{})", "it &apos;s -LRB-", "(S (X it) (X &apos;s) (X -LRB-))"),
    ],
)
def test_leaves_become_the_words_of_the_source(tree: str, sentence: str, expected: str | None) -> None:
    words = sentence.split()
    found = put_words(tree, words)
    assert len(leaves := read_penn(found).words) == len(words) and first_difference(leaves, words) is None
    assert expected in (None, found)


def test_leaves_that_are_not_the_words_are_no_tree() -> None:
    trees = ("(S can.v {'} {t})", "can 't"), ("(S a b c)", "a b"), ("(S a b)", "a b c"), ("(S 1990{!} s.u)", "1990s")
    assert [put_words(tree, sentence.split()) for tree, sentence in trees] == [None] * 4


def test_a_sentence_that_link_parser_does_not_survive_costs_no_other_its_tree(diary: Path, parse: Parses) -> None:
    bad = {"die here", "nothing here", "i can't", ""}
    sentences = ["a b", "die here", "c", "nothing here", "i can't", "", "!exit", "% of men", "w" * 200_000]
    sentences += ["it &apos;s -LSB- a -rsb- &#91; x|y", "f"]
    assert parse(sentences) == ["(())" if sentence in bad else flat(sentence) for sentence in sentences]
    read = diary.read_text().splitlines()
    assert read.count("START") == 2 and " it 's [ a ] [ x|y" in read, "the program is given plain words"


def test_a_program_that_is_missing_or_gives_no_tree_is_named(
    diary: Path, parse: Parses, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sentence, path in (("die", None), ("a b", "/nonexistent")):
        if path:
            monkeypatch.setenv("PATH", path)
        with pytest.raises(InputError, match="link-parser"):
            parse([sentence])
    assert not diary.with_name("text.tree").exists()


# link-parser itself

real = pytest.mark.skipif(
    shutil.which("link-parser") is None, reason="link-parser is not installed (Debian: apt-get install link-grammar)"
)


@real
@pytest.mark.skipif(not TANAKA.is_dir(), reason=f"{TANAKA} is not there")
def test_the_trees_of_the_tanaka_corpus_are_reproduced(parse: Parses) -> None:
    source, trees = ((TANAKA / f"dev.{kind}").read_text(encoding="utf-8").splitlines() for kind in ("en", "tree"))
    assert parse(source) == trees


@real
def test_a_sentence_that_takes_too_long_is_given_up() -> None:
    long = ["to", "be", "or", "not", "to", "be", ",", "and"] * 25
    assert [tree is None for tree in parse_sentences([long, ["he", "sleeps", "."]], 1)] == [True, False]
