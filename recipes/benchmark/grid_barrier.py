"""A barrier that all programs of a grid pass, as a kernel that runs the whole loop over words would need it.

The programs wait for each other on the device. They must all run at once: no more than the GPU has multiprocessors. A
program gives up after ``PATIENCE`` looks at the counter, so that a barrier that does not open ends the kernel.
"""

import torch
import triton
import triton.language as tl

PATIENCE = 1 << 20  # looks of a program at the counter, over all barriers: about a second


def pass_barriers(counter: torch.Tensor, programs: int, barriers: int, by_load: bool) -> None:
    """Have ``programs`` programs pass ``barriers`` barriers, one after another.

    Args:
        counter: two int32 zeros: the arrivals, and the number of programs that gave up.
        by_load: a program looks at the counter by plain loads rather than by atomic additions of zero.
    """
    cooperative = {"launch_cooperative_grid": True} if counter.is_cuda else {}  # refused where not all can run at once
    # One warp: what the lanes of a warp read of one address in one load is one value, so they stay together.
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
