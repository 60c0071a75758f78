"""What follows ``rnnsearch prepare``: a plan for training, what to expect of it, and the commands."""

import shlex
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch.nn import functional

import rnnsearch_fairseq
from rnnsearch_fairseq.corpus.texts import Texts
from rnnsearch_fairseq.modules.rnnsearch import ARCHITECTURES, RNNsearch, RNNsearchConfig
from rnnsearch_fairseq.modules.symbols import EOS
from rnnsearch_fairseq.text.preparation import Preparation
from rnnsearch_fairseq.text.scripts import code

LARGE = 1_000_000  # pairs; from here on, the first paper's own training
FEW = 10_000
SHORTLIST = 30_004  # the paper's 30,000 words, and fairseq's four symbols
SAMPLE = 5_000  # lines whose words are counted
TIMED, MOST_SECONDS = 3, 10  # updates, and seconds of all but the last
NEXT_LINE = " \\\n    "
UNSPLIT = ("ja", "ko", "th")  # for which sacrebleu has no tokenizer, or needs more packages
SMALL_MODEL = [
    "--task rnnsearch --arch bahdanau_gru_small --update-word current --{sharing}",
    "--dropout {dropout} --readout-dropout {dropout} --word-dropout 0.1 --criterion smoothed_nll --label-smoothing 0.1",
    "--optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.05 --lr 0.006 --lr-scheduler polynomial_decay",
    "--warmup-updates {warmup} --total-num-update {updates} --max-update {updates} --clip-norm 1",
]
PAPER_MODEL = [
    "--arch bahdanau_gru --task rnnsearch --pool-batches 20 --max-words 50",
    "--criterion summed_nll --optimizer adadelta --clip-norm 1 --max-epoch 5",
]


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
    if pairs >= LARGE:
        return Plan(pairs, "bahdanau_gru", 32_000, 80, 0.0, 5 * -(-pairs // 80))
    # Words grow with about the root of the text (Heaps' law): 5,600 pieces for 29,000 pairs.
    pieces = max(1000, round(33 * pairs**0.5 / 100) * 100)
    batch, dropout = (40, 0.4) if pairs < FEW else (80, 0.3)  # small batches, for enough updates
    return Plan(pairs, "bahdanau_gru_small", pieces, batch, dropout, max(2000, 18 * -(-pairs // batch)))


def expectations(plan: Plan, source: Iterable[str], target: Iterable[str]) -> str:
    """Say what to expect of a training on these lines of words or subwords, by timed updates on random words."""
    sides = [[line.split() for line in islice(side, SAMPLE)] for side in (source, target)]
    words = min(SHORTLIST, 4 + len({word for side in sides for line in side for word in line}))
    gpu = torch.cuda.is_available()
    device, clock = ("cuda", time.perf_counter) if gpu else ("cpu", time.process_time)
    source_ids, target_ids = (
        torch.randint(EOS, words, (plan.batch, 1 + sum(map(len, side)) // len(side)), device=device) for side in sides
    )
    shared = {"share_all_embeddings": plan.pairs < LARGE}
    network = RNNsearch(RNNsearchConfig.of({**ARCHITECTURES[plan.arch], **shared}), words, words).to(device)
    optimizer = torch.optim.Adam(network.parameters())
    threads, seconds = torch.get_num_threads(), []
    torch.set_num_threads(1)
    while len(seconds) < TIMED and sum(seconds) < MOST_SECONDS:  # the first update may be slower
        start = clock()
        scores, _ = network(source_ids, target_ids)
        loss = functional.cross_entropy(scores.flatten(0, 1), target_ids.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        float(loss.detach())  # wait for a GPU
        seconds.append(clock() - start)
    torch.set_num_threads(threads)
    minutes = plan.updates * min(seconds) / 60
    length = f"{minutes / 60:.0f} hours" if minutes > 120 else f"{max(1, round(minutes))} minutes"
    why = "a larger one needs a million pairs" if plan.pairs < LARGE else "the first paper's"
    size = sum(parameter.numel() for parameter in network.parameters()) / 1e6
    return (
        f"What to expect of {plan.pairs:,} pairs: {plan.arch}, {size:.1f} million parameters ({why}); {plan.updates:,} "
        f"updates of {plan.batch} pairs, about {length} {'of this GPU' if gpu else 'of one core without other work'} "
        f"({min(seconds):.2g} seconds an update, the fastest of {len(seconds)})."
    )


def next_commands(
    out: Path, languages: tuple[str, str], plan: Plan, preparation: Preparation, test: Texts
) -> tuple[list[str], list[str]]:
    """The commands for the shell, in order: from the text in ``out`` to a score, and those that wait for a user.

    Args:
        preparation: how both languages are prepared; with subwords, they share a dictionary.
        test: the raw test set.
    """
    # Quoted for the shell.
    folder, user_dir, raw, reference = (
        shlex.quote(str(path)) for path in (out, Path(rnnsearch_fairseq.__file__).parent, *test)
    )
    source, target = map(shlex.quote, languages)
    common = f"--user-dir {user_dir} -s {source} -t {target}"
    joined = preparation.subwords is not None
    words = f"--nwordssrc {SHORTLIST} --nwordstgt {SHORTLIST} --padding-factor 1"
    if plan.pairs < LARGE:  # words seen once become <unk>, so that it is learnt
        words += " --thresholdsrc 2 --thresholdtgt 2"
    sharing = "share-all-embeddings" if joined else "share-decoder-input-output-embed"
    model = SMALL_MODEL if plan.pairs < LARGE else PAPER_MODEL
    best = f"{folder}/checkpoints/checkpoint_best.pt"
    translation = f"{folder}/test.hyp.{target}"
    preprocess = [
        f"fairseq-preprocess {common} {'--joined-dictionary' if joined else words}",
        f"--trainpref {folder}/train --validpref {folder}/valid --testpref {folder}/test --destdir {folder}/bin",
    ]
    train = [
        f"fairseq-train {folder}/bin {common}",
        *(line.format(**vars(plan), warmup=min(400, plan.updates // 5), sharing=sharing) for line in model),
        f"--batch-size {plan.batch} --no-epoch-checkpoints --save-dir {folder}/checkpoints",
        f"--log-file {folder}/train.log",
    ]
    to_a_score = [
        NEXT_LINE.join(preprocess),
        NEXT_LINE.join(train),
        f"rnnsearch translate {raw} --model {best} --beam 12 --output {translation}",
        f"sacrebleu {reference} -i {translation} -m bleu chrf -f text "
        + ("--tokenize char" if code(languages[1]) in UNSPLIT else f"-l {source}-{target}"),
    ]
    return to_a_score, [f"rnnsearch translate --model {best} --beam 12", f"rnnsearch serve --model {best} --beam 12"]
