#!/usr/bin/env bash
# Set up .venv where it is missing, then run the tests. -m "not slow" leaves out trainings and builds.
#
#   tests/run.sh [OPTIONS OF pytest]
source "$(dirname "${BASH_SOURCE[0]}")/../recipes/setup.sh"
set_up

cd "$ROOT"
say "checking style (ruff)"
ruff check .
say "running the tests: four to five minutes on two cores"
# Cores wait for each other in small matrix products: one thread a process is faster, and does not spin. A file's tests
# stay together, for what they share is made once, and in the files' order, in which the longest is not the last; each
# process may take 2 GB.
export OMP_NUM_THREADS=1
exec python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder "$@"
