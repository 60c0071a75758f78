#!/usr/bin/env bash
# Train a model for EPOCHS epochs on the text that run.sh has prepared in OUT, keep the epoch with the lowest development
# perplexity, and translate the test set. run.sh calls this script for every model.
#
#   recipes/php_en_ja/model.sh OUT EPOCHS MODEL SEED
#
# MODEL  tree2seq, right, random (the same with right-branching or random trees) or anmt
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

[ $# = 4 ] || die "four words are needed; see $0 --help"
OUT=$1 EPOCHS=$2 MODEL=$3 SEED=$4
set_up
NAME=$MODEL-softmax
if [ "$SEED" != 1 ]; then NAME+=-seed$SEED; fi
RUN=$OUT/runs/$NAME TEXT=$OUT/text/$MODEL OPTIONS=(--arch tree2seq_small) TREES=(--trees "$OUT/text/$MODEL/test.tree")
case $MODEL in
    tree2seq | right | random) ;;
    anmt) TEXT=$OUT/text/tree2seq OPTIONS=(--arch anmt_small) TREES=() ;;
    *) die "$MODEL is no model; see $0 --help" ;;
esac

train() { # MODEL
    local updates=$((($(wc -l < "$TEXT/train.en") + 63) / 64 * EPOCHS)) # after which the learning rate is 0
    say "training $NAME; full log in $RUN/train.log"
    # shellcheck disable=SC2046  # one option or none
    fairseq-train "$TEXT/bin" --user-dir "$USER_DIR" -s en -t ja --task rnnsearch --tree-lang tree --max-words 50 \
        --criterion summed_nll --batch-size 64 --sentence-avg --clip-norm 3 --max-epoch "$EPOCHS" --seed "$SEED" $(fast_precision) \
        --optimizer adam --lr 0.002 --lr-scheduler polynomial_decay --warmup-updates 200 --total-num-update "$updates" \
        --no-epoch-checkpoints --save-dir "$RUN/checkpoints" --log-format json --log-interval 100 "${OPTIONS[@]}" 2>&1 |
        rnnsearch progress "$RUN/train.log" --name "$NAME" || die_of_log "$RUN/train.log" fairseq-train
    cp "$RUN/checkpoints/checkpoint_best.pt" "$1"
}

translate() { # TRANSLATIONS
    say "translating the test set with $NAME"
    rnnsearch translate "$TEXT/test.en" --prepared "${TREES[@]}" --model "$RUN/model.pt" --search tree2seq --beam 20 --max-len-b 100 \
        --length-statistics "$OUT/lengths" --output "$1" 2> "$RUN/translate.log" ||
        die_of_log "$RUN/translate.log" "rnnsearch translate"
}

once "$RUN/model.pt" train
once "$RUN/lengths20.tok" translate
