"""The commands that follow ``rnnsearch prepare``: binarize, train, translate; with all options that the files need."""

import shlex
from pathlib import Path

import rnnsearch_fairseq
from rnnsearch_fairseq.text.preparation import CODES, PIECES, Preparation
from rnnsearch_fairseq.text.texts import Texts

# The paper's 30,000 words, and fairseq's four symbols.
SHORTLIST = "--nwordssrc 30004 --nwordstgt 30004 --padding-factor 1"
LARGE = 1_000_000  # pairs; from here on, the first paper's own training
BATCH = 80
EPOCHS = 18  # of the small model on fewer pairs
LEAST_UPDATES = 2000
SMALL_MODEL = [
    "--arch bahdanau_gru_small --update-word current --share-decoder-input-output-embed",
    "--dropout 0.3 --readout-dropout 0.3 --criterion smoothed_nll --label-smoothing 0.1",
    "--optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.05 --lr 0.006 --lr-scheduler polynomial_decay",
    "--warmup-updates 400 --total-num-update {updates} --max-update {updates} --clip-norm 1",
]
PAPER_MODEL = [
    "--arch bahdanau_gru --task pooled_translation --max-words 50",
    "--criterion summed_nll --optimizer adadelta --clip-norm 1 --max-epoch 5",
]


def next_commands(out: Path, languages: tuple[str, str], pairs: int, preparation: Preparation, test: Texts) -> str:
    """Write the lines for the shell that binarize the text in ``out``, train on it, and translate.

    Args:
        pairs: number of training pairs.
        preparation: how both languages are prepared; with subwords, they share a dictionary.
        test: the raw test set.
    """
    # Quoted for the shell.
    folder, user_dir, raw, reference = (
        shlex.quote(str(path)) for path in (out, Path(rnnsearch_fairseq.__file__).parent, *test)
    )
    source, target = map(shlex.quote, languages)
    common = f"--user-dir {user_dir} -s {source} -t {target}"
    updates = max(LEAST_UPDATES, EPOCHS * -(-pairs // BATCH))
    model = PAPER_MODEL if pairs >= LARGE else [line.format(updates=updates) for line in SMALL_MODEL]
    best = f"{folder}/checkpoints/checkpoint_best.pt"
    translation = f"{folder}/test.hyp.{target}"
    commands = [
        _join(
            f"fairseq-preprocess {common} {SHORTLIST if preparation.subwords is None else '--joined-dictionary'}",
            f"--trainpref {folder}/train --validpref {folder}/valid --testpref {folder}/test --destdir {folder}/bin",
        ),
        _join(
            f"fairseq-train {folder}/bin {common}",
            *model,
            f"--batch-size {BATCH} --no-epoch-checkpoints --save-dir {folder}/checkpoints",
        ),
        "# Translate the test set. Training stopped in its first epoch has only checkpoint_last.pt.",
        f"rnnsearch translate {raw} --model {best} --beam 12 --output {translation}",
        f"sacrebleu {reference} -i {translation} -l {source}-{target}",
        "# Translate on a page.",
        f"rnnsearch serve --model {best} --beam 12",
    ]
    if not preparation.lowercase:  # fairseq has no option for it
        commands += [
            "# Translate what you type, by fairseq; Ctrl-D ends.",
            _join(
                f"fairseq-interactive {folder}/bin {common}", f"--path {best} --beam 12{_options(preparation, folder)}"
            ),
        ]
    return "\n".join(commands)


def _options(preparation: Preparation, folder: str) -> str:
    """The options by which fairseq prepares text alike."""
    subwords = {
        "bpe": f" --bpe subword_nmt --bpe-codes {folder}/{CODES}",
        "sentencepiece": f" --bpe sentencepiece --sentencepiece-model {folder}/{PIECES}",
    }
    tokenizer = "" if preparation.tokenizer is None else f" --tokenizer {preparation.tokenizer}"
    return tokenizer + subwords.get(preparation.subwords or "", "")


def _join(*lines: str) -> str:
    """Join the lines of one command."""
    return " \\\n    ".join(lines)
