"""A grid barrier, which a kernel that runs the whole loop over words would need.

The programs wait for each other on the device, so all must run at once: at most one for each multiprocessor. A program
gives up after ``PATIENCE`` reads of the counter, so that a kernel always ends.
"""

import torch
import triton
import triton.language as tl

PATIENCE = 1 << 20  # reads of the counter by a program, over all barriers: about a second


def pass_barriers(counter: torch.Tensor, programs: int, barriers: int, by_load: bool) -> None:
    """Let ``programs`` programs pass ``barriers`` barriers in turn.

    Args:
        counter: two int32 zeros, for the arrivals and for the number of programs that gave up.
        by_load: read the counter by plain loads instead of atomic additions of zero.
    """
    cooperative = {"launch_cooperative_grid": True} if counter.is_cuda else {}  # fails unless all can run at once
    # One warp: all its lanes read the same value in one load, so they stay together.
    _pass_barriers[(programs,)](counter, barriers, programs, PATIENCE, by_load, num_warps=1, **cooperative)


@triton.jit(do_not_specialize=["barriers", "programs", "patience"])
def _pass_barriers(
    counter: tl.tensor, barriers: int, programs: int, patience: int, by_load: tl.constexpr
) -> None:  # fmt: skip
    passed = 0
    looks = 0
    while (passed < barriers) & (looks < patience):
        passed += 1
        goal = passed * programs
        arrived = tl.atomic_add(counter, 1, sem="acq_rel") + 1
        while (arrived < goal) & (looks < patience):
            arrived = tl.load(counter, volatile=True) if by_load else tl.atomic_add(counter, 0, sem="acquire")
            looks += 1
        tl.debug_barrier()
    if looks >= patience:
        tl.atomic_add(counter + 1, 1)
