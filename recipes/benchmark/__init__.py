"""Compare speed, memory and growth in one program, in turns: timings of separate runs can't be compared.

``python -m recipes.benchmark COMMAND 'NAME: OPTIONS' ['NAME: OPTIONS' ...] -- COMMON OPTIONS``

Every setup has a name and options of its own; the common options go to all of them. In each round, every setup does the
same amount of work, and each round starts with another of them. OMP_NUM_THREADS sets the number of threads.
"""

from recipes.benchmark.workloads import Training

__all__ = ["Training"]
