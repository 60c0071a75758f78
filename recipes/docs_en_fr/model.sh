#!/usr/bin/env bash
# Train the English-French model of this folder on translations of documentation and software, and score it on files and projects
# that it has not seen: about twelve hours of one core that multiplies bfloat16.
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

say "reading PO files; splitting text by sentencepiece, markup masked"
read_pairs() { tool docs_en_fr.pairs "$1" "$DATA" "$MORE"; }
once "$OUT/raw" read_pairs
prepare() { rnnsearch prepare "$OUT/raw" "$1" -s en -t fr --sentencepiece 8000; }
once "$OUT/text" prepare
once "$OUT/text/bin" binarise "$OUT/text" -s en -t fr --joined-dictionary

train() { # UPDATES MODEL: train up to so many, to which the learning rate falls; average the last ten checkpoints
    say "training bahdanau_gru_small, 360 wide, up to update $1; full log in $OUT/train.log"
    # shellcheck disable=SC2046  # one option or none
    fairseq-train "$OUT/text/bin" --user-dir "$USER_DIR" --task rnnsearch --arch bahdanau_gru_small -s en -t fr \
        --embedding-size 360 --hidden-size 360 --alignment-size 360 --maxout-size 360 \
        --update-word current --dropout 0.2 --readout-dropout 0.2 --word-dropout 0.05 --share-all-embeddings \
        --criterion smoothed_nll --label-smoothing 0.1 --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.05 \
        --clip-norm 1 --lr 0.005 --lr-scheduler polynomial_decay --warmup-updates 800 --total-num-update "$1" \
        --max-update "$1" --max-tokens 3000 $(fast_precision) \
        --eval-bleu --eval-bleu-args '{"beam": 1}' --eval-bleu-remove-bpe sentencepiece \
        --save-interval 1000 --validate-interval 1000 --validate-interval-updates 1000 --save-interval-updates 250 \
        --keep-interval-updates 10 --save-dir "$OUT/checkpoints" --log-format simple --log-interval 50 2>&1 |
        rnnsearch progress "$OUT/train.log" "$1" || die_of_log "$OUT/train.log" fairseq-train
    ls -v "$OUT"/checkpoints/checkpoint_*_*.pt | xargs -d '\n' rnnsearch average --output "$2"
}
once "$OUT/model.pt" train 24000
once "$OUT/model" rnnsearch export "$OUT/model.pt" --half \
    --examples "$ROOT/recipes/docs_en_fr/examples.en" --output

say "translating the test files with a beam of 12"
rnnsearch translate "$OUT/raw/test.en" --model "$OUT/model" --beam 12 --lenpen 2 --output "$OUT/test.fr"
sacrebleu "$OUT/raw/test.fr" -i "$OUT/test.fr" -m bleu chrf -w 2
echo "The English messages, untranslated:"
sacrebleu "$OUT/raw/test.fr" -i "$OUT/raw/test.en" -m bleu chrf -w 2 -b
show_model "$OUT/model" --beam 12 --lenpen 2
