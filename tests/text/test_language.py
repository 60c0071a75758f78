"""Scripts without blanks are recognised; text in another language is noticed, and no other text."""

import pytest

from rnnsearch_fairseq.text.language import find_other_languages
from rnnsearch_fairseq.text.sentences import lacks_blanks

ENGLISH = (
    "The command writes the names of all files in the folder to standard output. If no folder is given, the current "
    "one is read. With the second option, hidden files are shown, too. The output can be written to a file that "
    "another program reads later."
)
CODE = "Set ``max_connections`` in %(path)s to 3, and see :func:`os.path.join` and https://example.org/a for more.\n"
FRENCH = (
    "La commande écrit les noms de tous les fichiers du dossier sur la sortie standard. Si aucun dossier n'est donné, "
    "le dossier courant est lu. Avec la seconde option, les fichiers cachés sont montrés aussi. La sortie peut être "
    "écrite dans un fichier qu'un autre programme lit ensuite."
)
JAPANESE = "このコマンドはフォルダにあるすべてのファイルの名前を標準出力に書きます。 " * 20


@pytest.mark.parametrize(
    ("language", "text", "other"),
    [
        ("en", ENGLISH, ""),
        ("en_GB", ENGLISH.upper(), ""),
        ("en", CODE * 9, ""),
        ("en", "Un café.", ""),  # too short
        ("en", "x = 3 + foo_bar(42); " * 20, ""),
        ("en", FRENCH, "like fr"),
        ("fr", FRENCH, ""),
        ("fr", ENGLISH, "like en"),
        ("ja", ENGLISH, "like en"),
        ("xx", ENGLISH, ""),  # which nobody knows
        ("en", JAPANESE, "like ja"),
        ("ja", f"{JAPANESE}Python と Django", ""),
    ],
)
@pytest.mark.parametrize("size", [10, 40])
def test_other_languages_are_noticed(language: str, text: str, other: str, size: int) -> None:
    words = text.split() * 8
    lines = [" ".join(words[start : start + size]) for start in range(0, len(words), size)]
    assert other in (found := find_other_languages(lines, language)) and bool(found) == bool(other)


@pytest.mark.parametrize(
    ("line", "lacking"),
    [
        ("彼は昨日、新しいiPhoneを買いました。", True),
        ("ฉันชอบกินข้าวผัดและต้มยำกุ้ง แต่เพื่อนของฉันไม่ชอบ", True),
        ("我昨天买了一部新手机。", True),
        ("彼 は 昨日 、 新しい iPhone を 買い まし た 。", False),
        ("ฉัน ชอบ กิน ข้าวผัด และ ต้มยำกุ้ง แต่ เพื่อน ของ ฉัน ไม่ ชอบ", False),
        ("He bought the book 猫 yesterday.", False),
        ("나는 어제 새 휴대폰을 샀다.", False),
        ("", False),
    ],
)
def test_text_without_blanks_is_recognised(line: str, lacking: bool) -> None:
    assert lacks_blanks([line, ""]) == lacking
