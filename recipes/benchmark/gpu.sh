#!/usr/bin/env bash
# Measure the models on a GPU and run their kernels' tests there, in one call of at most ten minutes, without a network.
# README.md in this folder describes each step.
#
#   recipes/benchmark/gpu.sh [--wheels DIR] [--out DIR] [--limit SECONDS] [--dry-run]
#
# --wheels   folder of wheels that the Python lacks, including fairseq's; they are installed into a temporary folder
# --out      folder of the results (default: $OUT, or else recipes/benchmark/results/gpu-DATE); it must be new, empty or
#            an earlier run's, whose results are replaced
# --limit    seconds for all steps together (default: 580); steps that do not fit are dropped, and named
# --dry-run  tiny sizes on the processor, with the kernels in Triton's interpreter; this is the default without a GPU
#
# The environment variable PYTHON names the Python that has PyTorch (default: .venv's, or else python3). The package is
# used from this checkout, without an installation.
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
