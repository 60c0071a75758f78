#!/usr/bin/env bash
# Train RNNsearch on Multi30k English-French as one trains today: two models and their ensemble, beside each other on
# two cores. Print sacrebleu of lowercased tokens on test_2016_flickr, as published for Transformer-Tiny, and its signature.
#
#   recipes/multi30k_en_fr/best.sh --data DIR [--compare] [--ablate] [--jobs N] [--out DIR]
#
# --data     folder with the corpus's own lowercased, normalised, tokenised files {train,val,test_2016_flickr}.{en,fr}
# --compare  also train fairseq's lstm and its transformer at Transformer-Tiny's size: each with its usual settings,
#            and with those of RNNsearch; draw the BLEU of the development set against time in OUT/curve.png
# --ablate   also train RNNsearch for a quarter of the updates: whole, and without each ingredient (development set only)
# --jobs     models to train at a time, each on one core (default: 2)
# --out      output folder (default: runs/multi30k_best); an interrupted run is resumed there
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

DATA= COMPARE= ABLATE= JOBS=2 OUT=$ROOT/runs/multi30k_best
parse_options "data= compare ablate jobs= out=" "$@"
[ -n "$DATA" ] || die "--data DIR is needed: the folder of the corpus's tokenised files; see $0 --help"
at_least_one JOBS
own_folder "$OUT" multi30k_best
set_up
export DATA OUT USER_DIR ROOT OMP_NUM_THREADS=1

UPDATES=9500 # of 1,900 words; 50 to 100 minutes of one core that multiplies bfloat16
INGREDIENTS="previous-word sharing word-dropout smoothing weight-decay average lenpen"
AFTER_TRAINING="average lenpen"
# Keep freed memory: otherwise fairseq's transformer spends a quarter of its time on new pages.
export MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=17179869184

prepare() { # write text of 10,000 merges to $OUT/text, and $OUT/bin
    local text=$OUT/text
    say "splitting words by 10,000 BPE merges"
    rm -rf "$text"
    rnnsearch prepare "$DATA" "$text" -s en -t fr --valid val --test test_2016_flickr --tokenized --bpe 10000 \
        > "$OUT/prepare.log" 2>&1 || die_of_log "$OUT/prepare.log" "rnnsearch prepare"
    fairseq-preprocess --user-dir "$USER_DIR" -s en -t fr --joined-dictionary --workers 2 --destdir "$OUT/bin" \
        --trainpref "$text/train" --validpref "$text/valid" --testpref "$text/test" > "$OUT/preprocess.log" 2>&1 ||
        die_of_log "$OUT/preprocess.log" fairseq-preprocess
    copy_record "$text" "$OUT/bin"
}

model_options() { # MODEL: fairseq-train's options that are no ingredient; "-published": all of its options
    local tiny="--arch transformer_tiny --dropout 0.3" side
    for side in encoder decoder; do
        tiny+=" --$side-layers 4 --$side-embed-dim 128 --$side-ffn-embed-dim 256 --$side-attention-heads 4"
    done
    tiny+=" --optimizer adam --adam-betas (0.9,0.98) --lr-scheduler inverse_sqrt --warmup-init-lr 1e-7"
    tiny+=" --warmup-updates 2000 --lr 0.005 --max-tokens 4096"
    local falling="--optimizer adam --adam-betas (0.9,0.98) --clip-norm 1 --lr-scheduler polynomial_decay"
    falling+=" --warmup-updates 400 --max-tokens 2048"
    local lstm="--arch lstm --encoder-bidirectional --dropout 0.3 --encoder-embed-dim 256 --encoder-hidden-size 256"
    lstm+=" --decoder-embed-dim 256 --decoder-hidden-size 256 --decoder-out-embed-dim 256 $falling --lr 0.008"
    case $1 in
        rnnsearch)
            echo "--arch bahdanau_gru_small --dropout 0.4 --readout-dropout 0.4 $falling --lr 0.008"
            ;;
        lstm) echo "$lstm" ;;
        lstm-published) echo "$lstm --criterion label_smoothed_cross_entropy --label-smoothing 0.1" ;;
        tiny) echo "$tiny" ;;
        tiny-published)
            echo "$tiny --share-all-embeddings --patience 10 --criterion label_smoothed_cross_entropy --label-smoothing 0.1"
            ;;
    esac
}

