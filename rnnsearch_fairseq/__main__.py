"""``python -m rnnsearch_fairseq`` is the command ``rnnsearch``."""

import sys

from rnnsearch_fairseq.cli import main

sys.exit(main())
