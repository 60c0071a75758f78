#!/usr/bin/env bash
# The second paper's experiments on ASPEC-JE: train the tree-to-sequence model, translate the test set with a beam of 20
# and length statistics, and print BLEU and RIBES on KyTea's tokens. The large setting trains with BlackOut, 2,500
# negatives, in widths of 512, 768 and 1024, and evaluates their ensemble; it needs a GPU. The small one has width 256 and
# softmax.
#
#   recipes/aspec_en_ja/run.sh --data DIR [--out DIR] [--small]      (as in data.sh)
source "$(dirname "${BASH_SOURCE[0]}")/data.sh"

train() { # NAME OPTIONS...: Section 4.2's training, until the learning rate has been halved four times
    local run=$OUT/$1
    [ -f "$run/.done" ] && return
    mkdir -p "$run"
    say "training $1; full log in $run/train.log"
    fairseq-train "$OUT/bin" --user-dir "$USER_DIR" -s en -t ja --task tree_translation --arch "$1" \
        --max-words 50 --require-parse \
        --optimizer sgd --lr 1.0 --lr-scheduler reduce_lr_on_plateau --lr-shrink 0.5 --stop-min-lr 0.0625 --clip-norm 3 \
        --batch-size 128 --sentence-avg --no-epoch-checkpoints \
        --save-dir "$run/checkpoints" --log-format simple --log-interval 100 "${@:2}" 2>&1 |
        tee -a "$run/train.log" | { grep --line-buffered 'valid on' || true; } || die_of_log "$run/train.log" fairseq-train
    touch "$run/.done"
}

translate() { # NAME CHECKPOINTS: translate the test set to NAME.tok
    local output=$OUT/$1
    say "translating $(wc -l < "$OUT/text/test.en") sentences by $1"
    fairseq-generate "$OUT/bin" --user-dir "$USER_DIR" -s en -t ja --task tree_translation --gen-subset test \
        --path "$2" --search tree2seq --length-statistics "$OUT/lengths" --beam 20 --max-len-b 100 --batch-size 32 \
        > "$output.out" 2> "$output.log" || die_of_log "$output.log" fairseq-generate
    grep '^H-' "$output.out" | sort -t- -k2n | cut -f3 > "$output.tok"
    rnnsearch token-scores "$OUT/text/test.ja" "$output.tok"
}

if [ -n "$SMALL" ]; then
    train tree2seq_small
    translate tree2seq_small "$OUT/tree2seq_small/checkpoints/checkpoint_best.pt"
else
    ensemble=
    for width in 512 768 1024; do
        train "tree2seq_$width" --criterion blackout --blackout-samples 2500
        best=$OUT/tree2seq_$width/checkpoints/checkpoint_best.pt
        translate "tree2seq_$width" "$best"
        ensemble=${ensemble:+$ensemble:}$best
    done
    translate ensemble "$ensemble"
fi
