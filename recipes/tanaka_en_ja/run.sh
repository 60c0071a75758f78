#!/usr/bin/env bash
# Reproduce the second paper's Tables 3, 4 and 5 on the Tanaka corpus, English-Japanese, 50,000 pairs. Four models are each
# trained with softmax and with BlackOut, 500 and 2,000 negatives: the tree-to-sequence model and the sequential model, both
# with two seeds, the sequential model with the source reversed, and the tree model without its LSTM. All searches of
# Table 4 use the tree-to-sequence model of 2,000 negatives.
#
#   recipes/tanaka_en_ja/run.sh [--data DIR] [--out DIR] [--epochs N] [--jobs N]
#
# --data    folder with {train,dev}.{en,ja} and parses in {train,dev}.tree (Penn brackets; without these files, Link
#           Grammar parses the text); without --data the corpus is downloaded
# --out     output folder (default: runs/tanaka_en_ja); an interrupted run is resumed there
# --epochs  passes over the training pairs (default: 8); with a larger number than before, training continues
# --jobs    models to train at a time (default: 1); on a CPU, give the number of cores, and OMP_NUM_THREADS=1
source "$(dirname "${BASH_SOURCE[0]}")/data.sh"
source "$ROOT/recipes/tree_models.sh"

train() { # NAME OPTIONS...: Section 4.2's training, up to EPOCHS, from the last checkpoint
    local run=$OUT/runs/$1
    mkdir -p "$run"
    [ "$(cat "$run/.epochs" 2>/dev/null)" = "$EPOCHS" ] && return
    say "training $1; full log in $run/train.log"
    fairseq-train "$OUT/bin" --user-dir "$USER_DIR" -s en -t ja --task tree_translation --max-words 50 \
        --optimizer sgd --lr 1.0 --lr-scheduler halve_on_worse --clip-norm 3 \
        --batch-size 128 --sentence-avg --max-epoch "$EPOCHS" --no-epoch-checkpoints \
        --save-dir "$run/checkpoints" --log-format simple --log-interval 100 "${@:2}" 2>&1 |
        show_progress "$run/train.log" "$1" || die_of_log "$run/train.log" fairseq-train
    rm -f "$run"/{*.tok,score.jsonl}
    echo "$EPOCHS" > "$run/.epochs"
}

translate() { # RUN NAME BEAM OPTIONS...: translate the development sentences to RUN/NAME.tok
    local run=$OUT/runs/$1 name=$2
    [ -f "$run/$name.tok" ] && return
    say "translating $(wc -l < "$DATA/dev.ja") sentences by $1: $name"
    fairseq-generate "$OUT/bin" --user-dir "$USER_DIR" -s en -t ja --task tree_translation --gen-subset valid \
        --path "$run/checkpoints/checkpoint_best.pt" --search tree2seq --beam "$3" --max-len-b 100 --batch-size 32 \
        "${@:4}" > "$run/$name.out" 2> "$run/$name.log" || die_of_log "$run/$name.log" fairseq-generate
    translations "$run/$name.out" > "$run/$name.part"
    wc -l < "$DATA/dev.ja" | grep -qx "$(wc -l < "$run/$name.part")" || die "$run/$name.out: not one translation for each sentence"
    mv "$run/$name.part" "$run/$name.tok"
}

train_and_translate() { # MODEL OBJECTIVE RUN OPTIONS...: train RUN, and translate with a beam of 20 and length statistics
    set -euo pipefail
    # shellcheck disable=SC2046  # options are several words
    train "$3" $(tree_options "$1" "$2") "${@:4}"
    translate "$3" beam20 20 --length-statistics "$OUT/lengths"
    case $1 in
        tree2seq | phrases_only) attend "$3" ;;
    esac
}

attend() { # RUN: write the attention of the model to words and phrases, on the development pairs
    local run=$OUT/runs/$1
    [ -f "$run/score.jsonl" ] && return
    rnnsearch score --model "$run/checkpoints/checkpoint_best.pt" --prepared "$DATA/dev.en" "$DATA/dev.ja" \
        --trees "$OUT/text/dev.tree" --output "$run/score.jsonl" 2> "$run/score.log" || die_of_log "$run/score.log" "rnnsearch score"
}

export OUT DATA EPOCHS
export -f say die die_of_log show_progress translations tree_options train translate attend train_and_translate
for objective in $OBJECTIVES; do
    for model in $TREE_MODELS; do
        echo "$model $objective $model-$objective"
    done
    for model in tree2seq anmt; do
        echo "$model $objective $model-$objective-seed2 --seed 2"
    done
done | each_line "$JOBS" train_and_translate
for beam in 6 20; do
    translate tree2seq-blackout2000 "simple$beam" "$beam"
    translate tree2seq-blackout2000 "lengths$beam" "$beam" --length-statistics "$OUT/lengths"
done

say "the paper's tables, on the development sentences"
tool reproduce.eriguchi_tables "$OUT/runs" --reference "$DATA/dev.ja" --trees "$OUT/text/dev.tree" --output "$OUT/tables.md"
cat "$OUT/tables.md"
show_tree_model "$OUT/runs/tree2seq-blackout2000/checkpoints/checkpoint_best.pt"
