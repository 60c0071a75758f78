#!/usr/bin/env bash
# Train one of the paper's models on what data.sh made, for as many updates as the paper did (Table 2).
#
#   recipes/wmt14_en_fr/train.sh MODEL GPUS [--out DIR] [--interval N] [--nodes N --master HOST:PORT] [-- OPTIONS]
#
# MODEL       RNNencdec-30, RNNsearch-30, RNNencdec-50, RNNsearch-50, or RNNsearch-50-long, which is the paper's
#             RNNsearch-50⋆: it begins with what RNNsearch-50 has learnt, if that is trained
# GPUS        how many of this machine; without any, how many processes on its cores. CUDA_VISIBLE_DEVICES chooses them
# --out       that of data.sh (default: runs/wmt14_en_fr); stopped at any moment, it goes on from the last checkpoint
# --interval  updates between checkpoints, each of which is validated (default: 1,000)
# --nodes     machines that train together, each with this command, numbered by SLURM_NODEID; slurm.sh does it
# --master    the first of them, and a port that is free there
# OPTIONS     of fairseq-train, which come last and so win: --bf16, --fp16, --arch, --batch-size
#
# All GPUs together get the paper's batches of 80 pairs, from pools of 20 such batches, so that their number changes no
# update. --batch-size is that of one GPU: with 80 on each of several, training is faster, and is not the paper's.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

MODEL=${1-} GPUS=${2-} OUT=$ROOT/runs/wmt14_en_fr INTERVAL=1000 NODES=1 MASTER=
[ $# -ge 2 ] || die "give a model and the number of GPUs: $0 RNNsearch-50 1"
shift 2
parse_options "out= interval= nodes= master= --" "$@"
set -- ${REST[@]+"${REST[@]}"}
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
if [ "$NODE" != 0 ]; then LOG=train.$NODE.log; fi # of a machine that says little
exec {busy}> "$RUN/.lock.$NODE" # held by what trains, too, should it outlive this script
flock --nonblock "$busy" || die "$RUN is being trained; wait for it, or stop it"
if [ "$(cat "$RUN/.trained" 2>/dev/null)" = "$*" ]; then # fairseq-train would do one update more
    say "$MODEL is trained; evaluate.sh translates by it"
    exit
fi
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
fairseq-train() { # by torchrun, where there are several processes
    if [ "$WORLD" = 1 ]; then command fairseq-train "$@"; return; fi
    torchrun "${rendezvous[@]}" --nproc-per-node "$GPUS" "$(type -P fairseq-train)" "$@"
}

say "training $MODEL, $BATCH pairs on each of $WORLD GPUs; full log in $RUN/$LOG"
fairseq-train "$OUT/bin" --user-dir "$USER_DIR" -s en -t fr --arch bahdanau_gru \
    --task pooled_translation --batch-size "$BATCH" \
    --criterion summed_nll --optimizer adadelta --clip-norm 1 \
    --save-interval-updates "$INTERVAL" --keep-interval-updates 1 --no-epoch-checkpoints --distributed-world-size "$WORLD" \
    --save-dir "$RUN/checkpoints" --log-format simple --log-interval 100 "$@" 2>&1 |
    tee -a "$RUN/$LOG" | { grep --line-buffered 'valid on' || true; } || die_of_log "$RUN/$LOG" fairseq-train
if [ "$NODE" = 0 ]; then echo "$*" > "$RUN/.trained"; fi
say "trained $MODEL; evaluate.sh translates by it"
