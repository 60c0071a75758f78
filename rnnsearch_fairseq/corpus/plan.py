"""What follows ``rnnsearch prepare``: a plan for the training, and the script that trains, translates and scores."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rnnsearch_fairseq.command_line import command_options
from rnnsearch_fairseq.corpus.pairs import Pair
from rnnsearch_fairseq.inference.loading import Member
from rnnsearch_fairseq.text.language import language_code

MANY_PAIRS = 1_000_000  # from here on, the first paper's own training
FEW_PAIRS = 10_000
SHORTLIST = 30_004  # the paper's 30,000 words, and fairseq's four symbols
TERMS_FILE = "terms.txt"
CARD = "card.md"  # describes the model of --from; the card of the new model contains it
START = "start.pt"  # the model of --from, as a checkpoint
# Languages that sacrebleu cannot cut into words, or only with more packages.
WITHOUT_TOKENIZER = ("bo", "ja", "km", "ko", "lo", "my", "th", "yue")
ADAM = [
    "--dropout {dropout} --readout-dropout {dropout} --word-dropout {word_dropout} --criterion smoothed_nll",
    "--label-smoothing 0.1 --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.05 --lr {rate}",
    "--lr-scheduler polynomial_decay --warmup-updates {warmup} --total-num-update {updates} --max-update {updates}",
    "--clip-norm 1",
]
SMALL_MODEL = ["--arch bahdanau_gru_small --task rnnsearch --update-word current --{sharing}", *ADAM]
PAPER_MODEL = [
    "--arch bahdanau_gru --task rnnsearch --pool-batches 20 --max-words 50",
    "--criterion summed_nll --optimizer adadelta --clip-norm 1 --max-epoch 5",
]
BASE_MODEL = [f"--arch rnnsearch --task rnnsearch --finetune-from-model {START}", *ADAM]


@dataclass(frozen=True)
class Plan:
    """A training of ``updates`` updates of ``batch`` pairs; a new model has ``pieces`` subwords."""

    pairs: int
    batch: int
    dropout: float
    updates: int
    pieces: int = 0
    rate: float = 0.006
    word_dropout: float = 0.1


def plan_training(pairs: int) -> Plan:
    """Plan the first paper's training for a million pairs or more, and small models for fewer."""
    if pairs >= MANY_PAIRS:
        return Plan(pairs, 80, 0.0, 5 * -(-pairs // 80), 32_000)
    # Words grow with about the root of the text (Heaps' law): 5,600 pieces for 29,000 pairs.
    pieces = max(1000, round(33 * pairs**0.5 / 100) * 100)
    batch, dropout = (40, 0.4) if pairs < FEW_PAIRS else (80, 0.3)  # small batches, for enough updates
    return Plan(pairs, batch, dropout, max(2000, 18 * -(-pairs // batch)), pieces)


def plan_adaptation(pairs: int) -> Plan:
    """Plan to go on from a trained model: eight passes over a few thousand pairs, and up to 20 over fewer.

    With a high learning rate and few pairs, a model forgets all text that is unlike the pairs. So the rate grows with
    the square root of their number.
    """
    batch = 40 if pairs < FEW_PAIRS else 80
    batches = -(-pairs // batch)
    rate = round(min(0.002, 0.00002 * pairs**0.5), 5)  # 0.0002 for 100 pairs, 0.001 for 2,500
    return Plan(pairs, batch, 0.25, max(8 * batches, min(200, 20 * batches)), rate=rate, word_dropout=0.05)


def make_script(
    languages: Pair, plan: Plan, joined: bool, base: Member | None = None, terms: bool = False, lower: bool = False
) -> str:
    """The script ``train.sh``.

    Args:
        joined: whether both languages have one dictionary.
        base: the model of ``--from``, whose options and search are kept.
        terms: whether `TERMS_FILE` lies beside the script.
        lower: whether translations are in lower case.
    """
    source, target = languages
    sharing = "share-all-embeddings" if joined else "share-decoder-input-output-embed"
    numbers = vars(plan) | {"warmup": min(400, plan.updates // 5), "sharing": sharing}
    template = SMALL_MODEL if plan.pairs < MANY_PAIRS else PAPER_MODEL
    if base is not None:
        template, dictionaries = BASE_MODEL, ["--srcdict", f"dict.{source}.txt", "--tgtdict", f"dict.{target}.txt"]
    elif joined:
        dictionaries = ["--joined-dictionary"]
        template = [line.replace("--max-words 50", "--max-words 100") for line in template]  # subwords
    else:
        dictionaries = ["--nwordssrc", SHORTLIST, "--nwordstgt", SHORTLIST, "--padding-factor", 1]
        if plan.pairs < MANY_PAIRS:  # words seen once become <unk>, so that it is learnt
            dictionaries += ["--thresholdsrc", 2, "--thresholdtgt", 2]
    model = [*shlex.split(" ".join(template).format(**numbers)), "--batch-size", plan.batch]
    if plan.pairs < MANY_PAIRS:  # after each pass, or 20 to 40 times
        interval = max(1, plan.updates * plan.batch // plan.pairs // 20)
        model += ["--validate-interval", interval, "--save-interval", interval]
    else:
        model += ["--save-interval-updates", 1000, "--keep-interval-updates", 1]
    sizes = {name: value for name, value in (vars(base.config) if base else {}).items() if "dropout" not in name}
    search = command_options((base and base.usage.search) or {"beam": 12})
    codes = [*map(language_code, languages)]
    tokens = ["--tokenize", "char"] if codes[1] in WITHOUT_TOKENIZER else ["-l", "-".join(codes)]
    settings = {
        "source": source,
        "target": target,
        "updates": plan.updates,
        "base": START if base else "",
        "dictionaries": dictionaries,
        "model": model + command_options(sizes),
        "usage": search + (["--card", CARD] if base and base.usage.description else []),
        "translate": search + (["--terms", TERMS_FILE] if terms else []),
        "tokens": tokens + ["-lc"] * lower,
    }
    script = Path(__file__).with_name("train.sh").read_text(encoding="utf-8")
    head, body = script.split("# SETTINGS\n")
    return head + "".join(f"{name}={_quote(value)}\n" for name, value in settings.items()) + body


def _quote(value: Any) -> str:
    """A value as one word for the shell, whatever a model or a language holds; a list as an array."""
    if not isinstance(value, list):
        return shlex.quote(str(value))
    words = map(_quote, value)
    return "(" + "".join(f"\n    {word}" if word.startswith("-") else f" {word}" for word in words) + ")"
