"""``python -m recipes.fault_injection OUT`` injects faults into a training and checks that every resume is exact."""

import sys

from recipes.fault_injection.run import main
from rnnsearch_fairseq.errors import print_without_traceback

print_without_traceback()
sys.exit(main())
