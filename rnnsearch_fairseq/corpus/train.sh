#!/usr/bin/env bash
# Train on the text of this folder, translate the test set and score it. Started again, it skips what is done.
set -euo pipefail
# SETTINGS

cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
exec 9<> .lock
flock -n 9 || { echo "error: $PWD: another train.sh runs here; wait for its end" >&2; exit 1; }
export PYTHONWARNINGS=ignore # of libraries
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-1000} # else PyTorch's idle threads slow a training down beside other programs
user_dir=$(rnnsearch user-dir)

if [ ! -d bin ]; then
    echo "binarising; full log in $PWD/preprocess.log"
    rm -rf bin.part
    fairseq-preprocess --user-dir "$user_dir" -s "$source" -t "$target" "${dictionaries[@]}" \
        --trainpref train --validpref valid --testpref test --destdir bin.part > preprocess.log 2>&1 ||
        { tail -n 3 preprocess.log >&2; echo "error: see $PWD/preprocess.log" >&2; exit 1; }
    mv bin.part bin
fi

if [ ! -e checkpoints/finished ]; then
    echo "training; full log in $PWD/train.log"
    fairseq-train bin --user-dir "$user_dir" -s "$source" -t "$target" "${model[@]}" --no-epoch-checkpoints \
        --save-dir checkpoints --log-format json --log-interval 10 2>&1 | rnnsearch progress train.log "$updates"
    touch checkpoints/finished
fi

if [ ! -d model ]; then
    rm -rf model.part
    rnnsearch export checkpoints/checkpoint_best.pt --output model.part --half "${usage[@]}" > /dev/null
    mv model.part model
fi

score() { # MODEL TRANSLATIONS: translate the test set, and compare it with its translations by people
    [ "$2" -nt model ] || rnnsearch translate "raw/test.$source" --model "$1" "${translate[@]}" --output "$2"
    sacrebleu "raw/test.$target" -i "$2" -m bleu chrf -f text "${tokens[@]}"
}
echo "scores of $(wc -l < "raw/test.$target") test texts (if they are fewer than 300, some points may be chance)"
if [ -n "$base" ]; then
    echo "before, by the given model:"
    score "$base" "test.before.$target"
    echo "after:"
fi
score model "test.hyp.$target"
echo
echo "translations of the test set: $PWD/test.hyp.$target"
echo "the model:                    $PWD/model"
echo "to use it: rnnsearch translate or serve, with --model and this path"
