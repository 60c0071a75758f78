#!/usr/bin/env bash
# Train RNNsearch-50 as the first paper does, on 100,000 pairs of the built-in grammar (Section 4.2 and Appendix B.2: Adadelta,
# summed cost, pools of 20 batches, gradients of norm 1 at most, no dropout). Train it again with Adam for as many updates. Draw
# the learning curves of both, and write a report that compares the translations. The model is small (n = 128), because Adadelta
# needs many updates. The pairs are many, because the model would learn few pairs by heart before it aligns them. The recipe takes
# about three CPU hours.
#
#   recipes/reproduce/adadelta.sh [--out DIR] [--updates N] [--seed N]
#
# --out      output folder (default: runs/adadelta); interrupted runs are resumed there
# --updates  updates of each training (default: 20,000)
# --seed     seed of training (default: 1)
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

OUT=$ROOT/runs/adadelta UPDATES=20000 SEED=1
parse_options "out= updates= seed=" "$@"
set_up

once "$OUT/text" tool grammar --train 100000

# run.sh trains by Adadelta, unless its last options say otherwise. Adam has the settings of grammar.sh.
ADAM=(--optimizer adam --lr 0.003 --warmup-updates 100 --lr-scheduler polynomial_decay --total-num-update "$UPDATES"
    --end-learning-rate 0.0002)
mkdir -p "$OUT/runs"
for name in Adadelta Adam; do
    options=()
    if [ $name = Adam ]; then options=("${ADAM[@]}"); fi
    bash "$ROOT/recipes/reproduce/run.sh" --tokens "$OUT/text" --src en --trg fr --out "$OUT/$name" --models RNNsearch-50 \
        --arch bahdanau_gru_small --words 800 --budget "$UPDATES" --interval 500 --rare 0 -- \
        --embedding-size 128 --hidden-size 128 --alignment-size 128 --maxout-size 128 \
        --seed "$SEED" --update-word current "${options[@]}"
    ln -sfn "../$name/runs/RNNsearch-50" "$OUT/runs/$name"
done

say "both trainings beside each other"
ln -sfn ../Adam/runs/data "$OUT/runs/data"
tool reproduce.report "$OUT/runs" -s en -t fr --output "$OUT/report"
tool reproduce.curve "$OUT"/runs/{Adadelta,Adam}/train.log --output "$OUT/report/curve.png"
show_model "$OUT/runs/Adadelta/model.pt" --beam 12
