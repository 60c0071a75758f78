"""Lines of the log of fairseq-train --log-format json."""

import json


def log_line(kind: str, **statistics: object) -> str:
    """A line; ``kind`` is train_inner, train or the name of a development set."""
    prefix = "" if kind == "train_inner" else f"{kind}_"
    texts = {name if name == "epoch" else prefix + name: str(value) for name, value in statistics.items()}
    return f"2026-11-21 09:00:10 | INFO | {kind} | {json.dumps({**texts, 'epoch': statistics['epoch']})}"


def train_line(number: int, seconds: int = 60) -> str:
    wall = {"train_wall": seconds, "wall": 9999}
    return log_line("train", epoch=number, loss=5, ppl=32, num_updates=100 * number, lr=0.5, **wall)


def valid_line(number: int, loss: float | str, subset: str = "valid", updates: int = 0, **more: float) -> str:
    return log_line(subset, epoch=number, loss=loss, ppl=40.5, num_updates=updates or 100 * number, **more)


def inner_line(updates: int, ppl: float, seconds: int = 10, **more: float) -> str:
    return log_line("train_inner", epoch=1, loss=9.1, ppl=ppl, num_updates=updates, train_wall=seconds, **more)


LINES = [
    "2026-11-21 08:59:28 | INFO | fairseq_cli.train | {'_name': None, 'common': {'log_format': 'json'}}",
    "2026-11-21 08:59:29 | INFO | fairseq.trainer | begin training epoch 1",
    inner_line(100, 548.7, 41, ups=2.41, nll_word_nats=6.3),
    valid_line(1, 8.249, updates=363, nll_sentence_nats=97.741),
    "2026-11-21 09:02:30 | INFO | fairseq_cli.train | end of epoch 1 (average epoch stats below)",
    log_line("train", epoch=1, loss=8.756, nll_sentence_nats=103.603, ppl=432.37, num_updates=363, train_wall=166),
]