ingredient_options() { # MODEL INGREDIENTS...: the options of the ingredients that apply to the model
    local model=$1 ingredient
    if [ "$model" = rnnsearch ]; then echo --criterion smoothed_nll; else echo --criterion label_smoothed_cross_entropy; fi
    shift
    for ingredient in "$@"; do
        case $ingredient in
            previous-word) [ "$model" != rnnsearch ] || echo --update-word current ;;
            sharing) echo --share-all-embeddings ;;
            smoothing) echo --label-smoothing 0.1 ;;
            weight-decay) echo --weight-decay 0.05 ;;
            word-dropout) [ "$model" != rnnsearch ] || echo --word-dropout 0.1 ;;
        esac
    done
}

has() { [[ " ${*:2} " = *" $1 "* ]]; } # WORD WORDS...

train() { # NAME SEED UPDATES MODEL INGREDIENTS...: train $OUT/models/NAME; average its last ten checkpoints
    set -euo pipefail
    local name=$1 folder=$OUT/models/$1 seed=$2 updates=$3 model=$4 options
    shift 4
    [ ! -f "$folder/model.pt" ] || return 0
    mkdir -p "$folder"
    options=$(model_options "$model")
    case $model in
        *-published) options+=" --keep-last-epochs 10" ;;
        *)
            options+=" $(ingredient_options "$model" "$@")"
            # Save and validate at updates only: an epoch of the ablation's budget is long.
            options+=" --save-interval 1000 --validate-interval 1000"
            options+=" --save-interval-updates $((updates / 40)) --keep-interval-updates 10"
            ;;
    esac
    [[ $options != *polynomial_decay* ]] || options+=" --total-num-update $updates"
    [[ $model != rnnsearch ]] || options+=" $(fast_precision)" # fairseq takes --bf16 for --tpu with its own models
    say "training $name"
    local TIMEFORMAT="%U %S"
    # shellcheck disable=SC2086  # the options are words
    { time fairseq-train "$OUT/bin" --user-dir "$USER_DIR" --task rnnsearch -s en -t fr $options --seed "$seed" --max-update "$updates" \
        --eval-bleu --eval-bleu-args '{"beam": 1}' --eval-tokenized-bleu --eval-bleu-remove-bpe \
        --save-dir "$folder" --log-format simple --log-interval 100 2>&1; } 2>> "$folder/seconds" |
        show_progress "$folder/train.log" "$name" || die_of_log "$folder/train.log" fairseq-train
    # shellcheck disable=SC2012  # fairseq's names have no line ends
    ls -v "$folder"/checkpoint*[0-9].pt | tail -10 | xargs -d '\n' rnnsearch average --output "$folder/model.part"
    cp "$folder/checkpoint_last.pt" "$folder/last.pt"
    mv "$folder/model.part" "$folder/model.pt"
    rm "$folder"/checkpoint*.pt
}

translate() { # CHECKPOINTS SUBSET LENPEN OUT: write the tokens of the translations to OUT
    fairseq-generate "$OUT/bin" --user-dir "$USER_DIR" --task rnnsearch -s en -t fr --path "$1" \
        --gen-subset "$2" --beam 5 --lenpen "$3" --batch-size 64 --post-process subword_nmt > "$4.out" 2> "$4.log" || die_of_log "$4.log" fairseq-generate
    translations "$4.out" > "$4.part"
    mv "$4.part" "$4"
    rm "$4.out" "$4.log"
}

bleu() { # REFERENCE TRANSLATIONS OPTIONS...
    sacrebleu "$DATA/$1.fr" -i "$2" --tokenize none --force -w 2 "${@:3}"
}

