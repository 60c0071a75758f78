"""What fairseq-train writes into its log."""

from pathlib import Path

EPOCH = """{time} | INFO | train | epoch {epoch:03d} | loss 3 | nll_sentence_nats {train} | nll_word_nats 2 | ppl 8 | \
wps 99 | ups 2 | num_updates {updates} | lr 1 | train_wall {seconds} | wall 5000
"""
DEV = """{time} | INFO | valid | epoch {epoch:03d} | valid on 'valid' subset | loss {dev} | nll_sentence_nats {dev} | \
num_updates {updates}
"""
START = "{time} | INFO | fairseq_cli.train | training on {count} devices (GPUs/TPUs)\n"
TIME = "2026-11-21 10:00:00"


def write_log(path: Path, epochs: list[tuple[int, int, float, float]], start: str = "") -> Path:
    """A log, of each epoch updates, seconds, and NLL of training and development set."""
    text = start or START.format(time=TIME, count=1)
    for number, (updates, seconds, train, dev) in enumerate(epochs, 1):
        text += DEV.format(time=TIME, epoch=number, dev=dev, updates=updates)
        text += EPOCH.format(time=TIME, epoch=number, train=train, updates=updates, seconds=seconds)
    path.write_text(text)
    return path
