"""Lines of the log of fairseq-train."""

# Lines of a training with summed_nll, as --log-format simple prints them.
SIMPLE = """\
2026-11-21 08:59:28 | INFO | fairseq_cli.train | {'_name': None, 'common': {'log_format': 'simple'}, 'max_epoch': 0}
2026-11-21 08:59:29 | INFO | fairseq.trainer | begin training epoch 1
2026-11-21 09:00:10 | INFO | train_inner | epoch 001:    100 / 363 loss=9.1, nll_word_nats=6.3, ppl=548.7, wps=3300.1, \
ups=2.41, wpb=1370.6, bsz=80, num_updates=100, lr=1, gnorm=18.2, clip=100, train_wall=41, wall=42
2026-11-21 09:02:29 | INFO | valid | epoch 001 | valid on 'valid' subset | loss 8.249 | nll_sentence_nats 97.741 | \
nll_word_nats 5.7176 | ppl 304.2 | wps 11587 | wpb 1238.1 | bsz 72.4 | num_updates 363
2026-11-21 09:02:30 | INFO | fairseq_cli.train | end of epoch 1 (average epoch stats below)
2026-11-21 09:02:31 | INFO | train | epoch 001 | loss 8.756 | nll_sentence_nats 103.603 | \
nll_word_nats 6.0692 | ppl 432.37 | wps 2915.4 | ups 2.14 | wpb 1363.4 | bsz 79.9 | num_updates 363 | \
lr 1 | gnorm 1816.99 | clip 100 | train_wall 166 | wall 200
"""


def train_line(number: int, seconds: int = 60) -> str:
    return (
        f"2026-11-21 10:56:12 | INFO | train | epoch {number:03d} | loss 5 | ppl 32 | wps 1000.5 | "
        f"num_updates {100 * number} | lr 0.5 | train_wall {seconds} | wall 9999"
    )


def valid_line(number: int, loss: float | str, subset: str = "valid", updates: int = 0) -> str:
    return (
        f"2026-11-21 10:56:11 | INFO | {subset} | epoch {number:03d} | valid on '{subset}' subset | loss {loss} | "
        f"ppl 40.5 | wps 9000 | num_updates {updates or 100 * number} | best_loss 1.5"
    )


def inner_line(updates: int, ppl: float, seconds: int = 10) -> str:
    return (
        f"2026-11-21 09:00:10 | INFO | train_inner | epoch 001:    {updates} / 363 loss=9.1, ppl={ppl}, "
        f"num_updates={updates}, lr=1, train_wall={seconds}, wall=0"
    )
