"""What follows ``rnnsearch prepare``: a plan for training, what to expect of it, and the commands."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from rnnsearch_fairseq.corpus.pairs import Pair

MANY_PAIRS = 1_000_000  # from here on, the first paper's own training
FEW_PAIRS = 10_000
SHORTLIST = 30_004  # the paper's 30,000 words, and fairseq's four symbols
# Measured on an AMD EPYC: seconds of one core for a target word, and more for each word of the target's dictionary.
SECONDS_PER_WORD = {"bahdanau_gru_small": (200e-6, 25e-9), "bahdanau_gru": (900e-6, 90e-9)}
NEXT_LINE = " \\\n        "
WITHOUT_TOKENIZER = ("ja", "ko", "th")  # languages that sacrebleu cannot tokenize without more packages
SMALL_MODEL = [
    "--arch bahdanau_gru_small --task rnnsearch --update-word current --{sharing}",
    "--dropout {dropout} --readout-dropout {dropout} --word-dropout 0.1 --criterion smoothed_nll --label-smoothing 0.1",
    "--optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.05 --lr 0.006 --lr-scheduler polynomial_decay",
    "--warmup-updates {warmup} --total-num-update {updates} --max-update {updates} --clip-norm 1",
]
PAPER_MODEL = [
    "--arch bahdanau_gru --task rnnsearch --pool-batches 20 --max-words 50",
    "--criterion summed_nll --optimizer adadelta --clip-norm 1 --max-epoch 5",
]
SCRIPT = """\
#!/usr/bin/env bash
# Train on the text of this folder, translate the test set and score it. Started again, it skips what is done.
set -euo pipefail
cd "$(dirname "${{BASH_SOURCE[0]}}")"
exec 9<> .lock
flock -n 9 || {{ echo "error: $PWD: another train.sh runs here; wait for its end" >&2; exit 1; }}
export PYTHONWARNINGS=ignore # of libraries

if [ ! -d bin ]; then
    rm -rf bin.part
    {preprocess}
    mv bin.part bin
fi

if [ ! -e checkpoints/finished ]; then
    {train}
    touch checkpoints/finished
fi

if [ ! {translation} -nt checkpoints/checkpoint_best.pt ]; then
    rnnsearch translate raw/test.{source} --model checkpoints/checkpoint_best.pt --beam 12 --output {translation}
fi

sacrebleu raw/test.{target} -i {translation} -m bleu chrf -f text {tokens}
echo
echo "translations of the test set: $PWD/"{translation}
echo "the model:                    $PWD/checkpoints/checkpoint_best.pt"
echo "to use it: rnnsearch translate or serve, with --model and this path, and --beam 12"
"""


@dataclass(frozen=True)
class Plan:
    """A training of ``updates`` updates of ``batch`` pairs, of the model that fairseq calls ``arch``."""

    pairs: int
    arch: str
    pieces: int
    batch: int
    dropout: float
    updates: int


def plan_training(pairs: int) -> Plan:
    """Plan the first paper's training for a million pairs or more, and small models for fewer."""
    if pairs >= MANY_PAIRS:
        return Plan(pairs, "bahdanau_gru", 32_000, 80, 0.0, 5 * -(-pairs // 80))
    # Words grow with about the root of the text (Heaps' law): 5,600 pieces for 29,000 pairs.
    pieces = max(1000, round(33 * pairs**0.5 / 100) * 100)
    batch, dropout = (40, 0.4) if pairs < FEW_PAIRS else (80, 0.3)  # small batches, for enough updates
    return Plan(pairs, "bahdanau_gru_small", pieces, batch, dropout, max(2000, 18 * -(-pairs // batch)))


def expectations(plan: Plan, sample: Sequence[Pair]) -> str:
    """Say what to expect of a training, from prepared pairs of it."""
    targets = [target.split() for _, target in sample]
    length = 1 + sum(map(len, targets)) / len(targets)
    dictionary = min(SHORTLIST, len({word for target in targets for word in target}))
    seconds, more_seconds = SECONDS_PER_WORD[plan.arch]
    minutes = plan.updates * plan.batch * length * (seconds + dictionary * more_seconds) / 60
    time = f"{minutes / 60:,.0f} hours" if minutes > 120 else f"{max(1, round(minutes))} minutes"
    return (
        f"What to expect of {plan.pairs:,} pairs: {plan.arch}; {plan.updates:,} updates of {plan.batch} "
        f"pairs, about {time} of one core without other work, or much less on a GPU. "
        "For comparison, BLEU of captions was 31 after training on 3,600 pairs, and 61 on 29,000."
    )


def make_script(languages: Pair, plan: Plan, joined: bool) -> str:
    """The script ``train.sh``; ``joined``: both languages have the same subwords, and share a dictionary."""
    source, target = map(shlex.quote, languages)
    common = f'--user-dir "$(rnnsearch user-dir)" -s {source} -t {target}'
    words = f"--nwordssrc {SHORTLIST} --nwordstgt {SHORTLIST} --padding-factor 1"
    if plan.pairs < MANY_PAIRS:  # words seen once become <unk>, so that it is learnt
        words += " --thresholdsrc 2 --thresholdtgt 2"
    sharing = "share-all-embeddings" if joined else "share-decoder-input-output-embed"
    model = SMALL_MODEL if plan.pairs < MANY_PAIRS else PAPER_MODEL
    translation = shlex.quote(f"test.hyp.{languages[1]}")
    needs_characters = languages[1][:2] in WITHOUT_TOKENIZER
    preprocess = [
        f"fairseq-preprocess {common} {'--joined-dictionary' if joined else words}",
        "--trainpref train --validpref valid --testpref test --destdir bin.part",
    ]
    train = [
        f"fairseq-train bin {common}",
        *(line.format(**vars(plan), warmup=min(400, plan.updates // 5), sharing=sharing) for line in model),
        f"--batch-size {plan.batch} --no-epoch-checkpoints --save-dir checkpoints --log-file train.log",
    ]
    return SCRIPT.format(
        preprocess=NEXT_LINE.join(preprocess),
        train=NEXT_LINE.join(train),
        source=source,
        target=target,
        translation=translation,
        tokens="--tokenize char" if needs_characters else f"-l {source}-{target}",
    )
