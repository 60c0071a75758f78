"""Both sides of ASPEC, and the data commands of the README on a tiny folder of that form."""

from pathlib import Path

import pytest

from recipes.aspec_en_ja.aspec import join, normalize
from tests.commands import run_block
from tests.recipes.reproduce.builders import write

# A tree of the two words, and a full stop after it; nothing of a sentence that begins with a bracket.
WORD = r"<cons><tok>\1<\/tok><\/cons> <cons><tok>\2<\/tok><\/cons>"
TREE = rf's/^(\w+) (\w+)\./<sentence parse_status="success"><cons>{WORD}<\/cons>.<\/sentence>/'
ENJU = rf"""[ "$1" = -xml ] && sed -E -e '{TREE}' -e '/^\(/s/.*/<sentence parse_status="fail"\/>/'"""
KYTEA = r"""[ "$2" = jp-0.4.2-utf8-1.mod ] && sed -e 's/./& /g'"""


@pytest.mark.slow
def test_the_data_commands_make_what_fairseq_trains_on(tmp_path: Path) -> None:
    files = {
        "train/train-1.txt": "0.9 ||| A-1 ||| 1 ||| 彼は22.5 歩いた。 ||| He walked.\n",
        "train/train-2.txt": "0.7 ||| A-1 ||| 2 ||| 彼。 ||| (A) b\n0.6 ||| B-1 ||| 1 ||| 彼は寝た。 ||| He slept.\n",
        "dev/dev.txt": "C-1 ||| 1 ||| 寝た。 ||| He slept.\n",
        "test/test.txt": "D-1 ||| 1 ||| 歩いた。 ||| He walked.\n",
    }
    for name, text in files.items():
        write(tmp_path / "ASPEC-JE" / name, text.splitlines())
    run_block("aspec_en_ja", "enju", tmp_path, enju=ENJU, kytea=KYTEA)
    out = tmp_path / "runs/aspec_en_ja"
    made = {name: (out / name).read_text(encoding="utf-8").splitlines() for name in ("words/train.en", "text/train.en")}
    assert made["words/train.en"] == ["he walked .", "( a ) b", "he slept ."]
    assert made["text/train.en"] == ["he walked .", "he slept ."]
    assert (out / "text/train.tree").read_text() == "S S R\nS S R\n"
    assert (out / "text/train.ja").read_text(encoding="utf-8").splitlines()[0] == "彼 は ２２．５ 歩 い た 。"
    assert (out / "text/preparation.json").is_file() and (out / "lengths").is_file()
    for split in ("train", "valid", "test"):
        assert (out / f"text/bin/{split}.tree-None.tree.idx").is_file()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("温度は25.4 ℃である。［１．２］", "温度は２５．４℃である。"),
        ("［１．２］", "［１．２］"),
        ("a-b ~ \"c\" 'd' \\", "ａ−ｂ 〜”ｃ”’ｄ’＼"),
        ("  Ｎａ　Cl　と  水 ", " Ｎａ Ｃｌ と水"),
        ("ﾃｽﾄ①，Ⅲ", "ﾃｽﾄ①，Ⅲ"),
    ],
)
def test_japanese_is_normalised_as_wats_scripts_do(raw: str, expected: str) -> None:
    assert normalize(raw) == expected


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
    assert join(tokens) == expected
