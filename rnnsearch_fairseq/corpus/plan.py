"""What follows ``rnnsearch prepare``: a plan for training, what to expect of it, and the commands."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rnnsearch_fairseq.command_line import command_options
from rnnsearch_fairseq.corpus.pairs import Pair
from rnnsearch_fairseq.inference.loading import Member

MANY_PAIRS = 1_000_000  # from here on, the first paper's own training
FEW_PAIRS = 10_000
TOO_FEW_PAIRS = 1000  # for a new model
NEW_MODEL = "a new model of 29,000 captions reached BLEU 61"  # recipes/multi30k_en_fr
# recipes/docs_en_fr, Adaptation
ADAPTED_MODEL = (
    "some 2,000 messages of documentation raised BLEU from 45.6 to 60.3 in the files that they came from, "
    "and from 45.8 to 49.4 in other files"
)
SHORTLIST = 30_004  # the paper's 30,000 words, and fairseq's four symbols
# Seconds per target word on a core of an AMD EPYC with AVX-512: a constant part, and a part for each dictionary entry.
SECONDS_PER_WORD = {"bahdanau_gru_small": (200e-6, 25e-9), "bahdanau_gru": (900e-6, 90e-9)}
SLOWER = 2.2  # times as long on an EPYC without AVX-512
TERMS_FILE = "terms.txt"
START = "start.pt"  # the given model, as a checkpoint
NEXT_LINE = " \\\n        "
WITHOUT_TOKENIZER = ("ja", "ko", "th")  # languages that sacrebleu cannot tokenize without more packages
ADAM = [
    "--dropout {dropout} --readout-dropout {dropout} --word-dropout {word_dropout} --criterion smoothed_nll "
    "--label-smoothing 0.1",
    "--optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.05 --lr {rate} --lr-scheduler polynomial_decay",
    "--warmup-updates {warmup} --total-num-update {updates} --max-update {updates} --clip-norm 1",
]
SMALL_MODEL = ["--arch bahdanau_gru_small --task rnnsearch --update-word current --{sharing}", *ADAM]
PAPER_MODEL = [
    "--arch bahdanau_gru --task rnnsearch --pool-batches 20 --max-words 50",
    "--criterion summed_nll --optimizer adadelta --clip-norm 1 --max-epoch 5",
]
GIVEN_MODEL = [f"--arch rnnsearch --task rnnsearch --finetune-from-model {START}", "{sizes}", *ADAM]
TRAIN_SCRIPT = """\
#!/usr/bin/env bash
# Train on the text of this folder, translate the test set and score it. Started again, it skips what is done.
set -euo pipefail
cd "$(dirname "${{BASH_SOURCE[0]}}")"
exec 9<> .lock
flock -n 9 || {{ echo "error: $PWD: another train.sh runs here; wait for its end" >&2; exit 1; }}
export PYTHONWARNINGS=ignore # of libraries
user_dir=$(rnnsearch user-dir)

if [ ! -d bin ]; then
    rm -rf bin.part
    fairseq-preprocess --user-dir "$user_dir" -s {source} -t {target} {dictionaries} \\
        --trainpref train --validpref valid --testpref test --destdir bin.part > preprocess.log 2>&1 ||
        {{ tail -n 3 preprocess.log >&2; echo "error: see $PWD/preprocess.log" >&2; exit 1; }}
    mv bin.part bin
fi

if [ ! -e checkpoints/finished ]; then
    fairseq-train bin --user-dir "$user_dir" -s {source} -t {target} \\
        {model} \\
        --batch-size {batch} --no-epoch-checkpoints --save-dir checkpoints \\
        --log-format json --log-interval 10 2>&1 |
        rnnsearch progress train.log {updates}
    touch checkpoints/finished
fi

if [ ! -d model ]; then
    rm -rf model.part
    rnnsearch export checkpoints/checkpoint_best.pt --output model.part --half {search} > /dev/null
    mv model.part model
fi

