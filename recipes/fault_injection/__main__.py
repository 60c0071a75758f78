"""``python -m recipes.fault_injection OUT`` breaks a training again and again, and sees that every resume is exact."""

import sys

from recipes.fault_injection.run import main

sys.exit(main())
