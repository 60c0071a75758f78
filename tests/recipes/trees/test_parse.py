"""Link Grammar: with a stand-in for link-parser, and with it where it is installed."""

import contextlib
import shutil
import sys
from pathlib import Path

import pytest

from recipes.trees.parse import main
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.serve.link_grammar import LinkParser, put_words
from rnnsearch_fairseq.text.trees import Parse, first_difference, read_penn

TANAKA = Path(__file__).resolve().parents[4] / "shared/data/tanaka"

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


class Command:
    """The command on some sentences."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.source, self.output, self._diary = folder / "text.en", folder / "text.tree", folder / "diary"
        self._monkeypatch = monkeypatch

    def stand_in(self) -> None:
        """Put a stand-in for link-parser first on the PATH."""
        program = self.source.parent / "bin" / "link-parser"
        program.parent.mkdir()
        program.write_text(STAND_IN.format(python=sys.executable, diary=str(self._diary)))
        program.chmod(0o755)
        self._monkeypatch.setenv("PATH", str(program.parent), prepend=":")

    def run(self, sentences: list[str]) -> list[str]:
        """The lines that it writes."""
        self.source.write_text("".join(line + "\n" for line in sentences), encoding="utf-8")
        command = ["link_grammar", str(self.source), "--output", str(self.output)]
        self._monkeypatch.setattr(sys, "argv", command)
        main()
        return self.output.read_text(encoding="utf-8").split("\n")[:-1]

    def diary(self) -> list[str]:
        return self._diary.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    return Command(tmp_path, monkeypatch)


def flat(sentence: str) -> str:
    """The tree that the stand-in gives a sentence."""
    return f"(S {' '.join(f'(X {word})' for word in sentence.split())})"


@pytest.mark.parametrize(
    ("tree", "sentence", "expected"),
    [
        (
            "(S (NP many animals.n) (VP sleep.v) .)",
            "Many animals sleep .",
            "(S (NP (X Many) (X animals)) (VP (X sleep)) (X .))",
        ),
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
    parse = read_penn(found)
    assert first_difference(parse.words, words) is None
    assert len(parse.words) == len(words)
    assert expected in (None, found)


@pytest.mark.parametrize(
    ("tree", "sentence"),
    [
        ("(S can.v {'} {t})", "can 't"),
        ("(S a b c)", "a b"),
        ("(S a b)", "a b c"),
        ("(S 1990{!} s.u)", "1990s"),
    ],
)
def test_leaves_that_are_not_the_words_are_no_tree(tree: str, sentence: str) -> None:
    assert put_words(tree, sentence.split()) is None


def test_a_sentence_that_link_parser_does_not_survive_costs_no_other_its_tree(command: Command) -> None:
    command.stand_in()
    bad = {"die here", "nothing here", "i can't", ""}
    sentences = ["a b", "die here", "c", "nothing here", "i can't", "", "!exit", "% of men", "w" * 200_000, "f"]
    assert command.run(sentences) == ["(())" if sentence in bad else flat(sentence) for sentence in sentences]
    assert command.diary().count("START") == 2


def test_the_program_is_given_plain_words(command: Command) -> None:
    command.stand_in()
    command.run(["it &apos;s -LRB- a -rrb- &#91; x|y", "a"])
    assert " it 's ( a ) [ x|y" in command.diary()


def test_a_program_that_is_missing_or_gives_no_tree_is_named(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    command.stand_in()
    with pytest.raises(InputError, match="link-parser"):
        command.run(["die", "die"])
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(InputError, match="link-parser"):
        command.run(["a b"])
    assert not command.output.exists()


# link-parser itself

real = pytest.mark.skipif(
    shutil.which("link-parser") is None, reason="link-parser is not installed (Debian: apt-get install link-grammar)"
)


@real
def test_what_link_parser_says_of_some_sentences(command: Command) -> None:
    sentences = [
        "many animals have been destroyed by men .",
        "i can 't swim .",
        "!help",
        " ".join(["word"] * 300),
        "w" * 3000,
        "He ( a man ) left .",
        "It &apos;s here -LRB- now -RRB- .",
        "jim resembles his father .",  # not "aim", which it knows
        "today is the best day of my life .",  # one of 50 linkages; of 100, another
    ]
    lines = command.run(sentences)
    assert lines[0] == (
        "(S (NP (X many) (X animals)) (VP (X have) (VP (X been) (VP (X destroyed) (PP (X by) (NP (X men)))))) (X .))"
    )
    assert lines[1] == lines[3] == lines[4] == "(())"
    for line, sentence in zip(lines, sentences):
        parse = read_penn(line)
        if isinstance(parse, Parse):
            assert first_difference(parse.words, sentence.split()) is None
    assert "(())" not in lines[5:7]
    assert lines[7:] == [
        "(S (NP (X jim)) (VP (X resembles) (NP (X his) (X father))) (X .))",
        "(S (X today) (X is) (NP (X the) (X best)) (NP (X day) (X of) (X my) (X life)) (X .))",
    ]


@real
@pytest.mark.skipif(not TANAKA.is_dir(), reason=f"{TANAKA} is not there")
def test_the_trees_of_the_tanaka_corpus_are_reproduced(command: Command) -> None:
    source, trees = ((TANAKA / f"dev.{kind}").read_text(encoding="utf-8").splitlines() for kind in ("en", "tree"))
    assert command.run(source) == trees


@real
def test_a_sentence_that_takes_too_long_is_given_up() -> None:
    with contextlib.closing(LinkParser(1)) as parser:
        assert parser.parse(["to", "be", "or", "not", "to", "be", ",", "and"] * 25) is None
        assert parser.parse(["he", "sleeps", "."]) is not None
