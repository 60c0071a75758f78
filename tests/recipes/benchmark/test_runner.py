"""Cases in processes of their own, in turns, and their work. How fast anything is, no test says."""

import re
import shlex
from pathlib import Path
from string import Template

import pytest

from recipes.benchmark.__main__ import Case, Timing, format_table, parse_arguments
from recipes.benchmark.workloads import Size, Translation
from rnnsearch_fairseq.errors import InputError
from tests.commands import ROOT, run

SIZES = "--embedding-size 8 --hidden-size 8"
TINY = shlex.split(f"--arch bahdanau_gru_small {SIZES} --alignment-size 8 --maxout-size 8")
WORDS = shlex.split(f"--arch anmt_small {SIZES}")
TRAIN = shlex.split("--task translation --criterion summed_nll --optimizer adam --lr 0.001 --clip-norm 1 --cpu")


def test_cases_come_before_common_options() -> None:
    args = parse_arguments(["train", "a: --lr '[1, 2]'", "b @ ../old:", "--batch", "4", "--", "bin", "--lr", "3"])
    assert args.cases == [Case("a", ["--lr", "[1, 2]", "bin", "--lr", "3"]), Case("b", ["bin", "--lr", "3"], "../old")]
    assert (args.batch, args.vocabulary) == (4, None)
    for words in (["train", "a"], ["train", "a:", "a:"], ["generate", "a:"]):
        with pytest.raises(InputError):
            parse_arguments(words)


def test_the_commands_of_readmes_are_understood() -> None:
    text = "".join(readme.read_text(encoding="utf-8") for readme in sorted(ROOT.glob("recipes/*/README.md")))
    text = text.replace("\\\n", " ")
    variables = dict(re.findall(r"^(\w+)='(.*)'$", text, re.MULTILINE))
    commands = re.findall(r"^ *(?:\w+=\w+ )*python -m recipes\.benchmark ((?:train|generate) .*)", text, re.MULTILINE)
    assert len(commands) >= 4
    for command in commands:
        typed = Template(command).safe_substitute(variables, length=30)
        assert parse_arguments(shlex.split(typed, comments=True)).cases


def test_speeds_are_medians_and_ratios_of_medians() -> None:
    first = Timing("first", 600, 2_500_000, "torch", False, [(1.0, 0.5), (2.0, 1.0), (3.0, 1.5)])
    second = Timing("second", 300, None, "torch", False, [(1.0, 1.0), (4.0, 1.0), (3.0, 1.0)])
    lines = format_table([first, second], "words").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]
    assert rows[0] == ["first", "600", "400 to 1,200", "1.00", "300", "2.5"]
    assert rows[1] == ["second", "300", "300 to 300", "2.00", "100", ""] and len(rows) == 2


@pytest.mark.slow
@pytest.mark.train
def test_models_train_in_turns_and_a_case_that_fails_is_named(tmp_path: Path) -> None:
    package = tmp_path / "rnnsearch_fairseq"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('the package of another checkout')")
    setups = ["words: " + shlex.join(WORDS), "bad: --arch nothing", "search: " + shlex.join(TINY)]
    setups += [f"other @ {tmp_path}:"]
    words = [*setups, "--vocabulary", "20", "--batch", "2", "--lengths", "5", "--updates", "2", "--rounds", "2"]
    done = run("python", "-m", "recipes.benchmark", "train", *words, "--", *TRAIN, cwd=ROOT, status=1)
    turns = re.findall(r"^round (\d), (.*): \S+ s$", done.stderr, re.MULTILINE)
    assert turns == [("1", "words"), ("1", "search"), ("2", "search"), ("2", "words")]
    assert "invalid choice: 'nothing'" in done.stderr and "bad: failed with exit status 2" in done.stderr
    assert "the package of another checkout" in done.stderr and "other: failed with exit status 1" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.startswith("2 rounds of 2 batches; torch ")
    assert re.findall(r"^\| (\w+) \|", done.stdout, re.MULTILINE) == ["words", "search"]


@pytest.mark.parametrize("model", [WORDS, TINY], ids=["tree2seq", "rnnsearch"])
def test_a_random_model_writes_translations_of_the_length(model: list[str]) -> None:
    options = [*model, "--task", "translation", "--beam", "2", "--cpu"]
    translation = Translation(options, Size(updates=3, vocabulary=20, lengths=4, batch=2))
    assert translation.count == 3 * 2
    beams = [beam for batch in translation.batches for beam in translation.step(batch)]
    assert {len(hypothesis["tokens"]) for beam in beams for hypothesis in beam} == {4}
