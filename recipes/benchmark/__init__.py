"""Compare the speed and memory of models, in turns; separate runs are not comparable.

``python -m recipes.benchmark COMMAND [SIZES] 'NAME: [TOOLKIT] OPTIONS' ... -- COMMON OPTIONS``

Each case is a process of its own. In each round every case does the same amount of work, one case at a time, and each
round starts with another case. Without a TOOLKIT, OPTIONS are fairseq's, and COMMON OPTIONS are added to them.
"""

import rnnsearch_fairseq

rnnsearch_fairseq.register()  # first: what is imported from fairseq by name must be patched by then