choose_length_penalty() { # CHECKPOINTS FOLDER INGREDIENTS...: write the best on the development set to FOLDER/lenpen
    local penalties=1 penalty
    if has lenpen "${@:3}"; then penalties="0.6 0.8 1 1.2 1.4 1.6"; fi
    for penalty in $penalties; do
        [ -f "$2/val.$penalty" ] || translate "$1" valid "$penalty" "$2/val.$penalty"
        echo "$(bleu val "$2/val.$penalty" --score-only) $penalty"
    done | sort -rn | head -1 > "$2/lenpen.part"
    mv "$2/lenpen.part" "$2/lenpen"
}

perplexity() { # CHECKPOINT SUBSET
    local log=${1%.pt}.$2.log
    fairseq-validate "$OUT/bin" --user-dir "$USER_DIR" --task translation -s en -t fr --path "$1" --valid-subset "$2" \
        --batch-size 64 > "$log" 2>&1 || die_of_log "$log" fairseq-validate
    sed -nE 's/.* \| ppl ([0-9.]+).*/\1/p' "$log" | tail -1
}

checkpoints_of() { # NAMES: the checkpoints of the models, with colons between
    local name
    for name in $1; do echo "$OUT/models/$name/model.pt"; done | paste -sd:
}

folder_of() { echo "$OUT/models/${1// /+}"; } # NAMES: the folder of the model's translations, or the ensemble's

row() { # TABLE LABEL NAMES INGREDIENTS...: add the model of that name, or the ensemble of several, to a table
    local table=$1 label=$2 names=$3 name folder checkpoints development penalty
    local parameters hours perplexity=- score= subset=test
    folder=$(folder_of "$names") checkpoints=$(checkpoints_of "$names")
    shift 3
    if [ "$table" = ablation ]; then subset=valid; fi
    mkdir -p "$folder"
    [ -f "$folder/lenpen" ] || choose_length_penalty "$checkpoints" "$folder" "$@"
    read -r development penalty < "$folder/lenpen"
    if [ $subset = test ]; then
        [ -f "$folder/test" ] || translate "$checkpoints" test "$penalty" "$folder/test"
        score=$(bleu test_2016_flickr "$folder/test" --confidence --format text |
            sed -nE 's/.* = ([0-9.]+) \(μ = ([0-9.]+) ± ([0-9.]+)\).*/ \1 | ± \3 |/p')
    fi
    [[ $names = *" "* ]] || perplexity=$(perplexity "$checkpoints" $subset)
    parameters=$(for name in $names; do
        sed -nE 's/.*num\. shared model params: ([0-9,]+) .*/\1/p' "$OUT/models/$name/train.log" | head -1 | tr -d ,
    done | awk '{ sum += $1 } END { printf "%.2f", sum / 1e6 }')
    hours=$(for name in $names; do cat "$OUT/models/$name/seconds"; done | awk '{ sum += $1 + $2 } END { printf "%.1f", sum / 3600 }')
    echo "| $label | $parameters | $hours | $perplexity | $penalty | $development |$score" >> "$OUT/$table.md"
}

export -f say die die_of_log show_progress model_options ingredient_options fast_precision has train

once "$OUT/bin" prepare

{
    for seed in 1 2; do echo "rnnsearch-$seed $seed $UPDATES rnnsearch $INGREDIENTS"; done
    if [ -n "$COMPARE" ]; then
        echo "lstm-published 1 $UPDATES lstm-published average lenpen"
        for seed in 1 2; do
            echo "tiny-published-$seed $seed 8000 tiny-published average lenpen"
            echo "lstm-$seed $seed $UPDATES lstm $INGREDIENTS"
        done
        echo "tiny 1 8000 tiny $INGREDIENTS"
    fi
    if [ -n "$ABLATE" ]; then
        echo "quarter 1 $((UPDATES / 4)) rnnsearch $INGREDIENTS"
        for ingredient in $INGREDIENTS; do
            has "$ingredient" $AFTER_TRAINING ||
                echo "quarter-without-$ingredient 1 $((UPDATES / 4)) rnnsearch ${INGREDIENTS/$ingredient/}"
        done
    fi
} | each_line "$JOBS" train

