"""The commands that follow ``rnnsearch prepare``: binarize, train, translate; with all options that the files need."""

import shlex
from pathlib import Path

import rnnsearch_fairseq

# The paper's 30,000 words, and fairseq's four symbols.
SHORTLIST = "--nwordssrc 30004 --nwordstgt 30004 --padding-factor 1"
LARGE = 1_000_000  # pairs; from here on, the first paper's own training
BATCH = 80
EPOCHS = 18  # of the small model on fewer pairs
LEAST_UPDATES = 2000
SMALL_MODEL = [
    "--arch bahdanau_gru_small --update-word current --share-decoder-input-output-embed",
    "--dropout 0.3 --readout-dropout 0.3 --criterion label_smoothed_cross_entropy --label-smoothing 0.1",
    "--optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.05 --lr 0.006 --lr-scheduler polynomial_decay",
    "--warmup-updates 400 --total-num-update {updates} --max-update {updates} --clip-norm 1",
]
PAPER_MODEL = [
    "--arch bahdanau_gru --task pooled_translation --max-words 50",
    "--criterion summed_nll --optimizer adadelta --clip-norm 1 --max-epoch 5",
]


def next_commands(out: Path, languages: tuple[str, str], pairs: int, subwords: bool, segmentations: int) -> str:
    """Write the lines for the shell that binarize the text in ``out``, train on it, and translate.

    Args:
        pairs: number of training pairs.
        subwords: the text is in subwords; both languages then share a dictionary.
        segmentations: number of random segmentations of the training text.
    """
    # Quoted for the shell.
    folder, user_dir = (shlex.quote(str(path)) for path in (out, Path(rnnsearch_fairseq.__file__).parent))
    source, target = map(shlex.quote, languages)
    common = f"--user-dir {user_dir} -s {source} -t {target}"
    binarize = f"fairseq-preprocess {common} {'--joined-dictionary' if subwords else SHORTLIST}"
    held_out = f"--validpref {folder}/valid --testpref {folder}/test"
    if segmentations:
        numbers = range(segmentations)
        texts = ["train", *(f"train.{number}" for number in numbers)]
        commands = [
            *(
                f"cat {' '.join(f'{folder}/{text}.{language}' for text in texts)} > {folder}/all.{language}"
                for language in (source, target)
            ),
            _join(binarize, f"--dict-only --trainpref {folder}/all --destdir {folder}/bin"),
            f"for k in {' '.join(map(str, numbers))}; do",
            _join(
                f"    {binarize} --srcdict {folder}/bin/dict.{source}.txt",
                f"--trainpref {folder}/train.$k {held_out} --destdir {folder}/bin/$k",
            ),
            "done",
        ]
        data = ":".join(f"{folder}/bin/{number}" for number in numbers)
    else:
        commands = [_join(binarize, f"--trainpref {folder}/train {held_out} --destdir {folder}/bin")]
        data = f"{folder}/bin"
    updates = max(LEAST_UPDATES, EPOCHS * -(-pairs // BATCH))
    model = PAPER_MODEL if pairs >= LARGE else [line.format(updates=updates) for line in SMALL_MODEL]
    train = _join(
        f"fairseq-train {data} {common}",
        *model,
        f"--batch-size {BATCH} --no-epoch-checkpoints --save-dir {folder}/checkpoints",
    )
    path = f"--path {folder}/checkpoints/checkpoint_best.pt --beam 12"
    translate = [
        "# Translate what you type; Ctrl-D ends. Training stopped in its first epoch has only checkpoint_last.pt.",
        _join(f"fairseq-interactive {data} {common}", path),
        "# Translate on a page.",
        f"rnnsearch serve {path}",
    ]
    return "\n".join([*commands, train, *translate])


def _join(*lines: str) -> str:
    """Join the lines of one command."""
    return " \\\n    ".join(lines)
