#!/usr/bin/env bash
# Train the English-French model of this folder on translations of documentation and software, and score it on files and
# projects that it has not seen: about eight minutes of an H100, or half a day of one core.
#
#   recipes/docs_en_fr/model.sh --data DIR --more DIR [--out DIR]
#
# --data  folder with python-fr (github.com/python/python-docs-fr, branch 3.13) and django-fr (translations/fr of
#         github.com/django/django-docs-translations, branch stable/5.1.x)
# --more  folder with the other projects of pairs.py; README.md names their sources
# --out   output folder (default: runs/docs_en_fr); an interrupted run is resumed there
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

DATA= MORE= OUT=$ROOT/runs/docs_en_fr
parse_options "data= more= out=" "$@"
[ -n "$DATA" ] && [ -n "$MORE" ] || die "give both folders of text: $0 --data DIR --more DIR; see $0 --help"
set_up
export OMP_NUM_THREADS=1

say "reading PO files; 8,000 sentencepieces, markup masked"
read_pairs() { tool docs_en_fr.pairs "$1" "$DATA" "$MORE"; }
once "$OUT/raw" read_pairs
prepare() { rnnsearch prepare "$OUT/raw" "$1" -s en -t fr --sentencepiece 8000; }
once "$OUT/text" prepare
once "$OUT/text/bin" binarise "$OUT/text" -s en -t fr --joined-dictionary

CONSTANT=2417 FALLING=1440 # updates at a constant learning rate, and at one that falls to zero
train() { # UPDATES OPTIONS... MODEL: train up to UPDATES
    say "training for $1 updates; full log in $OUT/train.log"
    # shellcheck disable=SC2046  # one option or none
    fairseq-train "$OUT/text/bin" --user-dir "$USER_DIR" --task rnnsearch --arch bahdanau_gru_small -s en -t fr \
        --update-word current --share-all-embeddings --dropout 0.2 --readout-dropout 0.2 --word-dropout 0.05 \
        --criterion smoothed_nll --label-smoothing 0.1 --clip-norm 1 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.05 --lr 0.006 \
        --max-tokens 20000 --max-update "$1" "${@:2:$#-2}" $(fast_precision) --save-interval-updates 500 \
        --keep-interval-updates 1 --no-epoch-checkpoints --save-dir "$OUT/checkpoints" --log-format simple --log-interval 50 2>&1 |
        rnnsearch progress "$OUT/train.log" "$1" || die_of_log "$OUT/train.log" fairseq-train
    cp "$OUT/checkpoints/checkpoint_last.pt" "${!#}"
}
TOTAL=$((CONSTANT + FALLING))
once "$OUT/constant.pt" train $CONSTANT --lr-scheduler fixed --warmup-updates 300
once "$OUT/model.pt" train $TOTAL --lr-scheduler polynomial_decay --reset-lr-scheduler \
    --warmup-updates $CONSTANT --total-num-update $TOTAL
once "$OUT/model" rnnsearch export "$OUT/model.pt" --half --beam 12 --lenpen 2 \
    --examples "$ROOT/recipes/docs_en_fr/examples.en" --card "$ROOT/recipes/docs_en_fr/card.md" --output

say "translating 30 sentences of manuals, guides and release notes"
translate() { rnnsearch translate "$1" --model "$OUT/model" --output "$2"; }
once "$OUT/sentences.fr" translate "$ROOT/recipes/docs_en_fr/sentences.en"
for name in test picard wagtail cloudstack; do
    say "$name: its messages translated, and left in English"
    once "$OUT/$name.fr" translate "$OUT/raw/$name.en"
    for text in "$OUT/$name.fr" "$OUT/raw/$name.en"; do
        sacrebleu "$OUT/raw/$name.fr" -i "$text" -m bleu chrf -w 2 -f text
    done
done
show_model "$OUT/model"