say "translating with a beam of 5; the length penalty is the development set's best"
heads='million parameters | CPU hours | perplexity | length penalty | BLEU val'
printf '| model | %s | BLEU test | 95 %% |\n|---|---|---|---|---|---|---|---|\n' "$heads" > "$OUT/results.md"
ensemble="rnnsearch-1 rnnsearch-2"
for name in $ensemble; do row results "RNNsearch, seed ${name#*-}" "$name" $INGREDIENTS; done
row results "RNNsearch, ensemble of the two" "$ensemble" $INGREDIENTS
if [ -n "$COMPARE" ]; then
    row results "fairseq's lstm, usual settings" lstm-published average lenpen
    for seed in 1 2; do row results "fairseq's lstm, these ingredients, seed $seed" "lstm-$seed" $INGREDIENTS; done
    for seed in 1 2; do
        row results "fairseq's transformer, published settings, seed $seed" "tiny-published-$seed" average lenpen
    done
    row results "fairseq's transformer, these ingredients" tiny $INGREDIENTS
    rnnsearch plot curve "$OUT"/models/{rnnsearch-1,lstm-1,tiny-published-1}/train.log \
        --measure bleu --against time --output "$OUT/curve.png"
fi
cat "$OUT/results.md"

if [ -n "$ABLATE" ]; then
    printf '| model | %s |\n|---|---|---|---|---|---|\n' "$heads" > "$OUT/ablation.md"
    row ablation "a quarter of the updates" quarter $INGREDIENTS
    for ingredient in $INGREDIENTS; do
        name=quarter-without-$ingredient
        if has "$ingredient" $AFTER_TRAINING; then
            mkdir -p "$OUT/models/$name"
            ln -sf "../quarter/train.log" "../quarter/seconds" "$OUT/models/$name"
            if [ "$ingredient" = average ]; then model=last; else model=model; fi
            ln -sf "../quarter/$model.pt" "$OUT/models/$name/model.pt"
        fi
        row ablation "without $ingredient" "$name" ${INGREDIENTS/$ingredient/}
    done
    cat "$OUT/ablation.md"
fi

best=$(for name in $ensemble; do echo "$(cat "$(folder_of "$name")/lenpen") $name"; done | sort -rn | head -1 | cut -d' ' -f3)
best=$(folder_of "$best") all=$(folder_of "$ensemble")
say "the best single model on the development set: ${best##*/}"
bleu test_2016_flickr "$best/test" --confidence --format text
say "the ensemble"
bleu test_2016_flickr "$all/test" --confidence --format text
if [ -n "$COMPARE" ]; then
    say "all models, both seeds of each together"
    kept=$OUT/best
    mkdir -p "$kept"
    for name in rnnsearch-{1,2} lstm-published lstm-{1,2} tiny-published-{1,2} tiny; do
        case $name in
            lstm-published) file=lstm-usual ;;
            tiny*) file=${name/tiny/transformer} ;;
            *) file=$name ;;
        esac
        cp "$OUT/models/$name/test" "$kept/$file.fr"
    done
    cp "$all/test" "$kept/rnnsearch-ensemble.fr"
    tool reproduce.compare "$DATA/test_2016_flickr.fr" "RNNsearch=$kept/rnnsearch-1.fr,$kept/rnnsearch-2.fr" \
        "RNNsearch, ensemble=$kept/rnnsearch-ensemble.fr" "lstm, usual settings=$kept/lstm-usual.fr" \
        "lstm=$kept/lstm-1.fr,$kept/lstm-2.fr" "transformer=$kept/transformer.fr" \
        "transformer, published settings=$kept/transformer-published-1.fr,$kept/transformer-published-2.fr" \
        --output "$kept/report.md"
    cat "$kept/report.md"
fi
read -r _ penalty < "$all/lenpen"
show_model "$(checkpoints_of "$ensemble")" --beam 5 --lenpen "$penalty"
