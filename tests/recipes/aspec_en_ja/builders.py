"""ASPEC-JE in small, and the parses of Enju."""

TRAIN_1 = ["0.9 ||| A-1 ||| 1 ||| 彼は22.5 歩いた。 ||| He walked.", "0.8 ||| A-1 ||| 2 ||| 彼は寝た。 ||| He slept."]
TRAIN_2 = ["0.7 ||| B-1 ||| 1 ||| なぜ。 ||| (Why)"]
DEV = ["C-1 ||| 1 ||| 彼は寝た。 ||| He slept.", "C-1 ||| 2 ||| なぜ。 ||| Why?"]
TEST = ["D-1 ||| 1 ||| なぜ歩いた。 ||| Why walked?"]
FILES = {"train/train-1.txt": TRAIN_1, "train/train-2.txt": TRAIN_2, "dev/dev.txt": DEV, "test/test.txt": TEST}


def parse(*words: str, after: str = "", status: str = "success") -> str:
    """What Enju says of one or two words, and punctuation after them."""
    toks = [f"<cons><tok>{word}</tok></cons>" for word in words]
    return f'<sentence parse_status="{status}"><cons>{" ".join(toks)}</cons>{after}</sentence>'
