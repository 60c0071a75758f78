#!/usr/bin/env bash
# Translate newstest2014 with every model that train.sh has trained or is training, with a beam of 12: by the original
# program's search, with and without unknown words, and by fairseq's; write all of the paper's tables and figures, and print
# Table 1 beside the paper's own.
#
#   recipes/wmt14_en_fr/evaluate.sh [--out DIR]      (default: runs/wmt14_en_fr)
#
# Each model's checkpoint is the best on the development set. Tokenised translations by other systems, such as Moses, in
# OUT/runs/others/NAME are included in the tables. It runs on one GPU, which CUDA_VISIBLE_DEVICES chooses.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

OUT=$ROOT/runs/wmt14_en_fr
parse_options "out=" "$@"
[ -f "$OUT/bin/.done" ] || die "$OUT has no data; make it by $(dirname "$0")/data.sh --out $OUT"
set_up

translate() { # RUN NAME OPTIONS...: translate newstest2014 to NAME.out, unless this is of the checkpoint or a newer one
    local checkpoint=$1/checkpoints/checkpoint_best.pt out=$1/$2
    if [ -f "$out.out" ] && [ ! "$checkpoint" -nt "$out.out" ]; then return; fi
    touch -r "$checkpoint" "$out.begun"
    say "translating newstest2014 by $(basename "$1"): $2"
    fairseq-generate "$OUT/bin" --user-dir "$USER_DIR" --task rnnsearch -s en -t fr --path "$checkpoint" \
        --beam 12 --batch-size 32 "${@:3}" > "$out.part" 2> "$out.log" || die_of_log "$out.log" fairseq-generate
    touch -r "$out.begun" "$out.part" # training may have replaced the checkpoint by now
    mv "$out.part" "$out.out"
    rm "$out.begun"
}

bleu() { # OUTPUT: print sacrebleu of the detokenised translations against the original reference
    translations "$1" | sacremoses --language fr --processes 1 --quiet detokenize |
        sacrebleu "$OUT/raw/newstest2014.fr" --language-pair en-fr --width 2 --score-only
}

ORIGINAL=(--search groundhog --unnormalized)
for checkpoint in "$OUT"/runs/*/checkpoints/checkpoint_best.pt; do
    [ -f "$checkpoint" ] || die "$OUT/runs has no model; train one by $(dirname "$0")/train.sh"
    run=${checkpoint%/checkpoints/*} alignment=
    if [[ $run = */RNNsearch-* ]]; then alignment=--print-alignment=soft; fi
    translate "$run" generate "${ORIGINAL[@]}" $alignment
    translate "$run" nounk "${ORIGINAL[@]}" --unkpen inf
    translate "$run" fairseq
done

say "the paper's tables and figures"
tool reproduce.report "$OUT/runs" -s en -t fr --output "$OUT/report"
say "Table 1, BLEU on tokens, ours and the paper's; and sacrebleu of ours as text, all sentences"
declare -A PAPER=([RNNencdec-30]='13.93 24.19' [RNNsearch-30]='21.50 31.44' [RNNencdec-50]='17.82 26.71'
    [RNNsearch-50]='26.75 34.16' [RNNsearch-50⋆]='28.45 36.15' [phrase-based]='33.30 35.63')
row() { printf '%-14s %8s %8s %8s %8s %10s\n' "$@"; }
row model all paper 'no UNK' paper sacrebleu
sed -n '/^## Table 1/,/^## Table 2/s/^| \([^ ]*\) | \([0-9.]*\) | \([0-9.–]*\) | [0-9.–]* |$/\1 \2 \3/p' "$OUT/report/report.md" |
    while read -r name all known; do
        read -r paper_all paper_known <<< "${PAPER[$name]-– –}"
        generated=$OUT/runs/${name/⋆/-long}/generate.out text=–
        if [ -f "$generated" ]; then text=$(bleu "$generated"); fi
        row "$name" "$all" "$paper_all" "$known" "$paper_known" "$text"
    done
