#!/usr/bin/env bash
# Train RNNsearch on Multi30k English-French with today's methods: two models beside each other on two cores, and their
# ensemble. Print sacrebleu of lowercased tokens on test_2016_flickr, as published for Transformer-Tiny, and its signature.
#
#   recipes/multi30k_en_fr/best.sh --data DIR [--compare] [--jobs N] [--out DIR]
#
# --data     folder with the corpus's own lowercased, normalised, tokenised files {train,val,test_2016_flickr}.{en,fr}
# --compare  also train fairseq's lstm and its transformer at Transformer-Tiny's size: each with its usual settings,
#            and with those of RNNsearch; draw the BLEU of the development set against time in OUT/curve.png
# --jobs     models to train at a time, each on one core (default: 2)
# --out      output folder (default: runs/multi30k_best); an interrupted run is resumed there
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

DATA= COMPARE= JOBS=2 OUT=$ROOT/runs/multi30k_best
parse_options "data= compare jobs= out=" "$@"
[ -n "$DATA" ] || die "--data DIR is needed: the folder of the corpus's tokenised files; see $0 --help"
set_up
export OMP_NUM_THREADS=1

say "splitting words by 10,000 BPE merges"
prepare() { prepare_text "$DATA" "$1" -s en -t fr --valid val --test test_2016_flickr --tokenized --bpe 10000; }
once "$OUT/text" prepare
once "$OUT/text/bin" binarise "$OUT/text" -s en -t fr --joined-dictionary

models=(rnnsearch-1 rnnsearch-2)
if [ -n "$COMPARE" ]; then models+=(lstm-usual transformer-published-1 lstm-1 transformer-published-2 lstm-2 transformer); fi
printf '%s\n' "${models[@]}" | xargs -P "$JOBS" -L 1 bash "$ROOT/recipes/multi30k_en_fr/best_model.sh" "$DATA" "$OUT"
bash "$ROOT/recipes/multi30k_en_fr/best_model.sh" "$DATA" "$OUT" ensemble

say "BLEU on the test set, with a beam of 5 and the development set's best length penalty"
for name in "${models[@]}" ensemble; do
    read -r valid penalty < "$OUT/models/$name/lenpen"
    echo "$name: BLEU $valid on the development set, length penalty $penalty; on the test set"
    sacrebleu "$DATA/test_2016_flickr.fr" -i "$OUT/models/$name/test.fr" --tokenize none --force -w 2 --confidence --format text
done
if [ -n "$COMPARE" ]; then
    kept=$OUT/best
    mkdir -p "$kept"
    for name in "${models[@]}"; do cp "$OUT/models/$name/test.fr" "$kept/$name.fr"; done
    cp "$OUT/models/ensemble/test.fr" "$kept/rnnsearch-ensemble.fr"
    tool reproduce.compare "$DATA/test_2016_flickr.fr" "RNNsearch=$kept/rnnsearch-1.fr,$kept/rnnsearch-2.fr" \
        "RNNsearch, ensemble=$kept/rnnsearch-ensemble.fr" "lstm, usual settings=$kept/lstm-usual.fr" \
        "lstm=$kept/lstm-1.fr,$kept/lstm-2.fr" "transformer=$kept/transformer.fr" \
        "transformer, published settings=$kept/transformer-published-1.fr,$kept/transformer-published-2.fr" \
        --output "$kept/report.md"
    tool reproduce.curve "$OUT"/models/{rnnsearch-1,lstm-1,transformer-published-1}/train.log \
        --measure bleu --against time --output "$OUT/curve.png"
    cat "$kept/report.md"
fi
show_model "$OUT/models/rnnsearch-1/model.pt:$OUT/models/rnnsearch-2/model.pt" --beam 5 --lenpen "$penalty"
