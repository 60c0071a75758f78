"""ASPEC-JE taken apart, Enju's words, and the data stage of the recipe on a tiny folder of that form."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from recipes.aspec_en_ja import aspec, wat
from recipes.aspec_en_ja.aspec import enju_words, extract, write_words
from rnnsearch_fairseq.errors import InputError
from tests.recipes.aspec_en_ja.builders import FILES, parse

ROOT = Path(__file__).resolve().parents[3]
ENJU = ROOT.parent / "shared/data/enju"


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, lines in FILES.items():
        write(tmp_path / "ASPEC-JE" / name, lines)
    return tmp_path / "ASPEC-JE"


# The corpus


def test_the_sentences_of_each_part_are_written(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "new/raw"
    assert extract(folder, out, None) == {"train": 3, "dev": 2, "test": 1}
    assert read(out / "train.en") == ["He walked.", "He slept.", "(Why)"]
    assert read(out / "train.ja") == ["彼は22.5 歩いた。", "彼は寝た。", "なぜ。"]
    assert read(out / "dev.en") + read(out / "test.ja") == ["He slept.", "Why?", "なぜ歩いた。"]


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        (
            "train/train-1.txt",
            "A-1 ||| 2 ||| 彼は寝た。 ||| He slept.",
            r"train-1\.txt, line 3: 4 fields .* instead of 5",
        ),
        ("dev/dev.txt", "C-1 ||| 3 ||| あ。 ||| Ah ||| oh.", r"dev\.txt, line 3: 5 fields .* instead of 4"),
    ],
)
def test_a_bad_line_is_named_with_the_cure(folder: Path, tmp_path: Path, name: str, line: str, message: str) -> None:
    with (folder / name).open("ab") as file:
        file.write(f"{line}\n".encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=message):
        extract(folder, tmp_path / "raw", None)
    part = name.partition("/")[0]
    assert not list((tmp_path / "raw").glob(f"*{part}*"))


def test_words_are_those_of_the_tree_and_what_stands_after_it() -> None:
    assert enju_words(parse("He", "walked", after=" . ''")) == ["He", "walked", ".", "''"]
    assert enju_words(parse("AT&amp;T", "1 1/2")) == ["AT&T", "1", "1/2"]
    within = "<sentence><cons><cons><tok>Well</tok></cons>, <cons><tok>go</tok></cons></cons>!?</sentence>"
    assert enju_words(within) == ["Well", "go", "!?"]
    assert enju_words(parse("so", status="fragmental parse")) == ["so"]
    for nothing in ("", "<sentence/>", "<sentence>", f'<!DOCTYPE a [<!ENTITY e "x">]>{parse("&e;")}'):
        assert enju_words(nothing) == []


def test_a_sentence_without_words_of_enju_keeps_its_own(tmp_path: Path) -> None:
    write(tmp_path / "en", ["He walked.", "It's (A) & more.", "Why?"])
    write(tmp_path / "xml", [parse("He", "walked", after="."), '<sentence parse_status="failed"/>', parse("Why")])
    assert write_words(tmp_path / "en", tmp_path / "xml", tmp_path / "words") == (3, 1)
    assert read(tmp_path / "words") == ["he walked .", "it 's ( a ) & more .", "why"]


def test_parses_of_another_text_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "en", ["He walked.", "He slept.", "Why?"])
    xml = [parse("He", "slept"), parse("Why"), parse("Why")]
    for lines, message in (
        (xml, "2 of 3 sentences differ from"),
        (xml[:2], "numbers of lines"),
        ([""] * 3, "no line"),
    ):
        write(tmp_path / "xml", lines)
        with pytest.raises(InputError, match=message):
            write_words(tmp_path / "en", tmp_path / "xml", tmp_path / "words")
    write(tmp_path / "xml", [parse("He", "walks"), parse("He", "slept", after="."), parse("Why")])
    assert write_words(tmp_path / "en", tmp_path / "xml", tmp_path / "xml.words") == (3, 0)
    with pytest.raises(InputError, match="replace"):
        write_words(tmp_path / "en", tmp_path / "en", tmp_path / "en")
    assert not (tmp_path / "words").exists()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("温度は25.4 ℃である。［１．２］", "温度は２５．４℃である。"),
        ("［１．２］", "［１．２］"),
        ("a-b ~ \"c\" 'd' \\", "ａ−ｂ 〜”ｃ”’ｄ’＼"),
        ("  Ｎａ　Cl　と  水 ", " Ｎａ Ｃｌ と水"),
        ("ﾃｽﾄ①，Ⅲ", "ﾃｽﾄ①，Ⅲ"),
        ("", ""),
    ],
)
def test_japanese_is_normalised_as_wats_scripts_do(raw: str, expected: str) -> None:
    assert wat.normalize(raw) == expected


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (" 温度  は ２ ５ ． ４ ℃ ", "温度 は ２５．４ ℃"),
        ("１ ． ２ ． ３", "１．２ ． ３"),
        ("Ｎ ａ Ｃ ｌ と Ｄ Ｎ Ａ", "Ｎａ Ｃｌ と ＤＮＡ"),
        ("ｐ Ｈ ７", "ｐ Ｈ ７"),
    ],
)
def test_numbers_and_latin_words_are_joined_as_wat_does(tokens: str, expected: str) -> None:
    assert wat.join(tokens) == expected


def program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!{sys.executable}\nimport sys\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def stage(tmp_path: Path, *options: str, status: int = 0) -> str:
    """The data stage, in a checkout that is set up already."""
    recipes = tmp_path / "recipes"
    shutil.copytree(ROOT / "recipes/aspec_en_ja", recipes / "aspec_en_ja", dirs_exist_ok=True)
    setup = (ROOT / "recipes/setup.sh").read_text()
    (recipes / "setup.sh").write_text(f'{setup}\nset_up() {{ USER_DIR="{Path(aspec.__file__).parents[1]}"; }}\n')
    path = os.pathsep.join([str(tmp_path / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = ["bash", str(recipes / "aspec_en_ja/data.sh"), *options]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_the_data_stage_takes_what_is_given_and_makes_the_rest(folder: Path, tmp_path: Path) -> None:
    # More parses than pairs, as when a user has parsed everything; the rest is parsed and split by programs.
    given = [parse("He", "walked", after="."), parse("He", "slept", after="."), parse("Why", status="fragmental parse")]
    write(folder / "train.xml", [*given, parse("More")])
    write(folder / "dev.ja", ["彼 は 寝 た 。", "なぜ 。"])
    toks = "' '.join('<cons><tok>%s</tok></cons>' % word for word in line.rstrip('.?\\n').split())"
    sentence = "<sentence parse_status=\\'success\\'><cons>%s</cons>.</sentence>"
    program(tmp_path / "bin/enju", f"for line in sys.stdin: print('{sentence}' % {toks})")
    write(folder / "jp-0.4.2-utf8-1.mod", ["a model"])
    program(tmp_path / "bin/kytea", "assert 'utf8-1.mod' in sys.argv[2]\nfor line in sys.stdin: print(*line.strip())")
    out = tmp_path / "out"
    said = stage(tmp_path, "--data", str(folder), "--out", str(out), "--small")
    text = out / "text"
    assert "first 120000 pairs" in said and "2 pairs of at most 50 words a side with a parse" in said
    assert read(text / "train.en") == ["he walked .", "he slept ."]
    assert read(text / "train.tree") == ["S S R", "S S R"]
    assert read(text / "test.en") == ["why walked ."]
    assert read(text / "test.tree") == ["S S R"]
    assert read(text / "train.ja") == ["彼 は ２２．５ 歩 い た 。", "彼 は 寝 た 。"]
    assert read(text / "dev.ja") == ["彼 は 寝 た 。", "なぜ 。"]
    words = [line.split()[0] for line in read(out / "bin/dict.en.txt")]
    assert {word for word in words if "madeup" not in word} == {"he", "."}
    assert (out / "lengths").is_file()
    for split in ("train", "valid", "test"):
        assert (out / f"bin/{split}.tree-None.tree.idx").is_file()
    assert stage(tmp_path, "--data", str(folder), "--out", str(out), "--small") == ""