score() {{ # MODEL TRANSLATIONS: translate the test set, and compare it with its translations by people
    if [ ! "$2" -nt model ]; then rnnsearch translate raw/test.{source} --model "$1" {search} {terms} --output "$2"; fi
    sacrebleu raw/test.{target} -i "$2" -m bleu chrf -f text {tokens}
}}
{scores}
echo
echo "translations of the test set: $PWD/"{translation}
echo "the model:                    $PWD/model"
echo "to use it: rnnsearch translate or serve, with --model and this path"
"""


@dataclass(frozen=True)
class Plan:
    """A training of ``updates`` updates of ``batch`` pairs, of the model that fairseq calls ``arch``."""

    pairs: int
    arch: str
    pieces: int  # subwords to learn; 0: the given model has its own
    batch: int
    dropout: float
    updates: int
    rate: float = 0.006
    word_dropout: float = 0.1


def plan_training(pairs: int) -> Plan:
    """Plan the first paper's training for a million pairs or more, and small models for fewer."""
    if pairs >= MANY_PAIRS:
        return Plan(pairs, "bahdanau_gru", 32_000, 80, 0.0, 5 * -(-pairs // 80))
    # Words grow with about the root of the text (Heaps' law): 5,600 pieces for 29,000 pairs.
    pieces = max(1000, round(33 * pairs**0.5 / 100) * 100)
    batch, dropout = (40, 0.4) if pairs < FEW_PAIRS else (80, 0.3)  # small batches, for enough updates
    return Plan(pairs, "bahdanau_gru_small", pieces, batch, dropout, max(2000, 18 * -(-pairs // batch)))


def plan_adaptation(pairs: int) -> Plan:
    """Plan to go on from a trained model: eight passes over a few thousand pairs, more over fewer."""
    batch = 40 if pairs < FEW_PAIRS else 80
    updates = max(200, 8 * -(-pairs // batch))
    return Plan(pairs, "bahdanau_gru_small", 0, batch, 0.25, updates, rate=0.002, word_dropout=0.05)


def expectations(plan: Plan, sample: Sequence[Pair]) -> str:
    """Say what to expect of a training, from prepared pairs of it."""
    targets = [target.split() for _, target in sample]
    length = 1 + sum(map(len, targets)) / len(targets)
    dictionary = min(SHORTLIST, len({word for target in targets for word in target}))
    seconds, more_seconds = SECONDS_PER_WORD[plan.arch]
    minutes = plan.updates * plan.batch * length * (seconds + dictionary * more_seconds) / 60
    unit, size = ("hours", 60) if minutes > 120 else ("minutes", 1)
    least = max(1, round(minutes / size))
    time = f"{least:,} to {max(least + 1, round(SLOWER * minutes / size)):,} {unit}"
    text = (
        f"What to expect of {plan.pairs:,} pairs: {plan.arch}; {plan.updates:,} updates of {plan.batch} "
        f"pairs, about {time} of one core, by processor, or much less on a GPU. For comparison, "
        f"{NEW_MODEL if plan.pieces else ADAPTED_MODEL}."
    )
    if plan.pieces and plan.pairs < TOO_FEW_PAIRS:
        text += f"\nwarning: {plan.pairs:,} pairs teach a new model little; go on from a trained one (--from MODEL)"
    return text


def make_script(languages: Pair, plan: Plan, joined: bool, given: Member | None = None, terms: bool = False) -> str:
    """The script ``train.sh``, with a ``joined`` dictionary, and the search of the model ``given`` with ``--from``."""
    source, target = languages
    model, scores = SMALL_MODEL if plan.pairs < MANY_PAIRS else PAPER_MODEL, "score model {translation}"
    dictionaries = ["--nwordssrc", SHORTLIST, "--nwordstgt", SHORTLIST, "--padding-factor", 1]
    if plan.pairs < MANY_PAIRS:  # words seen once become <unk>, so that it is learnt
        dictionaries += ["--thresholdsrc", 2, "--thresholdtgt", 2]
    if joined:
        dictionaries = ["--joined-dictionary"]
    if given is not None:
        model = GIVEN_MODEL
        dictionaries = ["--srcdict", f"dict.{source}.txt", "--tgtdict", f"dict.{target}.txt"]
        scores = f'echo "before, by the given model:"\nscore {START} {{before}}\necho "after:"\n{scores}'
    sizes = {name: value for name, value in (vars(given.config) if given else {}).items() if "dropout" not in name}
    values: dict[str, Any] = {
        **vars(plan),
        "source": source,
        "target": target,
        "dictionaries": dictionaries,
        "warmup": min(400, plan.updates // 5),
        "sharing": "share-all-embeddings" if joined else "share-decoder-input-output-embed",
        "sizes": command_options(sizes),
        "search": command_options((given and given.usage.search) or {"beam": 12}),
        "terms": ["--terms", TERMS_FILE] if terms else [],
        "tokens": ["--tokenize", "char"] if target[:2] in WITHOUT_TOKENIZER else ["-l", f"{source}-{target}"],
        "translation": f"test.hyp.{target}",
        "before": f"test.before.{target}",
    }
    # Each value is one word for the shell, whatever a given model or a language holds, and a list is several.
    words = {
        name: shlex.join(map(str, value if isinstance(value, list) else [value])) for name, value in values.items()
    }
    parts = {"model": NEXT_LINE.join(model), "scores": scores}
    return TRAIN_SCRIPT.format(**words, **{name: part.format(**words) for name, part in parts.items()})
