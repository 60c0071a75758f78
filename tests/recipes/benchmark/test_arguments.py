"""What the benchmarks' command line means, and what it refuses."""

import re
import shlex
from pathlib import Path
from string import Template

import pytest

from recipes.benchmark.arguments import parse_arguments, parse_setups
from recipes.benchmark.setups import configure
from rnnsearch_fairseq.errors import InputError


def test_setups_come_before_what_is_common() -> None:
    setups = parse_setups(["a: --arch x --lr '[1, 2]'", "b:"], ["bin", "--lr", "3"])
    assert setups == {"a": ["--arch", "x", "--lr", "[1, 2]", "bin", "--lr", "3"], "b": ["bin", "--lr", "3"]}


@pytest.mark.parametrize("given", [["no name"], [": --arch x"], ["a: --x", "a: --y"]])
def test_setups_without_a_name_of_their_own_are_refused(given: list[str]) -> None:
    with pytest.raises(InputError, match="must be 'NAME: OPTIONS'"):
        parse_setups(given, [])


def test_options_of_the_benchmark_may_come_first_or_last() -> None:
    first = parse_arguments(["train", "--lengths", "5,4", "--rounds", "3", "a: --x", "--", "bin"])
    last = parse_arguments(["train", "a: --x", "--rounds", "3", "--lengths", "5,4", "--", "bin"])
    assert first == last
    assert (first.lengths, first.rounds, first.setups) == ((5, 4), 3, {"a": ["--x", "bin"]})


@pytest.mark.parametrize(
    ("words", "told"),
    [
        *((["train", "--lengths", text], "is not two lengths") for text in ("5", "0,4", "5,x", "5,4,3")),
        (["generate", "--lengths", "5,4"], "unrecognized arguments"),
        (["memory", "--rounds", "3"], "unrecognized arguments"),
        (["train", "--rounds", "0"], "'0' is not a whole number from 1 on"),
        (["train", "--updates", "-1"], "--updates"),
        (["scaling", "--vocabulary", "4"], "'4' is not a whole number from 5 on"),
        (["memory", "--along", "processes=1,2"], "names none of source, target, lengths, batch, vocabulary"),
        *(
            (["scaling", "--along", f"source={sizes}"], "must have two or more different sizes")
            for sizes in ("", "5", "5,5", "5,0", "5,x", "5,10,5")
        ),
        (["scaling", "--along", "vocabulary=4,8"], "from 5 on"),
    ],
)
def test_bad_numbers_are_refused(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_arguments([words[0], "a: ", *words[1:]])
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("given", [["--vocabulary", "9"], ["--joeynmt", "256"]])
def test_made_up_words_need_lengths(given: list[str]) -> None:
    with pytest.raises(InputError, match=f"{given[0]} needs batches of random words"):
        parse_arguments(["train", "a: ", *given])
    assert parse_arguments(["train", "a: ", *given, "--lengths", "5,4"]).lengths == (5, 4)


def test_axes_are_those_given_or_those_that_the_data_allows() -> None:
    given = ["--along", "batch=8,2,4", "--along", "source=5,10"]
    assert parse_arguments(["scaling", "a: ", *given]).along == {"batch": [8, 2, 4], "source": [5, 10]}
    along = [[*parse_arguments([*words, "a: "]).along] for words in (["scaling"], ["scaling", "--vocabulary", "9"])]
    assert along[0] == ["source", "target", "batch", "processes"]
    assert along[1] == ["source", "target", "batch", "vocabulary", "processes"]
    assert [*parse_arguments(["memory", "--vocabulary", "9", "a: "]).along] == ["source", "target", "lengths", "batch"]
    with pytest.raises(InputError, match="the data's dictionaries have one size"):
        parse_arguments(["memory", "a: ", "--along", "vocabulary=5,10"])


def test_the_commands_of_readmes_are_understood() -> None:
    readmes = sorted((Path(__file__).parents[3] / "recipes").glob("*/README.md"))
    text = "".join(readme.read_text(encoding="utf-8") for readme in readmes).replace("\\\n", " ")
    variables = dict(re.findall(r"^(\w+)='(.*)'$", text, re.MULTILINE))
    commands = re.findall(r"^(?:\w+=\w+ )*python -m recipes\.benchmark (.*)", text, re.MULTILINE)
    assert commands
    for command in commands:
        args = parse_arguments(shlex.split(Template(command).substitute(variables)))
        for name, options in args.setups.items():
            if args.command != "generate":
                configure(name, options, args.vocabulary)
