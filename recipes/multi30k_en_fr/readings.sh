#!/usr/bin/env bash
# Compare the readings that the paper and its original code allow: train a small model in each, on the same data and for
# the same number of updates, as in Section 4.2; print BLEU and negative log-likelihood of each on test_2016_flickr.
# Six runs of 16 passes: about two and a half hours on two CPU cores.
#
#   recipes/multi30k_en_fr/readings.sh [--data DIR] [--out DIR]      (as in run.sh)
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

reading() { # NAME WHAT OPTIONS...
    local folder="$OUT/readings/$1" what=$2
    shift 2
    mkdir -p "$folder"
    if [ ! -f "$folder/.done" ]; then
        say "training: $what ($*)"
        fairseq-train "$OUT/bin" --user-dir "$USER_DIR" --arch bahdanau_gru_small -s en -t fr \
            --task pooled_translation --max-words 50 --batch-size 80 --optimizer adadelta --clip-norm 1 \
            --criterion summed_nll "$@" --max-update 5808 --no-epoch-checkpoints \
            --save-dir "$folder" --log-format simple --log-interval 100 2>&1 |
            show_progress "$folder/train.log" || die_of_log "$folder/train.log" fairseq-train
        touch "$folder/.done"
    fi
    [ -f "$folder/test.fr" ] || translate "$folder/checkpoint_last.pt" "$folder/test"
    rnnsearch score --model "$folder/checkpoint_last.pt" --prepared \
        "$OUT/text/test.en" "$OUT/text/test.fr" --output "$folder/score.jsonl" 2> "$folder/score.log" ||
        die_of_log "$folder/score.log" "rnnsearch score"
    printf '| %s | `%s` | %s | %s |\n' "$what" "$*" "$(bleu "$folder/test" --score-only)" \
        "$(sed -nE 's/^scored .*: ([0-9.]+) nats a sentence, ([0-9.]+) nats a word.*/\1 | \2/p' "$folder/score.log")" \
        >> "$OUT/readings/table.md"
}

mkdir -p "$OUT/readings"
printf '| reading | options | BLEU | nats a sentence | nats a word |\n|---|---|---|---|---|\n' > "$OUT/readings/table.md"
reading appendix "Appendix A: s_{i-1} is read, y_{i-1} consumed, one W_o; summed cost" --readout-state previous
reading readout "s_i is read (Eq. 4)" --readout-state current
reading order "y_i is consumed (code)" --update-word current
reading factor "W_o in two factors (code)" --output-rank 256
reading code "both, as in the code" --update-word current --output-rank 256
reading mean "mean cost" --criterion cross_entropy
cat "$OUT/readings/table.md"
show_model "$OUT/readings/code/checkpoint_last.pt" --beam 12
