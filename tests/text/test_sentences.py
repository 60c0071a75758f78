"""Long texts in sentences."""

from rnnsearch_fairseq.text.sentences import cut_sentences


def test_long_texts_are_cut_into_sentences() -> None:
    text = "Mr. Smith sleeps for e.g. 3 hours. " * 10 + "He eats `a. B`. \n  ``b`` is."
    cut = ["Mr. ", "Smith sleeps for e.g. 3 hours. "] * 10 + ["He eats `a. B`. \n  ", "``b`` is."]
    assert cut_sentences(text) == cut
    assert cut_sentences("One. Two.") == ["One. Two."]
    japanese = "彼は昨日、新しい電話を買いました。"
    assert cut_sentences(japanese * 9) == [japanese] * 9
