#!/usr/bin/env bash
# Test the second paper's claims, and print its Tables 3, 4 and 5, on the Tanaka corpus, English-Japanese: 4,000 pairs are held
# out as the test set. The tree-to-sequence model, the sequential model and the same with the source reversed are trained with
# softmax and with BlackOut, 2,000 negatives, by three seeds; the tree model without its LSTM, and the tree-to-sequence model
# with 500 negatives, by one. As in the paper, training goes on until the learning rate has been halved four times.
# All searches of Table 4 use the tree-to-sequence models of BlackOut.
#
#   recipes/tanaka_en_ja/run.sh [--data DIR] [--out DIR] [--epochs N] [--jobs N]
#
# --data    folder with {train,dev}.{en,ja} and parses in {train,dev}.tree (Penn brackets; without these files, Link
#           Grammar parses the text); without --data the corpus is downloaded
# --out     output folder (default: runs/tanaka_en_ja); an interrupted run is resumed there
# --epochs  passes over the training pairs at most (default: 24); with a larger number than before, training continues
# --jobs    models to train at a time (default: 1); on a CPU, give the number of cores, and OMP_NUM_THREADS=1
source "$(dirname "${BASH_SOURCE[0]}")/data.sh"
source "$ROOT/recipes/tree_models.sh"

train() { # NAME OPTIONS...: Section 4.2's training, up to EPOCHS, from the last checkpoint
    local run=$OUT/runs/$1
    mkdir -p "$run"
    [ "$(cat "$run/.epochs" 2>/dev/null)" = "$EPOCHS" ] && return
    say "training $1; full log in $run/train.log"
    fairseq-train "$OUT/bin" --user-dir "$USER_DIR" -s en -t ja --task rnnsearch --tree-lang tree --max-words 50 \
        --optimizer sgd --lr 1.0 --lr-scheduler halve_on_worse --stop-min-lr 0.0625 --clip-norm 3 \
        --batch-size 128 --sentence-avg --max-epoch "$EPOCHS" --no-epoch-checkpoints \
        --save-dir "$run/checkpoints" --log-format simple --log-interval 100 "${@:2}" 2>&1 |
        show_progress "$run/train.log" "$1" || die_of_log "$run/train.log" fairseq-train
    rm -f "$run"/{*.tok,score.jsonl}
    echo "$EPOCHS" > "$run/.epochs"
}

translate() { # RUN NAME BEAM OPTIONS...: translate the test set to RUN/NAME.tok
    local run=$OUT/runs/$1 name=$2
    [ -f "$run/$name.tok" ] && return
    say "translating the test set by $1: $name"
    fairseq-generate "$OUT/bin" --user-dir "$USER_DIR" -s en -t ja --task rnnsearch --tree-lang tree --gen-subset test \
        --path "$run/checkpoints/checkpoint_best.pt" --search tree2seq --beam "$3" --max-len-b 100 --batch-size 32 \
        "${@:4}" > "$run/$name.out" 2> "$run/$name.log" || die_of_log "$run/$name.log" fairseq-generate
    translations "$run/$name.out" > "$run/$name.part"
    [ "$(wc -l < "$run/$name.part")" = 4000 ] || die "$run/$name.out: not one translation for each sentence"
    mv "$run/$name.part" "$run/$name.tok"
}

train_and_translate() { # MODEL OBJECTIVE SEED: train MODEL-OBJECTIVE, and translate with a beam of 20 and length statistics
    set -euo pipefail
    local run=$1-$2 beam
    [ "$3" = 1 ] || run+=-seed$3
    # shellcheck disable=SC2046  # options are several words
    train "$run" $(tree_options "$1" "$2") --seed "$3"
    translate "$run" lengths20 20 --length-statistics "$OUT/lengths"
    case $1 in
        tree2seq | phrases_only) attend "$run" ;;
    esac
    case $1-$2 in
        tree2seq-blackout*)
            for beam in 6 20; do translate "$run" "simple$beam" "$beam"; done
            translate "$run" lengths6 6 --length-statistics "$OUT/lengths"
            ;;
    esac
}

attend() { # RUN: write the attention of the model to words and phrases, on the first 500 pairs of the test set
    local run=$OUT/runs/$1 side
    [ -f "$run/score.jsonl" ] && return
    for side in en ja tree; do head -n 500 "$OUT/text/test.$side" > "$run/first.$side"; done
    rnnsearch score --model "$run/checkpoints/checkpoint_best.pt" --prepared "$run/first.en" "$run/first.ja" \
        --trees "$run/first.tree" --output "$run/score.jsonl" 2> "$run/score.log" || die_of_log "$run/score.log" "rnnsearch score"
    rm "$run"/first.*
}

export OUT EPOCHS
export -f say die die_of_log show_progress translations tree_options train translate attend train_and_translate
{ # the models that decide the paper's main claim first
    for seed in 1 2 3; do
        for objective in softmax blackout2000; do
            for model in tree2seq anmt anmt_reversed; do echo "$model $objective $seed"; done
        done
    done
    echo "tree2seq blackout500 1"
    for objective in softmax blackout2000; do echo "phrases_only $objective 1"; done
} | each_line "$JOBS" train_and_translate

say "the paper's tables, on the test set"
tool reproduce.eriguchi_tables "$OUT/runs" --reference "$OUT/text/test.ja" --output "$OUT/tables.md"
cat "$OUT/tables.md"
show_tree_model "$OUT/runs/tree2seq-blackout2000/checkpoints/checkpoint_best.pt"
