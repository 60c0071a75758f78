#!/usr/bin/env bash
# Train the English-French model of this folder on translations of documentation and software, and score it on files and
# projects that it has not seen: about 28 hours of one core.
#
#   recipes/docs_en_fr/model.sh --data DIR --more DIR --php DIR --text DIR [--out DIR]
#
# --data  folder with python-fr (github.com/python/python-docs-fr, branch 3.13) and django-fr (translations/fr of
#         github.com/django/django-docs-translations, branch stable/5.1.x)
# --more  folder with the other projects of pairs.py; SOURCES.md names their sources
# --php   folder with clones of PHP's manual, doc-en and doc-fr (github.com/php)
# --text  folder with the tables NAME.en-fr.tsv.gz that SOURCES.md lists, and with the projects fpm-docs, warehouse, elgg,
#         twlight, penpot, elixir-school, datalab and bookshelf
# --out   output folder (default: runs/docs_en_fr); an interrupted run is resumed there
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

DATA= MORE= PHP= TEXT= OUT=$ROOT/runs/docs_en_fr
parse_options "data= more= php= text= out=" "$@"
[ -n "$DATA" ] && [ -n "$MORE" ] && [ -n "$PHP" ] && [ -n "$TEXT" ] ||
    die "give all four folders of text: $0 --data DIR --more DIR --php DIR --text DIR; see $0 --help"
set_up
export OMP_NUM_THREADS=1

say "reading PO files; 8,000 sentencepieces, markup masked"
read_pairs() { tool docs_en_fr.pairs "$1" "$DATA" "$MORE" "$TEXT"; }
once "$OUT/raw" read_pairs
prepare() { prepare_text "$OUT/raw" "$1" -s en -t fr --sentencepiece 8000; }
once "$OUT/text" prepare
once "$OUT/text/bin" binarise "$OUT/text" -s en -t fr --joined-dictionary

