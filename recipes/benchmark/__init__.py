"""Compare the speed and memory of models, in turns; separate runs are not comparable.

  python -m recipes.benchmark train|generate [SIZES] 'NAME: OPTIONS' ... -- COMMON OPTIONS

Each case is a process of its own. In each round every case does the same amount of work, one case at a time, and each
round starts with another case. OPTIONS and COMMON OPTIONS are those of fairseq-train (whole updates are timed: forward,
backward, clipping, optimizer) or fairseq-generate (from a batch of sources to its translations).
"""
