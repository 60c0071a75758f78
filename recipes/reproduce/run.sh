#!/usr/bin/env bash
# Reproduce every table and figure of the first paper on your own corpus: train RNNencdec-30, RNNsearch-30, RNNencdec-50,
# RNNsearch-50 and RNNsearch-50⋆ (RNNsearch-50, trained until the development score stops improving), translate the test
# set with each, and write one report.
#
#   recipes/reproduce/run.sh --data DIR --src en --trg fr [OPTION VALUE]... [-- OPTIONS OF fairseq-train]
#
# --data       folder with {train,valid,test}.LANGUAGE, one sentence a line
# --tokens     in place of --data, a folder with {train,valid,test}.LANGUAGE, tokenised; test.align may hold gold alignments of
#              the test set. The binarised text, bin-SRC-TRG-WORDS, is written to it
# --src, --trg source and target language
# --out        output folder (default: runs/reproduce); an interrupted run is resumed there. Tokenised translations of the
#              test set by other systems can be added as OUT/runs/others/NAME
# --models     models to train, separated by commas (default: RNNencdec-30,RNNsearch-30,RNNencdec-50,RNNsearch-50,
#              RNNsearch-50-long); the report has all models in OUT. To train a model anew, remove its folder OUT/runs/NAME
# --budget     updates of RNNsearch-50 (default: 300,000, about the paper's); RNNsearch-50⋆ continues from there. RNNsearch-30
#              makes 1.64 times as many, RNNencdec-50 2.08 times and RNNencdec-30 2.94 times, as in the paper's Table 2
# --interval   updates between checkpoints (default: 1,000); each checkpoint is validated, and so is the end of each epoch
# --patience   RNNsearch-50⋆ stops after this many checkpoints without a better development score (default: 10)
# --arch       architecture of RNNsearch, with the sizes (default: groundhog_search, the system of the paper's Table 1;
#              bahdanau_gru: the system of its appendix); RNNencdec is the same with --context last
# --words      words of the shortlists (default: 30,000)
# --bpe        number of BPE merges, instead of shortlists (default: 0, whole words)
# --rare       training pairs whose alignments give the dictionary that replaces unknown words in the last RNNsearch's
#              translations (default: 100,000; 0: keep unknown words)
# --train, --valid, --test   other names of the files in --data
# --long       words of a long sentence (default: 30)
# --longest    sentences of more words than this make one bin of Figure 2 (default: bins of ten words to the end)
#
# Training follows the paper (Section 4.2), on one GPU if there is one. Options of fairseq-train apply to all models; the
# word BUDGET in them stands for the number of updates of each. The test set is translated by the original program's search
# (--search groundhog --unnormalized), with and without unknown words, and by fairseq's own.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

DATA= TOKENS= SRC= TRG= OUT=$ROOT/runs/reproduce BUDGET=300000 INTERVAL=1000 PATIENCE=10 ARCH=groundhog_search WORDS=30000 BPE=0 RARE=100000
MODELS=RNNencdec-30,RNNsearch-30,RNNencdec-50,RNNsearch-50,RNNsearch-50-long TRAIN=train VALID=valid TEST=test LONG=30 LONGEST=
parse_options "data= tokens= src= trg= out= models= budget= interval= patience= arch= words= bpe= rare= train= valid= test= \
long= longest= --" "$@"
[ -n "$SRC" ] && [ -n "$TRG" ] || die "--src and --trg are needed: the languages, as in train.en and train.fr"
[ -n "$DATA" ] || [ -n "$TOKENS" ] || die "--data is needed: a folder with $TRAIN.$SRC, $TRAIN.$TRG and so on"
set_up
TEXT=$OUT/text RUNS=$OUT/runs ORIGINAL=(--search groundhog --unnormalized) DEVICE=()
if has_gpu; then DEVICE=(--device cuda); fi

say "preparing text: Moses tokens, shuffled once; dictionaries of $WORDS words"
if [ -n "$TOKENS" ]; then
    once "$TEXT" ln -s "$(realpath "$TOKENS")"
else
    prepare() { # FOLDER
        prepare_text "$DATA" "$1" -s "$SRC" -t "$TRG" --train "$TRAIN" --valid "$VALID" --test "$TEST" --bpe "$BPE" --shuffle 1
    }
    once "$TEXT" prepare
fi
BIN=$TEXT/bin-$SRC-$TRG-$WORDS types=$((WORDS + 4)) # including fairseq's four symbols
once "$BIN" binarise "$TEXT" -s "$SRC" -t "$TRG" --nwordssrc "$types" --nwordstgt "$types"
mkdir -p "$RUNS/data" "$RUNS/others"
cp "$BIN"/dict.*.txt "$TEXT/test.$SRC" "$TEXT/test.$TRG" "$RUNS/data"
if [ -f "$TEXT/test.align" ]; then cp "$TEXT/test.align" "$RUNS/data"; fi

