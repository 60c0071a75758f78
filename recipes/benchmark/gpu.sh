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
at_least_one LIMIT
[ -z "$WHEELS" ] || compgen -G "$WHEELS/*.whl" > /dev/null || die "$WHEELS has no wheels; --wheels is a folder of them"
own_folder "$OUT" benchmark
OUT=$(cd "$OUT" && pwd)
if [ -n "$WHEELS" ]; then WHEELS=$(cd "$WHEELS" && pwd); fi
if [ -z "${PYTHON-}" ]; then
    PYTHON=python3
    if [ -x "$ROOT/.venv/bin/python" ]; then PYTHON=$ROOT/.venv/bin/python; fi
fi
cd "$ROOT"

TEMPORARY=$(mktemp -d) JOB= ALL_OK=1
trap '[ -z "$JOB" ] || kill -KILL -- "-$JOB" 2> /dev/null; rm -rf "$TEMPORARY"' EXIT
trap 'die "stopped"' INT TERM
mkdir "$TEMPORARY/site" "$TEMPORARY/model"
export PYTHONPATH=$ROOT:$TEMPORARY/site${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1

step() { # NAME LIMIT TELLS COMMAND...: run a step, and kill all its processes after LIMIT seconds (default: all that is
    # left). What the step prints goes to results.md, what it says on standard error to log.txt.
    local name=$1 left=$((LIMIT - SECONDS)) tells=$3 began=$SECONDS limit outcome status=0
    limit=${2:-$left}
    [ -z "$DRY_RUN" ] || limit=$((5 * limit)) # on a busy processor
    if [ "$limit" -gt "$left" ]; then limit=$left; fi
    say "$name: $tells; at most $limit s"
    printf '\n## %s: %s\n\n' "$name" "$tells" | tee -a "$OUT/log.txt" >> "$OUT/results.md"
    if [ "$left" -lt 5 ]; then
        outcome="dropped: no time was left"
    else
        timeout --signal KILL "$limit" "${@:4}" < /dev/null >> "$OUT/results.md" 2>> "$OUT/log.txt" &
        JOB=$!
        wait "$JOB" || status=$?
        JOB=
        outcome=ok
        if [ "$status" = 137 ]; then
            outcome=killed
        elif [ "$status" != 0 ]; then
            outcome="failed with exit status $status: $(tail -1 "$OUT/log.txt")"
        fi
    fi
    if [ "$outcome" != ok ]; then ALL_OK=; fi
    printf '\n%s: %s, %s s\n' "$name" "$outcome" $((SECONDS - began)) | tee -a "$OUT/results.md"
}

SIZES=(--vocabulary 30004 --lengths 28 --batch 80) # fairseq's four symbols and the paper's 30,000 words
MODEL=(--arch bahdanau_gru --task rnnsearch --pool-batches 20 --criterion summed_nll --optimizer adadelta --clip-norm 1)
MANY=1280 UPDATES=20 ROUNDS=5 CASES=test CHECKED="float32 or test_scans" LENGTH=28 PAIRS=80
CHECKER=$(PATH=$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer type -P compute-sanitizer || echo compute-sanitizer)
CHECKER=("$CHECKER" --tool memcheck --error-exitcode 9)
KIND="on a GPU"
if [ -n "$DRY_RUN" ] || ! timeout 60 "$PYTHON" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
    DRY_RUN=1 KIND="a dry run: no number here is about a GPU"
    export CUDA_VISIBLE_DEVICES=
    SIZES=(--vocabulary 60 --lengths 5 --batch 4)
    MODEL+=(--embedding-size 6 --hidden-size 8 --alignment-size 7 --maxout-size 4)
    MANY=8 UPDATES=2 ROUNDS=2 CASES=float32 CHECKED=test_softmax_of_large_energies LENGTH=5 PAIRS=4 CHECKER=()
fi
TRITON=(env ${DRY_RUN:+TRITON_INTERPRET=1})
TESTS=("$PYTHON" -m pytest tests/modules/fused/triton_kernels_cases.py -v --tb short -p no:cacheprovider -k)
BENCHMARK=("$PYTHON" -m recipes.benchmark)
ALONE=("$PYTHON" -m recipes.benchmark.gpu)
BF16=("${SIZES[@]}" 'bf16: --bf16' -- "${MODEL[@]}")
# Several processes share the compilation of the kernels.
SHARED=()
if [ -z "$DRY_RUN" ] && "$PYTHON" -c 'import xdist' 2> /dev/null; then SHARED=(-n 8); fi

printf '# Measurements of %s, %s\n\nCheckout %s\n' "$(date +'%Y-%m-%d %H:%M')" "$KIND" \
    "$(git describe --always --dirty 2> /dev/null || echo unknown)" > "$OUT/results.md"
: > "$OUT/log.txt"
if [ -n "$WHEELS" ]; then
    step wheels 30 "missing packages are installed" "$PYTHON" -m pip --disable-pip-version-check install --quiet --no-index \
        --no-deps --no-compile --no-cache-dir --upgrade --target "$TEMPORARY/site" "$WHEELS"/*.whl
fi
step versions 30 "machine and libraries" "$PYTHON" -m torch.utils.collect_env
step tests 90 "tests of the kernels and scans" "${TRITON[@]}" "${TESTS[@]}" "$CASES" "${SHARED[@]}"
step updates 150 "updates of the paper's model, $PAIRS pairs of $LENGTH words" \
    "${BENCHMARK[@]}" train --updates $UPDATES --rounds $ROUNDS "${SIZES[@]}" 'bf16: --bf16' 'amp (fp16): --amp' float32: -- "${MODEL[@]}"
step profile 40 "where an update goes" "${ALONE[@]}" profile "$OUT" "${BF16[@]}"
step products 60 "single matrix products" "${ALONE[@]}" products "$OUT" "${BF16[@]}"
step scans 60 "the loops over words, forward and back" "${TRITON[@]}" "${ALONE[@]}" scans "$OUT" "${BF16[@]}"
step large 40 "updates of $MANY pairs" \
    "${BENCHMARK[@]}" train --updates 2 --rounds $ROUNDS "${SIZES[@]}" --batch $MANY 'bf16: --bf16' -- "${MODEL[@]}"
step model 30 "a model of random weights" "${ALONE[@]}" model "$TEMPORARY/model" "${BF16[@]}"
step translation 60 "translation of sentences of $LENGTH words" \
    "${BENCHMARK[@]}" generate --updates 2 --rounds 3 'beam of 12: --beam 12' 'beam of 1: --beam 1' -- "$TEMPORARY/model" \
    --path "$TEMPORARY/model/model.pt" --task rnnsearch -s source -t target --dataset-impl raw --gen-subset test \
    --batch-size $PAIRS --max-len-a 0 --max-len-b $LENGTH
step memcheck "" "the kernels' memory accesses, checked" env PYTORCH_NO_CUDA_MEMORY_CACHING=1 "${TRITON[@]}" \
    "${CHECKER[@]}" "${TESTS[@]}" "$CHECKED"
cat "$OUT/results.md"
[ -n "$ALL_OK" ] || die "not all steps ended well; see $OUT/log.txt"
