"""Scripts without blanks, and text of another language."""

import pytest

from rnnsearch_fairseq.text.scripts import lacks_blanks, lacks_common_words

JAPANESE = "彼は昨日、新しいiPhoneを買いました。"
THAI = "ฉันชอบกินข้าวผัดและต้มยำกุ้ง แต่เพื่อนของฉันไม่ชอบ"


@pytest.mark.parametrize(
    ("line", "lacking"),
    [
        (JAPANESE, True),
        (THAI, True),
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


@pytest.mark.parametrize(
    ("line", "language", "lacking"),
    [
        ("The cat of the man sleeps, and it is in the garden.", "fr", True),
        ("The cat of the man sleeps, and it is in the garden.", "en_GB", False),
        ("Le chat de la voisine dort dans le jardin.", "en", True),
        (JAPANESE, "zh", True),
        (JAPANESE, "ja", False),
        ("The cat sleeps.", "tlh", False),
    ],
)
def test_text_of_another_language_is_recognised(line: str, language: str, lacking: bool) -> None:
    assert lacks_common_words([line] * 150, language) == lacking
    assert not lacks_common_words([line], language), "too little text"