train() { # NAME TOTAL OPTIONS... MODEL: train up to TOTAL updates; "": nobody knows how many it will be
    local run=$RUNS/$1
    say "training $1; full log in $run/train.log"
    fairseq-train "$BIN" --user-dir "$USER_DIR" -s "$SRC" -t "$TRG" --arch "$ARCH" \
        --task rnnsearch --pool-batches 20 --batch-size 80 --criterion summed_nll --optimizer adadelta --clip-norm 1 \
        --distributed-world-size 1 \
        --save-interval-updates "$INTERVAL" --keep-interval-updates 1 --no-epoch-checkpoints \
        --save-dir "$run/checkpoints" --log-format json --log-interval 100 "${@:3:$#-3}" 2>&1 |
        rnnsearch progress "$run/train.log" ${2:+"$2"} --name "$1" || die_of_log "$run/train.log" fairseq-train
    cp "$run/checkpoints/checkpoint_best.pt" "${!#}"
}

continue_training() { # RUN FOLDER: begin FOLDER with the checkpoints of RUN
    mkdir -p "$2"
    cp -r "$1"/{checkpoints,train.log} "$2"
}

translate() { # NAME OUTPUT OPTIONS...: translate the test set
    [ ! -f "$2" ] || return 0
    say "translating the test set with $1: ${2##*/}"
    rnnsearch translate "$TEXT/test.$SRC" --prepared --model "$RUNS/$1/model.pt" "${DEVICE[@]}" --beam 12 "${@:3}" \
        --output "$2" 2> "$RUNS/$1/translate.log" || die_of_log "$RUNS/$1/translate.log" "rnnsearch translate"
}

score() { # NAME TEXT OUTPUT: write the model's alignments of the pairs in TEXT
    [ ! -f "$3" ] || return 0
    rnnsearch score --model "$RUNS/$1/model.pt" "${DEVICE[@]}" --prepared "$2.$SRC" "$2.$TRG" --output "$3" \
        2> "$RUNS/$1/score.log" || die_of_log "$RUNS/$1/score.log" "rnnsearch score"
}

for model in ${MODELS//,/ }; do
    updates=$BUDGET length=${model#*-}
    case $model in
        RNNencdec-30) updates=$((BUDGET * 294 / 100)) ;;
        RNNencdec-50) updates=$((BUDGET * 208 / 100)) ;;
        RNNsearch-30) updates=$((BUDGET * 164 / 100)) ;;
        RNNsearch-50 | RNNsearch-50-long) ;;
        *) die "--models: $model is no model of the paper; see $0 --help" ;;
    esac
    total=$updates options=(--context attention --max-words "${length%-long}" --max-update "$updates")
    if [[ $model = RNNencdec-* ]]; then options[1]=last; fi
    if [[ $model = *-long ]]; then
        total= options[4]=--patience options[5]=$PATIENCE
        if [ -f "$RUNS/RNNsearch-50/model.pt" ]; then once "$RUNS/$model" continue_training "$RUNS/RNNsearch-50"; fi
    fi
    run=$RUNS/$model
    once "$run/model.pt" train "$model" "$total" "${options[@]}" "${REST[@]/#BUDGET/$updates}"
    alignments=()
    if [[ $model = RNNsearch-* ]]; then
        alignments=(--alignments "$run/groundhog.jsonl") last=$model
        score "$model" "$TEXT/test" "$run/score.jsonl"
    fi
    translate "$model" "$run/groundhog.tok" "${ORIGINAL[@]}" "${alignments[@]}"
    translate "$model" "$run/nounk.tok" "${ORIGINAL[@]}" --unkpen inf
    translate "$model" "$run/fairseq.tok"
done

if [ -n "${last-}" ] && [ "$BPE" = 0 ] && [ "$RARE" != 0 ]; then
    say "replacing unknown words in the translations of $last"
    run=$RUNS/$last rare=$RUNS/others/${last/-long/⋆}
    for side in "$SRC" "$TRG"; do head -n "$RARE" "$TEXT/train.$side" > "$run/rare.$side"; done
    score "$last" "$run/rare" "$run/rare.jsonl"
    tool reproduce.unknown_words "$run/rare.jsonl" "$run/rare.$SRC" "$run/rare.$TRG" "$run/dictionary"
    translate "$last" "$rare, rare words copied" "${ORIGINAL[@]}" --replace-unknown
    translate "$last" "$rare, rare words looked up" "${ORIGINAL[@]}" --replace-unknown "$run/dictionary"
fi

say "the paper's tables and figures"
tool reproduce.report "$RUNS" -s "$SRC" -t "$TRG" --long "$LONG" ${LONGEST:+--longest "$LONGEST"} --output "$OUT/report"
show_model "$RUNS/${last-$model}/model.pt" --beam 12
