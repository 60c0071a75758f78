"""``rnnsearch parse``: with a stand-in for link-parser, and with it where it is installed."""

import shutil
import sys
from pathlib import Path

import pytest

from rnnsearch_fairseq.corpus import link_grammar
from rnnsearch_fairseq.corpus.link_grammar import Failure, put_words
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.text.trees import Parse, first_difference, read_penn

TANAKA = Path(__file__).resolve().parents[3] / "shared/data/tanaka"
INSTALLED = shutil.which("link-parser") is not None

# Speaks as link-parser does. What a sentence's words make it do: die, hang, print nothing, split a word.
# It writes down its starts and every line that it is given.
STAND_IN = """\
#!{python}
import sys, time
diary = open({diary!r}, "a", buffering=1)
diary.write("START\\n")
if {broken}:
    sys.exit("link-grammar: Error: Could not open dictionary")
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
        if "hang" in words:
            time.sleep(60)
        if "nothing" not in words:
            pieces = ["can {{'}} {{t}}" if word == "can't" else word + ".v" for word in words]
            say("Found 1 linkage\\n\\tUnique linkage, cost vector = (UNUSED=0)\\n(S " + " ".join(pieces) + ")\\n")
"""


class Command:
    """The command on some sentences, with a stand-in for link-parser first on the PATH."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.source, self.output, self._diary = folder / "text.en", folder / "text.tree", folder / "diary"
        self._bin = folder / "bin"
        self._bin.mkdir()
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def stand_in(self, broken: bool = False) -> None:
        program = self._bin / "link-parser"
        program.write_text(STAND_IN.format(python=sys.executable, diary=str(self._diary), broken=broken))
        program.chmod(0o755)
        self._monkeypatch.setenv("PATH", str(self._bin), prepend=":")

    def run(self, sentences: list[str], *options: str) -> tuple[list[str], str]:
        """The lines that it writes, and what it prints on standard error."""
        self.source.write_text("".join(line + "\n" for line in sentences), encoding="utf-8")
        command = ["link_grammar", str(self.source), "--output", str(self.output), *options]
        self._monkeypatch.setattr(sys, "argv", command)
        link_grammar.main()
        text = self.output.read_text(encoding="utf-8")
        assert text.endswith("\n")
        return text.split("\n")[:-1], self._capsys.readouterr().err

    def diary(self) -> list[str]:
        return self._diary.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, monkeypatch, capsys)


def flat(sentence: str) -> str:
    """The tree that the stand-in gives a sentence."""
    return f"(S {' '.join(f'(X {word})' for word in sentence.split())})"


# Words

ALIGNED = [
    (
        "(S (NP many animals.n) (VP sleep.v) .)",
        "many animals sleep .",
        "(S (NP (X many) (X animals)) (VP (X sleep)) (X .))",
    ),
    ("(NP many animals.n)", "Many animals", "(NP (X Many) (X animals))"),
    ("(S {i} {'m} in.r)", "i 'm in", "(S (X i) (X 'm) (X in))"),
    ("(NP the (ADJP zxqw{?}.a) 5.50{!} emi{!} d{?}.misc-d)", "the zxqw 5.50 emi d", None),
    ("(S let.v-d 's.#us ....y Mr..x x{!}.v{?}.v z.n.n)", "let 's ... Mr. x{!}.v z.n", None),
    ("(S {{} he {}} {{!} \\{ .)", "( he ) [ \\( .", "(S (X -LRB-) (X he) (X -RRB-) (X [) (X \\-LRB-) (X .))"),
]
NOT_ALIGNED = [
    ("(S can.v {'} {t})", "can 't"),
    ("(S a b c)", "a b"),
    ("(S aim{~}.n-u)", "aim"),
    ("(S aim.n)", "ai"),
    ("(S 1990{!} s.u)", "1990s"),
]


@pytest.mark.parametrize(("tree", "sentence", "expected"), ALIGNED)
def test_leaves_become_the_words_of_the_source(tree: str, sentence: str, expected: str | None) -> None:
    words = sentence.split()
    found = put_words(tree, words, words)
    assert isinstance(found, str)
    parse = read_penn(found)
    assert isinstance(parse, Parse)
    assert first_difference(parse.words, words) is None
    assert len(parse.words) == len(words)
    assert expected in (None, found)


@pytest.mark.parametrize(("tree", "sentence"), NOT_ALIGNED)
def test_leaves_that_are_not_the_words_are_no_tree(tree: str, sentence: str) -> None:
    assert put_words(tree, sentence.split(), sentence.split()) is Failure.OTHER_WORDS


def test_escapes_stay_as_the_source_has_them() -> None:
    found = put_words("(S it 's.v {{})", ["it", "'s", "("], ["it", "&apos;s", "-LRB-"])
    assert found == "(S (X it) (X &apos;s) (X -LRB-))"


# The program


def test_a_sentence_that_link_parser_does_not_survive_costs_no_other_its_tree(command: Command) -> None:
    command.stand_in()
    bad = {"die here", "or hang here", "nothing here", "i can't", "", "w" * 1999}
    sentences = ["a b", "die here", "c", "or hang here", "d e", "nothing here", "i can't", "", "w" * 1999, "f"]
    lines, said = command.run(sentences, "--seconds", "1.5")
    assert lines == ["(())" if sentence in bad else flat(sentence) for sentence in sentences]
    assert command.diary().count("START") == 3
    assert not any("ww" in line for line in command.diary())
    assert "10 sentences, 4 parsed; 6 without a tree" in said
    for count, cause in (
        (2, "gives no tree"),
        (1, "splits otherwise"),
        (1, "more than 2,000 bytes"),
        (1, "took too long"),
        (1, "ended"),
    ):
        assert any(line.startswith(f"  {count} ") and cause in line for line in said.splitlines())


def test_one_program_parses_many_sentences(command: Command) -> None:
    command.stand_in()
    sentences = [f"w{number}" for number in range(1200)]
    assert command.run(sentences)[0] == list(map(flat, sentences))
    assert command.diary().count("START") == 1


def test_the_program_is_given_plain_words_and_no_commands(command: Command) -> None:
    command.stand_in()
    sentences = ["!exit", "! help", "% of men", "!short=16", "a b"]
    assert command.run(sentences)[0] == list(map(flat, sentences))
    lines, _ = command.run(["it &apos;s -LRB- a -rrb- &#91; x|y"])
    assert " it 's ( a ) [ x|y" in command.diary()
    assert lines == ["(())"]  # the stand-in does not write brackets as braces


def test_a_program_that_is_missing_or_does_not_start_is_named_with_the_cure(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    command.stand_in(broken=True)
    with pytest.raises(InputError, match=r"link-parser does not start \(.*open dictionary"):
        command.run(["a b"])
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(InputError, match="link-parser is not on the PATH"):
        command.run(["a b"])
    assert not command.output.exists()


def test_what_cannot_be_parsed_is_refused(command: Command) -> None:
    command.stand_in()
    with pytest.raises(InputError, match=r"text\.en"):
        command.run(["die", "die"])
    with pytest.raises(InputError, match="--seconds"):
        command.run(["a"], "--seconds", "nan")
    assert not command.output.exists()
    with pytest.raises(InputError, match=r"text\.en"):
        command.run(["a"], "--output", str(command.source))
    assert command.source.read_text() == "a\n"


# link-parser itself

real = pytest.mark.skipif(not INSTALLED, reason="link-parser is not installed (Debian: apt-get install link-grammar)")


@real
def test_what_link_parser_says_of_some_sentences(command: Command) -> None:
    sentences = [
        "many animals have been destroyed by men .",
        "i can 't swim .",
        "!help",
        " ".join(["word"] * 300),
        "He ( a man ) left .",
        "It &apos;s here -LRB- now -RRB- .",
        "jim resembles his father .",  # not "aim", which it knows
        "today is the best day of my life .",  # one of 50 linkages; of 100, another
    ]
    lines, said = command.run(sentences)
    assert lines[0] == (
        "(S (NP (X many) (X animals)) (VP (X have) (VP (X been) (VP (X destroyed) (PP (X by) (NP (X men)))))) (X .))"
    )
    assert lines[1] == lines[3] == "(())"
    for line, sentence in zip(lines, sentences):
        parse = read_penn(line)
        if isinstance(parse, Parse):
            assert first_difference(parse.words, sentence.split()) is None
    assert "(())" not in lines[4:6]
    assert lines[6:] == [
        "(S (NP (X jim)) (VP (X resembles) (NP (X his) (X father))) (X .))",
        "(S (X today) (X is) (NP (X the) (X best)) (NP (X day) (X of) (X my) (X life)) (X .))",
    ]
    assert f"{len(sentences)} sentences, " in said


@real
@pytest.mark.skipif(not TANAKA.is_dir(), reason=f"{TANAKA} is not there")
def test_the_trees_of_the_tanaka_corpus_are_reproduced(command: Command) -> None:
    source, trees = ((TANAKA / f"dev.{kind}").read_text(encoding="utf-8").splitlines() for kind in ("en", "tree"))
    assert command.run(source)[0] == trees
