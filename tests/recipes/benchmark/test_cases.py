"""What the benchmarks' command line means, and what it refuses."""

import re
import shlex
from pathlib import Path
from string import Template

import pytest

from recipes.benchmark.cases import Size, parse_arguments, parse_setups
from recipes.benchmark.workloads import configure
from rnnsearch_fairseq.errors import InputError


def test_setups_come_before_what_is_common() -> None:
    setups = parse_setups(["a: --arch x --lr '[1, 2]'", "b:", "c: joeynmt 256"], ["bin", "--lr", "3"])
    assert setups == {
        "a": ("fairseq", ["--arch", "x", "--lr", "[1, 2]", "bin", "--lr", "3"]),
        "b": ("fairseq", ["bin", "--lr", "3"]),
        "c": ("joeynmt", ["256"]),
    }


def test_one_size_grows_at_a_time() -> None:
    words = ["train", "a:", "b:", "--lengths", "20", "--target", "5,10", "--batch", "4", "--vocabulary", "9"]
    args = parse_arguments(words)
    sizes = [Size(20, target, 4, 9) for target in (5, 10)]
    assert args.axis == "target"
    assert [case.size for case in args.cases] == sizes + sizes
    assert [case.label for case in args.cases] == ["a, 5", "a, 10", "b, 5", "b, 10"]
    both = parse_arguments(["train", "a:", "--lengths", "5,1000", "--vocabulary", "9"])
    assert [(case.size.source, case.size.target) for case in both.cases] == [(5, 5), (1000, 1000)]
    assert both.cases[1].label == "a, 1,000"
    with pytest.raises(InputError, match="--batch and --threads both have several sizes"):
        parse_arguments(["train", "a:", "--threads", "1,2", "--batch", "1,2", "--vocabulary", "9"])


def test_the_commands_of_readmes_are_understood() -> None:
    readmes = sorted((Path(__file__).parents[3] / "recipes").glob("*/README.md"))
    text = "".join(readme.read_text(encoding="utf-8") for readme in readmes).replace("\\\n", " ")
    variables = dict(re.findall(r"^(\w+)='(.*)'$", text, re.MULTILINE))
    commands = re.findall(r"^(?:\w+=\w+ )*python -m recipes\.benchmark (.*)", text, re.MULTILINE)
    assert commands
    for command in commands:
        for case in parse_arguments(shlex.split(Template(command).substitute(variables))).cases:
            if (case.command, case.toolkit) == ("train", "fairseq") and case.along in (None, 15):
                configure(case.options, case.size.vocabulary)