train() { # TEXT UPDATES OPTIONS... MODEL: train up to UPDATES, in the folder above MODEL
    local run=${!#} && run=${run%/*}
    say "training for $2 updates; full log in $run/train.log"
    # shellcheck disable=SC2046  # one option or none
    fairseq-train "$1/bin" --user-dir "$USER_DIR" --task rnnsearch --arch bahdanau_gru_small -s en -t fr \
        --update-word current --share-all-embeddings --dropout 0.2 --readout-dropout 0.2 --word-dropout 0.05 \
        --criterion smoothed_nll --label-smoothing 0.1 --clip-norm 1 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 0.05 \
        --max-update "$2" $(fast_precision) --save-interval-updates 500 --keep-interval-updates 1 --no-epoch-checkpoints \
        --save-dir "$run/checkpoints" --log-format json --log-interval 50 "${@:3:$#-3}" 2>&1 |
        rnnsearch progress "$run/train.log" "$2" || die_of_log "$run/train.log" fairseq-train
    cp "$run/checkpoints/checkpoint_last.pt" "${!#}"
}
CONSTANT=2417 TOTAL=3857 # updates at a constant learning rate, and with those at one that falls to zero
FIRST="--lr 0.006 --max-tokens 20000"
once "$OUT/first/constant.pt" train "$OUT/text" $CONSTANT $FIRST --lr-scheduler fixed --warmup-updates 300
once "$OUT/first/model.pt" train "$OUT/text" $TOTAL $FIRST --lr-scheduler polynomial_decay --reset-lr-scheduler \
    --warmup-updates $CONSTANT --total-num-update $TOTAL

say "second part: PHP's manual, and messages that PO files keep as obsolete"
read_manual() { tool docs_en_fr.php_manual "$PHP" "$1"; }
once "$OUT/php.tsv" read_manual
read_more() { tool docs_en_fr.pairs "$1" "$DATA" "$MORE" "$TEXT" "$OUT/php.tsv"; }
once "$OUT/raw_more" read_more
prepare_more() { prepare_text "$OUT/raw_more" "$1" -s en -t fr --from "$OUT/first/model.pt"; }
once "$OUT/text_more" prepare_more
once "$OUT/text_more/bin" binarise "$OUT/text_more" -s en -t fr --srcdict "$OUT/text_more/dict.en.txt" --tgtdict "$OUT/text_more/dict.fr.txt"
MORE_UPDATES=1300
once "$OUT/second/model.pt" train "$OUT/text_more" $MORE_UPDATES --finetune-from-model "$OUT/text_more/start.pt" --lr 0.004 \
    --lr-scheduler polynomial_decay --warmup-updates 100 --total-num-update $MORE_UPDATES --max-tokens 3000 --update-freq 4

say "third part: 53 more sources, cut and masked as rnnsearch translate does, and headings, read twenty times"
read_all() { tool docs_en_fr.pairs "$1" "$DATA" "$MORE" "$TEXT" "$OUT/php.tsv" "$TEXT"/*.en-fr.tsv.gz; }
once "$OUT/raw_all" read_all
cut_all() {
    tool docs_en_fr.passages "$OUT/raw_all" "$1"
    local headings=$ROOT/recipes/docs_en_fr/headings.tsv
    for _ in {1..20}; do cut -f 1 "$headings" >&3 && cut -f 2 "$headings" >&4; done 3>> "$1/train.en" 4>> "$1/train.fr"
}
once "$OUT/pieces" cut_all
prepare_all() { prepare_text "$OUT/pieces" "$1" -s en -t fr --from "$OUT/second/model.pt"; }
once "$OUT/text_all" prepare_all
once "$OUT/text_all/bin" binarise "$OUT/text_all" -s en -t fr --srcdict "$OUT/text_all/dict.en.txt" --tgtdict "$OUT/text_all/dict.fr.txt"
LAST_CONSTANT=357 LAST_TOTAL=2400
LAST="--lr 0.003 --max-tokens 10000"
once "$OUT/third/constant.pt" train "$OUT/text_all" $LAST_CONSTANT $LAST --lr-scheduler fixed --warmup-updates 200 \
    --finetune-from-model "$OUT/text_all/start.pt"
once "$OUT/third/model.pt" train "$OUT/text_all" $LAST_TOTAL $LAST --lr-scheduler polynomial_decay --reset-lr-scheduler \
    --warmup-updates $LAST_CONSTANT --total-num-update $LAST_TOTAL

say "fourth to sixth part: half as many units more, and less and less dropout"
WIDE=384
once "$OUT/wide.pt" tool docs_en_fr.widen "$OUT/third/model.pt" $WIDE
wider() { # START UPDATES DROPOUT RATE MODEL
    train "$OUT/text_all" "$2" --hidden-size $WIDE --alignment-size $WIDE --dropout "$3" --readout-dropout "$3" --lr "$4" \
        --max-tokens 5000 --update-freq 2 --finetune-from-model "$1" --lr-scheduler polynomial_decay --warmup-updates 200 \
        --total-num-update "$2" --keep-interval-updates 4 "$5"
}
mean() { # FOLDER UPDATES UPDATES OUT: the mean of the checkpoints after these updates and of the last one
    tool multi30k_en_fr.average "$1"/checkpoints/checkpoint_*_{"$2","$3"}.pt "$1/checkpoints/checkpoint_last.pt" --output "$4"
}
once "$OUT/fourth/model.pt" wider "$OUT/wide.pt" 3300 0.1 0.0025
once "$OUT/fourth/mean.pt" mean "$OUT/fourth" 2500 3000
once "$OUT/fifth/model.pt" wider "$OUT/fourth/mean.pt" 3000 0.05 0.0025
once "$OUT/fifth/mean.pt" mean "$OUT/fifth" 2000 2500
once "$OUT/sixth/model.pt" wider "$OUT/fifth/mean.pt" 3300 0.05 0.003
once "$OUT/sixth/mean.pt" mean "$OUT/sixth" 2500 3000
both() { tool multi30k_en_fr.average "$OUT/fifth/mean.pt" "$OUT/sixth/mean.pt" --output "$1"; }
once "$OUT/both.pt" both
once "$OUT/model" rnnsearch export "$OUT/both.pt" --half --beam 6 --lenpen 2 \
    --examples "$ROOT/recipes/docs_en_fr/examples.en" --card "$ROOT/recipes/docs_en_fr/card.md" --output

say "translating 30 sentences of manuals, guides and release notes"
translate() { rnnsearch translate "$1" --model "$OUT/model" --output "$2"; }
once "$OUT/sentences.fr" translate "$ROOT/recipes/docs_en_fr/sentences.en"
for name in datalab bookshelf penpot elixir-school elgg twlight test fpm-docs warehouse picard wagtail cloudstack; do
    say "$name: BLEU of its translated messages, and of its English messages as they are"
    once "$OUT/$name.fr" translate "$OUT/raw/$name.en"
    for text in "$OUT/$name.fr" "$OUT/raw/$name.en"; do
        sacrebleu "$OUT/raw/$name.fr" -i "$text" -m bleu chrf -w 2 -f text
    done
done
show_model "$OUT/model"
