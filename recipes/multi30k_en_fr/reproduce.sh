#!/usr/bin/env bash
# Reproduce the first paper's tables and figures on Multi30k English-French, with shortlists of 4,000 words: three
# hours of one core.
#
#   recipes/multi30k_en_fr/reproduce.sh [--data DIR] [--out DIR] [--seed N]
#
# --data, --out  as in run.sh (default: runs/multi30k_reproduce)
# --seed         seed of the trainings (default: 1)
RECIPE=multi30k_reproduce OPTIONS=seed= SEED=1
source "$(dirname "${BASH_SOURCE[0]}")/data.sh"

# Settings for 29,000 captions, almost all shorter than 30 words. The paper's Adadelta learns several times more
# slowly than Adam (reproduce/adadelta.sh). The order of the decoder is that of the paper's appendix; -- --update-word current
# is the original program's.
exec bash "$ROOT/recipes/reproduce/run.sh" --data "$DATA" --src en --trg fr --valid val --test test_2016_flickr \
    --out "$OUT" --arch bahdanau_gru_small --words 4000 --budget 2200 --patience 6 --long 20 -- \
    --optimizer adam --lr 0.002 --lr-scheduler inverse_sqrt --warmup-updates 400 --dropout 0.3 --readout-dropout 0.3 \
    --seed "$SEED"
