#!/usr/bin/env bash
# Compare the first paper's four models on whole sentences of news, English-French, of all lengths: train RNNencdec-30,
# RNNsearch-30, RNNencdec-50 and RNNsearch-50 on 12,071 pairs of WMT's development sets, translate newstest2013, and write
# the report. About two CPU hours.
#
#   recipes/news_en_fr/run.sh --data DIR [--out DIR] [--models NAMES] [--seed N]
#
# --data    folder with {news-test2008,newstest2009,newstest2010,newstest2011,newstest2012,newstest2013}.{en,fr}, the
#           folder dev of https://www.statmt.org/wmt14/dev.tgz; the last 1,000 pairs of newstest2012 are for development
# --out     output folder (default: runs/news_en_fr); the models are in OUT/seed-N; interrupted runs are resumed
# --models  models to train, separated by commas (default: the four); two calls can train two models at a time
# --seed    seed of training (default: 1)
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

DATA= OUT=$ROOT/runs/news_en_fr SEED=1 MODELS=RNNencdec-30,RNNsearch-30,RNNencdec-50,RNNsearch-50
parse_options "data= out= models= seed=" "$@"
[ -n "$DATA" ] || die "give the folder of the news test sets: $0 --data DIR"
[[ $SEED =~ ^[1-9][0-9]*$ ]] || die "--seed is $SEED; give a number, at least 1"
own_folder "$OUT" news_en_fr
for name in {news-test2008,newstest20{09,10,11,12,13}}.{en,fr}; do
    [ -f "$DATA/$name" ] || die "$DATA/$name: no such file; give the folder dev of https://www.statmt.org/wmt14/dev.tgz"
done
set_up

prepare_text() {
    local language
    say "preparing news: Moses tokens, 5,000 BPE merges"
    rm -rf "$OUT/raw"
    mkdir -p "$OUT/raw"
    for language in en fr; do
        { cat "$DATA"/{news-test2008,newstest20{09,10,11}}.$language && head -n -1000 "$DATA/newstest2012.$language"; } \
            > "$OUT/raw/train.$language"
        tail -n 1000 "$DATA/newstest2012.$language" > "$OUT/raw/valid.$language"
        cp "$DATA/newstest2013.$language" "$OUT/raw/test.$language"
    done
    rnnsearch prepare "$OUT/raw" "$OUT/text" -s en -t fr --bpe 5000 --shuffle 1
}
once "$OUT/text" prepare_text

# A shortlist of 30,000 holds all pieces.
exec bash "$ROOT/recipes/reproduce/run.sh" --tokens "$OUT/text" --src en --trg fr --out "$OUT/seed-$SEED" \
    --models "$MODELS" --arch bahdanau_gru_small --budget 2000 --interval 500 --rare 0 -- --seed "$SEED" \
    --optimizer adam --lr 0.002 --lr-scheduler inverse_sqrt --warmup-updates 400 --dropout 0.3 --readout-dropout 0.3
