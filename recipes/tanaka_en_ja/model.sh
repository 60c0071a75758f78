#!/usr/bin/env bash
# Train a model of the second paper (Section 4.2) for at most EPOCHS epochs, on the text that run.sh has prepared in OUT, and
# translate the test set. run.sh calls this script for every model.
#
#   recipes/tanaka_en_ja/model.sh OUT EPOCHS MODEL OBJECTIVE SEED
#
# MODEL      tree2seq, anmt, anmt_reversed (reads the source backwards) or phrases_only (tree2seq without its LSTM)
# OBJECTIVE  softmax or blackoutK, K being the number of negatives
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

[ $# = 5 ] || die "five words are needed; see $0 --help"
OUT=$1 EPOCHS=$2 MODEL=$3 OBJECTIVE=$4 SEED=$5
set_up
NAME=$MODEL-$OBJECTIVE
if [ "$SEED" != 1 ]; then NAME+=-seed$SEED; fi
TEXT=$OUT/text RUN=$OUT/runs/$NAME TREES=(--trees "$OUT/text/test.tree") DEVICE=()
if has_gpu; then DEVICE=(--device cuda); fi
case $MODEL in
    tree2seq) OPTIONS=(--arch tree2seq_small) ;;
    phrases_only) OPTIONS=(--arch tree2seq_small --constituents phrases-only) ;;
    anmt) OPTIONS=(--arch anmt_small) TREES=() ;;
    anmt_reversed) OPTIONS=(--arch anmt_small --reverse-source) TREES=() ;;
    *) die "$MODEL is no model; see $0 --help" ;;
esac
case $OBJECTIVE in
    softmax) OPTIONS+=(--criterion summed_nll) ;;
    *) OPTIONS+=(--criterion blackout --blackout-samples "${OBJECTIVE#blackout}") ;;
esac

train() { # MODEL
    say "training $NAME; full log in $RUN/train.log"
    fairseq-train "$TEXT/bin" --user-dir "$USER_DIR" -s en -t ja --task rnnsearch --tree-lang tree --max-words 50 \
        --optimizer sgd --lr 1.0 --lr-scheduler halve_on_worse --stop-min-lr 0.0625 --clip-norm 3 \
        --batch-size 128 --sentence-avg --max-epoch "$EPOCHS" --no-epoch-checkpoints --seed "$SEED" \
        --save-dir "$RUN/checkpoints" --log-format json --log-interval 100 "${OPTIONS[@]}" 2>&1 |
        rnnsearch progress "$RUN/train.log" --name "$NAME" || die_of_log "$RUN/train.log" fairseq-train
    cp "$RUN/checkpoints/checkpoint_best.pt" "$1"
}

translate() { # SEARCH BEAM OPTIONS...: translate the test set to RUN/SEARCHBEAM.tok
    [ ! -f "$RUN/$1$2.tok" ] || return 0
    say "translating the test set with $NAME: $1, beam of $2"
    rnnsearch translate "$TEXT/test.en" --prepared "${TREES[@]}" --model "$RUN/model.pt" "${DEVICE[@]}" --search tree2seq \
        --beam "$2" --max-len-b 100 "${@:3}" --output "$RUN/$1$2.tok" 2> "$RUN/translate.log" ||
        die_of_log "$RUN/translate.log" "rnnsearch translate"
}

attend() { # FILE: write the attention of the model to words and phrases, on the first 500 pairs of the test set
    local side
    for side in en ja tree; do head -n 500 "$TEXT/test.$side" > "$RUN/first.$side"; done
    rnnsearch score --model "$RUN/model.pt" --prepared "$RUN/first.en" "$RUN/first.ja" --trees "$RUN/first.tree" --output "$1" \
        2> "$RUN/score.log" || die_of_log "$RUN/score.log" "rnnsearch score"
    rm "$RUN"/first.*
}

once "$RUN/model.pt" train
translate lengths 20 --length-statistics "$OUT/lengths"
if [[ $NAME = tree2seq-blackout* ]]; then
    translate simple 6
    translate simple 20
    translate lengths 6 --length-statistics "$OUT/lengths"
fi
if [ ${#TREES[@]} != 0 ]; then once "$RUN/score.jsonl" attend; fi
