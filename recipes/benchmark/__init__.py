"""Compare the speed, memory and scaling of setups, in turns within one program; separate runs are not comparable.

``python -m recipes.benchmark COMMAND 'NAME: OPTIONS' ['NAME: OPTIONS' ...] -- COMMON OPTIONS``

Each setup has its own name and options; the common options apply to all. In each round, every setup does the same
amount of work, and each round starts with another setup. OMP_NUM_THREADS sets the number of threads.
"""

import rnnsearch_fairseq  # noqa: F401  (first: what is imported from fairseq by name must be patched by then)
from recipes.benchmark.workloads import Training

__all__ = ["Training"]
