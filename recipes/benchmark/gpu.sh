#!/usr/bin/env bash
# Measure the models on a GPU, and run their kernels' tests there, in one call of at most ten minutes that needs no network.
# README.md, beside this file, tells what each step measures.
#
#   recipes/benchmark/gpu.sh [--wheels DIR] [--out DIR] [--limit SECONDS] [--dry-run]
#
# --wheels   folder of wheels that PyTorch's Python lacks, fairseq's among them; they are installed into a temporary folder
# --out      where the results are written (default: $OUT or, where that is not set,
#            recipes/benchmark/results/gpu-DATE); new or empty, or that of an earlier run, whose results are replaced
# --limit    seconds for all steps together (default: 580); those that come too late are dropped, and named
# --dry-run  tiny sizes on the processor, the kernels in Triton's interpreter; so it is wherever there is no GPU
#
# The environment variable PYTHON names the Python that has PyTorch (default: that of .venv, or else python3). Nothing is
# set up: the package is used from this checkout.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

WHEELS= OUT=${OUT:-$ROOT/recipes/benchmark/results/gpu-$(date +%Y-%m-%d-%H%M)} LIMIT=580 DRY_RUN=
parse_options "wheels= out= limit= dry-run" "$@"
[[ $LIMIT =~ ^[1-9][0-9]*$ ]] || die "--limit is $LIMIT; give a number of seconds, at least 1"
[ -z "$WHEELS" ] || compgen -G "$WHEELS/*.whl" > /dev/null || die "$WHEELS has no wheels; --wheels is a folder of them"
own_folder "$OUT" benchmark
OUT=$(cd "$OUT" && pwd)
if [ -n "$WHEELS" ]; then WHEELS=$(cd "$WHEELS" && pwd); fi
if [ -z "${PYTHON-}" ]; then
    PYTHON=python3
    if [ -x "$ROOT/.venv/bin/python" ]; then PYTHON=$ROOT/.venv/bin/python; fi
fi
cd "$ROOT"
exec "$PYTHON" -m recipes.benchmark.gpu --out "$OUT" --limit "$LIMIT" ${WHEELS:+--wheels "$WHEELS"} ${DRY_RUN:+--dry-run}
