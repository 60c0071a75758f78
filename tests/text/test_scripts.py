"""Scripts without blanks between words."""

import pytest

from rnnsearch_fairseq.text.scripts import lacks_blanks


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
