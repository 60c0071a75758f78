#!/usr/bin/env bash
# Compare the first paper's four models on the English-French documentation of Python and Django. Most of its messages have up to
# 100 words. The recipe trains RNNencdec-30, RNNsearch-30, RNNencdec-50 and RNNsearch-50, translates messages of files that no
# model has seen, at most 200 for each ten words of length, and writes the report. A seed takes about six CPU hours.
#
#   recipes/docs_en_fr/run.sh --data DIR [--out DIR] [--models NAMES] [--seed N]
#
# --data    folder with python-fr (github.com/python/python-docs-fr, branch 3.13) and django-fr (translations/fr of
#           github.com/django/django-docs-translations, branch stable/5.1.x); the numbers of README.md are of
#           fewer files than a whole clone has
# --out     output folder (default: runs/docs_en_fr_lengths); the models are in OUT/seed-N; interrupted runs are resumed
# --models  models to train, separated by commas (default: the four)
# --seed    seed of training (default: 1); the text stays the same
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

DATA= OUT=$ROOT/runs/docs_en_fr_lengths SEED=1 MODELS=RNNencdec-30,RNNsearch-30,RNNencdec-50,RNNsearch-50
parse_options "data= out= models= seed=" "$@"
[ -n "$DATA" ] || die "give the folder of the PO files: $0 --data DIR; see $0 --help"
set_up

say "reading PO files: whole files are held out; Moses tokens, 8,000 BPE merges"
prepare() { # FOLDER
    prepare_text "$DATA/python-fr" "$DATA/django-fr" "$1" -s en -t fr --split 600 8000 --bpe 8000 --shuffle 1
    for side in en fr; do mv "$1/test.$side" "$1/held_out.$side"; done
    tool docs_en_fr.lengths "$1/held_out" "$1/test" -s en -t fr --most 200 --longest 70
}
once "$OUT/text" prepare

# The settings that prepare prints for so many pairs, but for the cost. A shortlist of 30,000 holds all pieces. BLEU
# chooses the checkpoint: the loss of messages that are too long to be trained on jumps up and down.
# shellcheck disable=SC2046  # one option or none
exec bash "$ROOT/recipes/reproduce/run.sh" --tokens "$OUT/text" --src en --trg fr --out "$OUT/seed-$SEED" \
    --models "$MODELS" --arch bahdanau_gru_small --budget 3000 --interval 500 --rare 0 --longest 70 -- \
    --seed "$SEED" $(fast_precision) --update-word current --dropout 0.3 --readout-dropout 0.3 --word-dropout 0.1 \
    --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.05 --lr 0.006 --lr-scheduler polynomial_decay \
    --warmup-updates 400 --total-num-update BUDGET --eval-bleu --eval-bleu-args '{"beam": 1}' --eval-bleu-remove-bpe \
    --best-checkpoint-metric bleu --maximize-best-checkpoint-metric \
    --validate-interval 1000 --validate-interval-updates 500 # at checkpoints, not at the ends of the short epochs
