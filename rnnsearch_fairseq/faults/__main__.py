"""``python -m rnnsearch_fairseq.faults OUT`` breaks a training again and again, and sees that every resume is exact."""

import sys

from rnnsearch_fairseq.faults.run import main

sys.exit(main())
