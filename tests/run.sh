#!/usr/bin/env bash
# Set up .venv where it is missing, then run the tests; arguments go to pytest.
source "$(dirname "${BASH_SOURCE[0]}")/../recipes/setup.sh"

cd "$ROOT"
say "checking style (ruff)"
ruff check .
say "running the tests: about eight minutes on two cores"
# Two cores wait for each other in small matrix products: one thread a process is faster, and does not spin.
OMP_NUM_THREADS=1 exec python -m pytest "$@"
