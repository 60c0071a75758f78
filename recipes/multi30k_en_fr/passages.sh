#!/usr/bin/env bash
# Test the first paper's main claim, that only RNNsearch translates long sentences well, on passages of one to five Multi30k
# captions, up to 70 words: train RNNencdec-30, RNNsearch-30, RNNencdec-50 and RNNsearch-50 on 50,000 passages of the
# training captions, translate 1,400 passages of test_2016_flickr, 200 of every ten words of length, and write the report.
# About two CPU hours.
#
#   recipes/multi30k_en_fr/passages.sh [--data DIR] [--out DIR] [--models NAMES] [--seed N]
#
# --data    folder with {train,val,test_2016_flickr}.{en,fr}; without it they are downloaded
# --out     output folder (default: runs/multi30k_passages); the models are in OUT/seed-N; interrupted runs are resumed
# --models  models to train, separated by commas (default: the four); two calls can train two models at a time
# --seed    seed of training (default: 1); the passages stay the same
RECIPE=multi30k_passages OPTIONS="models= seed=" SEED=1 MODELS=RNNencdec-30,RNNsearch-30,RNNencdec-50,RNNsearch-50
source "$(dirname "${BASH_SOURCE[0]}")/data.sh"
at_least_one SEED

make_passages() {
    local part
    say "preparing captions: Moses tokens, 5,000 BPE merges; joining them to passages"
    rm -rf "$OUT/captions"
    rnnsearch prepare "$DATA" "$OUT/captions" -s en -t fr \
        --train train --valid val --test test_2016_flickr --bpe 5000
    for part in "train 50000" "valid 700" "test 1400"; do
        tool multi30k_en_fr.passages "$OUT/captions/${part% *}" "$OUT/passages/${part% *}" -s en -t fr --passages "${part#* }"
    done
}
once "$OUT/passages" make_passages

# The optimizer and dropout of reproduce.sh. A shortlist of 30,000 holds all pieces.
exec bash "$ROOT/recipes/reproduce/run.sh" --tokens "$OUT/passages" --src en --trg fr --out "$OUT/seed-$SEED" \
    --models "$MODELS" --arch bahdanau_gru_small --budget 1500 --interval 500 --rare 0 -- --seed "$SEED" \
    --optimizer adam --lr 0.002 --lr-scheduler inverse_sqrt --warmup-updates 400 --dropout 0.3 --readout-dropout 0.3
