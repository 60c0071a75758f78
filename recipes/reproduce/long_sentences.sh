#!/usr/bin/env bash
# Test whether RNNsearch-50 gets worse on sentences of 50 words and more after it has read many long sentences. The recipe trains
# RNNencdec-50 and RNNsearch-50 on 200,000 pairs of the built-in grammar, in which all lengths up to 60 words are equally frequent,
# translates 200 sentences for each ten words of length, and writes the report. It takes an hour and a half on one core.
#
#   recipes/reproduce/long_sentences.sh [--out DIR] [--models NAMES] [--seed N]
#
# --out     output folder (default: runs/long_sentences); the models are in OUT/seed-N; interrupted runs are resumed
# --models  models to train, separated by commas (default: both)
# --seed    seed of training (default: 1); the corpus stays the same
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

OUT=$ROOT/runs/long_sentences SEED=1 MODELS=RNNencdec-50,RNNsearch-50
parse_options "out= models= seed=" "$@"
set_up

say "writing 200,000 pairs of the grammar, of all lengths: two minutes"
once "$OUT/text" tool grammar --even --train 200000 --valid 600 --test 1200

# The settings of grammar.sh, for more updates.
# shellcheck disable=SC2046  # one option or none
exec bash "$ROOT/recipes/reproduce/run.sh" --tokens "$OUT/text" --src en --trg fr --out "$OUT/seed-$SEED" --models "$MODELS" \
    --arch bahdanau_gru_small --words 800 --budget 2500 --interval 500 --rare 0 -- --seed "$SEED" $(fast_precision) \
    --update-word current --optimizer adam --lr 0.003 --warmup-updates 100 \
    --lr-scheduler polynomial_decay --total-num-update BUDGET --end-learning-rate 0.0002
