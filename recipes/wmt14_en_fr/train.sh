#!/usr/bin/env bash
# Train one of the paper's models on the output of data.sh, for the paper's number of updates (Table 2).
#
#   recipes/wmt14_en_fr/train.sh MODEL GPUS [--out DIR] [--interval N] [--nodes N --master HOST:PORT] [-- OPTIONS]
#
# MODEL       RNNencdec-30, RNNsearch-30, RNNencdec-50, RNNsearch-50, or RNNsearch-50-long, which is the paper's
#             RNNsearch-50⋆ and starts from RNNsearch-50's parameters, if that is trained
# GPUS        number of GPUs of this machine, chosen by CUDA_VISIBLE_DEVICES; without a GPU, number of processes
# --out       output folder of data.sh (default: runs/wmt14_en_fr); an interrupted training is resumed there
# --interval  updates between checkpoints, each of which is validated (default: 1,000)
# --nodes     number of machines that train together; each runs this command, numbered by SLURM_NODEID (see slurm.sh)
# --master    the first machine and a free port on it
# OPTIONS     options of fairseq-train, which override the recipe's: --bf16, --fp16, --batch-size. --arch bahdanau_gru trains
#             the models of the paper's appendix in place of those behind its Table 1 (groundhog_search)
#
# All GPUs together get the paper's batches of 80 pairs, from pools of 20 such batches, so the number of GPUs changes no
# update. --batch-size is the size on one GPU: with 80 on each of several, training is faster, but differs from the paper.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

MODEL=${1-} GPUS=${2-} OUT=$ROOT/runs/wmt14_en_fr INTERVAL=1000 NODES=1 MASTER=
[ $# -ge 2 ] || die "give a model and the number of GPUs: $0 RNNsearch-50 1"
shift 2
parse_options "out= interval= nodes= master= --" "$@"
set -- "${REST[@]}"
case $MODEL in
    RNNencdec-30) set -- --context last --max-words 30 --max-update 846000 "$@" ;;
    RNNsearch-30) set -- --context attention --max-words 30 --max-update 471000 "$@" ;;
    RNNencdec-50) set -- --context last --max-words 50 --max-update 600000 "$@" ;;
    RNNsearch-50) set -- --context attention --max-words 50 --max-update 288000 "$@" ;;
    RNNsearch-50-long) set -- --context attention --max-words 50 --max-update 667000 "$@" ;;
    *) die "$MODEL is none of RNNencdec-30, RNNsearch-30, RNNencdec-50, RNNsearch-50 and RNNsearch-50-long" ;;
esac
for number in GPUS INTERVAL NODES; do
    [[ ${!number} =~ ^[1-9][0-9]*$ ]] || die "${number,,}: ${!number} is no number, at least 1"
done
[ "$NODES" = 1 ] || [[ $MASTER = *:* ]] || die "--nodes $NODES needs --master HOST:PORT, the same on all of them"
[ -f "$OUT/bin/.done" ] || die "$OUT has no data; make it by $(dirname "$0")/data.sh --out $OUT"
set_up
WORLD=$((GPUS * NODES)) NODE=0
if [ "$NODES" != 1 ]; then NODE=${SLURM_NODEID:?"--nodes needs Slurm to number the machines"}; fi
[ $((80 % WORLD)) = 0 ] || die "$WORLD GPUs cannot share 80 pairs evenly; take 1, 2, 4, 5, 8, 10, 16, 20, 40 or 80"
BATCH=$((80 / WORLD))

RUN=$OUT/runs/$MODEL LOG=train.log
mkdir -p "$RUN"
if [ "$NODE" != 0 ]; then LOG=train.$NODE.log; fi # the first machine writes the main log
exec {busy}> "$RUN/.lock.$NODE" # the training inherits the lock, in case it outlives this script
flock --nonblock "$busy" || die "$RUN is being trained; wait for it, or stop it"
if [ "$MODEL" = RNNsearch-50-long ] && [ "$NODE" = 0 ] && [ ! -d "$RUN/checkpoints" ] &&
    [ -f "$OUT/runs/RNNsearch-50/checkpoints/checkpoint_last.pt" ]; then
    cp "$OUT/runs/RNNsearch-50/train.log" "$RUN"
    rm -rf "$RUN/.checkpoints"
    cp -r "$OUT/runs/RNNsearch-50/checkpoints" "$RUN/.checkpoints"
    mv "$RUN/.checkpoints" "$RUN/checkpoints"
fi

rendezvous=(--standalone)
if [ "$NODES" != 1 ]; then
    rendezvous=(--nnodes "$NODES" --node-rank "$NODE" --master-addr "${MASTER%:*}" --master-port "${MASTER##*:}")
fi
fairseq-train() { # with torchrun if there are several processes
    if [ "$WORLD" = 1 ]; then command fairseq-train "$@"; return; fi
    torchrun "${rendezvous[@]}" --nproc-per-node "$GPUS" "$(type -P fairseq-train)" "$@"
}

say "training $MODEL, $BATCH pairs on each of $WORLD GPUs; full log in $RUN/$LOG"
fairseq-train "$OUT/bin" --user-dir "$USER_DIR" -s en -t fr --arch groundhog_search \
    --task rnnsearch --pool-batches 20 --batch-size "$BATCH" \
    --criterion summed_nll --optimizer adadelta --clip-norm 1 \
    --save-interval-updates "$INTERVAL" --keep-interval-updates 1 --no-epoch-checkpoints --distributed-world-size "$WORLD" \
    --save-dir "$RUN/checkpoints" --log-format simple --log-interval 100 "$@" 2>&1 |
    show_progress "$RUN/$LOG" || die_of_log "$RUN/$LOG" fairseq-train
if [ "$NODE" = 0 ]; then
    say "$MODEL is trained; evaluate.sh translates newstest2014 by it"
    show_model "$RUN/checkpoints/checkpoint_best.pt" --beam 12
fi
