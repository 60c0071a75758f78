"""Example sentences for the page, chosen by the model's vocabulary."""

import json
from pathlib import Path

from rnnsearch_fairseq.inference.translator import Translator
from rnnsearch_fairseq.modules.symbols import UNK

NUMBER = 3


def choose_examples(translator: Translator) -> list[str]:
    """Up to ``NUMBER`` sentences of page/examples.json that hold no unknown word; frequent words come first."""
    sentences = json.loads((Path(__file__).parent / "page" / "examples.json").read_text(encoding="utf-8"))
    rarest = {}
    for sentence in sentences.get(translator.languages[0], []):
        ids = translator.read_source(sentence).ids.tolist()
        if UNK not in ids:
            rarest[sentence] = max(ids)  # the vocabulary begins with the most frequent words
    return sorted(rarest, key=rarest.get)[:NUMBER]
