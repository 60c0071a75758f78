"""Where the time of an update, or of a batch's translation, goes on a GPU.

The options after -- are those of fairseq-train or fairseq-generate, as in recipes.benchmark. ``wall`` is the fastest of
three rounds of a few batches. The other times are means with the profiler's own cost.

  python -m recipes.benchmark.parts train --vocabulary 30004 -- --arch bahdanau_gru --task rnnsearch --bf16 ...
"""

import logging
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

import rnnsearch_fairseq
from recipes.benchmark.workloads import WORKLOADS, Size, clock
from recipes.reproduce.document import table
from rnnsearch_fairseq.command_line import count, make_parser, program

UPDATES, LENGTHS = 5, 28  # batches; words of a sentence, with its end
LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "cudaGraphLaunch")
PARTS = ("forward", "backward", "multiply-grads", "clip-grads", "optimizer")  # as fairseq's trainer names them


def _sums(events: Sequence[Any], attribute: str) -> list[str]:
    times, microseconds = sum(event.count for event in events), sum(getattr(event, attribute) for event in events)
    return [f"{times / UPDATES:,.0f}", f"{microseconds / UPDATES / 1e3:.2f}"]


@program
def main() -> None:
    """Print three tables: the time of the host and of the device, and the longest operations of both."""
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    parser = make_parser(__doc__)
    parser.add_argument("command", choices=list(WORKLOADS))
    parser.add_argument("--vocabulary", type=count, required=True, help="entries of made-up dictionaries")
    args = parser.parse_args(words[:end])
    rnnsearch_fairseq.register()
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")
    work = WORKLOADS[args.command](words[end + 1 :], Size(UPDATES, args.vocabulary, LENGTHS))
    clock(work)  # to warm up
    wall = min(clock(work)[0] for _ in range(3)) / UPDATES
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as record:
        clock(work)
    events = record.key_averages()
    host = [event for event in events if event.device_type == DeviceType.CPU]
    device = [event for event in events if event.device_type == DeviceType.CUDA and not event.is_user_annotation]
    launches = [event for event in host if event.key in LAUNCHES]
    rows = [["wall", "", f"{wall * 1e3:.2f}"], ["launches", *_sums(launches, "self_cpu_time_total")]]
    rows += [[f"host: {event.key}", *_sums([event], "cpu_time_total")] for event in host if event.key in PARTS]
    rows.append(["operations of the device", *_sums(device, "self_device_time_total")])
    print(table(["", "times", "ms"], rows), end="\n\n")
    for name, chosen, time in (("device", device, "self_device_time_total"), ("host", host, "self_cpu_time_total")):
        longest = sorted(chosen, key=lambda event: -getattr(event, time))[:25]
        print(table([name, "times", "ms"], [[event.key[:90], *_sums([event], time)] for event in longest]), end="\n\n")
