#!/usr/bin/env bash
# The second paper's experiments on ASPEC-JE. The large setting trains the tree-to-sequence model with BlackOut, 2,500
# negatives, in widths of 512, 768 and 1024, translates the test set with each and with all three together, with a beam of 20
# and length statistics, and prints BLEU and RIBES on KyTea's tokens; it needs a GPU. The small one trains the
# tree-to-sequence model, the sequential model, the same with the source reversed, and the tree model without its LSTM, each
# with softmax and with BlackOut, 500 and 2,000 negatives, in a width of 256, and prints Tables 3, 4 and 5 for the
# development set.
#
#   recipes/aspec_en_ja/run.sh --data DIR [--out DIR] [--small]      (as in data.sh)
source "$(dirname "${BASH_SOURCE[0]}")/data.sh"
source "$ROOT/recipes/tree_models.sh"

train() { # NAME OPTIONS...: Section 4.2's training, until the learning rate has been halved four times
    local run=$OUT/$1
    [ -f "$run/.done" ] && return
    mkdir -p "$run"
    say "training $1; full log in $run/train.log"
    fairseq-train "$OUT/bin" --user-dir "$USER_DIR" -s en -t ja --task rnnsearch --tree-lang tree \
        --max-words 50 --require-parse \
        --optimizer sgd --lr 1.0 --lr-scheduler halve_on_worse --stop-min-lr 0.0625 --clip-norm 3 \
        --batch-size 128 --sentence-avg --no-epoch-checkpoints \
        --save-dir "$run/checkpoints" --log-format simple --log-interval 100 "${@:2}" 2>&1 |
        show_progress "$run/train.log" "$1" || die_of_log "$run/train.log" fairseq-train
    touch "$run/.done"
}

translate() { # SET NAME CHECKPOINTS BEAM OPTIONS...: translate a set to NAME.tok
    local output=$OUT/$2
    [ -f "$output.tok" ] && return
    say "translating the $1 set: $2"
    fairseq-generate "$OUT/bin" --user-dir "$USER_DIR" -s en -t ja --task rnnsearch --tree-lang tree --gen-subset "$1" \
        --path "$3" --search tree2seq --beam "$4" --max-len-b 100 --batch-size 32 "${@:5}" \
        > "$output.out" 2> "$output.log" || die_of_log "$output.log" fairseq-generate
    translations "$output.out" > "$output.part"
    mv "$output.part" "$output.tok"
}

LENGTHS=(--length-statistics "$OUT/lengths")
if [ -z "$SMALL" ]; then
    ensemble=
    for width in 512 768 1024; do
        name=tree2seq_$width best=$OUT/tree2seq_$width/checkpoints/checkpoint_best.pt
        train "$name" --arch "$name" --criterion blackout --blackout-samples 2500
        translate test "$name" "$best" 20 "${LENGTHS[@]}"
        tool reproduce.token_scores "$OUT/text/test.ja" "$OUT/$name.tok"
        ensemble=${ensemble:+$ensemble:}$best
    done
    translate test ensemble "$ensemble" 20 "${LENGTHS[@]}"
    tool reproduce.token_scores "$OUT/text/test.ja" "$OUT/ensemble.tok"
    show_tree_model "$ensemble"
    exit
fi

for objective in softmax blackout500 blackout2000; do
    for model in tree2seq anmt anmt_reversed phrases_only; do
        run=runs/$model-$objective
        # shellcheck disable=SC2046  # options are several words
        train "$run" $(tree_options "$model" "$objective")
        translate valid "$run/lengths20" "$OUT/$run/checkpoints/checkpoint_best.pt" 20 "${LENGTHS[@]}"
    done
done
for beam in 6 20; do
    best=$OUT/runs/tree2seq-blackout2000/checkpoints/checkpoint_best.pt
    translate valid "runs/tree2seq-blackout2000/simple$beam" "$best" "$beam"
    translate valid "runs/tree2seq-blackout2000/lengths$beam" "$best" "$beam" "${LENGTHS[@]}"
done
say "the paper's tables, on the development sentences"
tool reproduce.eriguchi_tables "$OUT/runs" --reference "$OUT/text/dev.ja" --trees "$OUT/text/dev.tree" --output "$OUT/tables.md"
cat "$OUT/tables.md"
show_tree_model "$best"
