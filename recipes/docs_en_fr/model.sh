#!/usr/bin/env bash
# Train the English-French model of this folder on translations of documentation and software, from the smaller model that lay here
# before, and score it on files and projects that it has not seen: about four hours of one core.
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
FIRST=9c848ef # the last commit with the model that knew Python's and Django's documentation only

say "reading PO files; preparing their text as the first model's, markup masked"
read_pairs() { tool docs_en_fr.pairs "$1" "$DATA" "$MORE"; }
once "$OUT/raw" read_pairs
first_model() { mkdir "$1" && git -C "$ROOT" archive "$FIRST:recipes/docs_en_fr/model" | tar -x -C "$1"; }
once "$OUT/first" first_model
prepare() { rnnsearch prepare "$OUT/raw" "$1" -s en -t fr --from "$OUT/first"; }
once "$OUT/text" prepare
once "$OUT/text/bin" binarise "$OUT/text" -s en -t fr --srcdict "$OUT/text/dict.en.txt" --tgtdict "$OUT/text/dict.fr.txt"

train() { # START UPDATES MODEL: go on from START, with a learning rate that falls to zero
    local run=${3%.pt*}
    mkdir -p "$run"
    say "training for $2 updates; full log in $run/train.log"
    # shellcheck disable=SC2046  # one option or none
    fairseq-train "$OUT/text/bin" --user-dir "$USER_DIR" --task rnnsearch --arch bahdanau_gru_small -s en -t fr \
        --finetune-from-model "$1" --update-word current --share-all-embeddings \
        --dropout 0.2 --readout-dropout 0.2 --word-dropout 0.05 --criterion smoothed_nll --label-smoothing 0.1 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.05 --clip-norm 1 \
        --lr 0.003 --lr-scheduler polynomial_decay --warmup-updates 150 --total-num-update "$2" --max-update "$2" \
        --max-tokens 3000 $(fast_precision) --save-interval 1000 --validate-interval 1000 --validate-interval-updates 500 \
        --save-interval-updates 250 --keep-interval-updates 4 --save-dir "$run/checkpoints" \
        --log-format simple --log-interval 20 2>&1 |
        rnnsearch progress "$run/train.log" "$2" || die_of_log "$run/train.log" fairseq-train
    cp "$run/checkpoints/checkpoint_last.pt" "$3"
}
once "$OUT/second.pt" train "$OUT/text/start.pt" 3000
once "$OUT/third.pt" train "$OUT/second.pt" 3400
once "$OUT/model" rnnsearch export "$OUT/third.pt" --half --beam 12 --lenpen 2 \
    --examples "$ROOT/recipes/docs_en_fr/examples.en" --card "$ROOT/recipes/docs_en_fr/card.md" --output

say "translating 30 sentences of manuals, guides and release notes"
translate() { rnnsearch translate "$ROOT/recipes/docs_en_fr/sentences.en" --model "$OUT/model" --beam 12 --lenpen 2 --output "$1"; }
once "$OUT/sentences.fr" translate
for name in test picard wagtail cloudstack; do
    say "$name: its messages translated by the first model and by this one, and left in English"
    for model in first model; do
        translate() { rnnsearch translate "$OUT/raw/$name.en" --model "$OUT/$model" --beam 12 --lenpen 2 --output "$1"; }
        once "$OUT/$name.$model.fr" translate
        sacrebleu "$OUT/raw/$name.fr" -i "$OUT/$name.$model.fr" -m bleu chrf -w 2 -f text
    done
    sacrebleu "$OUT/raw/$name.fr" -i "$OUT/raw/$name.en" -m bleu chrf -w 2 -f text
done
show_model "$OUT/model"
