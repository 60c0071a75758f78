#!/usr/bin/env bash
# Reproduce every table and figure of the first paper on your own corpus: train RNNencdec-30, RNNsearch-30, RNNencdec-50,
# RNNsearch-50 and RNNsearch-50⋆ (RNNsearch-50, trained until the development score stops improving), translate the test
# set with each, and write one report.
#
#   recipes/reproduce/run.sh --data DIR --src en --trg fr [OPTION VALUE]... [-- OPTIONS OF fairseq-train]
#
# --data       folder with {train,valid,test}.LANGUAGE, one sentence a line
# --src, --trg source and target language
# --out        output folder (default: runs/reproduce); an interrupted run is resumed there. Tokenised translations of the
#              test set by other systems can be added as OUT/runs/others/NAME
# --models     models to train, separated by commas (default: RNNencdec-30,RNNsearch-30,RNNencdec-50,RNNsearch-50,
#              RNNsearch-50-long); the report covers all models in OUT
# --budget     updates of RNNsearch-30 and -50 (default: 300,000, about the paper's); RNNsearch-50⋆ continues from there.
#              RNNencdec-30 makes 1.8 times as many and RNNencdec-50 2.1 times, as in the paper's Table 2
# --interval   updates between checkpoints (default: 1,000); these and the ends of epochs are validated
# --patience   RNNsearch-50⋆ stops after this many checkpoints without a better development score (default: 10)
# --arch       architecture of RNNsearch, with the sizes (default: groundhog_search, the system of the paper's Table 1;
#              bahdanau_gru is that of its appendix); RNNencdec is the same with --context last
# --words      words of the shortlists (default: 30,000)
# --bpe        number of BPE merges, instead of shortlists (default: 0, whole words)
# --rare       training pairs whose alignments give the dictionary that replaces unknown words in the last RNNsearch's
#              translations (default: 100,000; 0: keep unknown words)
# --train, --valid, --test   other names of the files
# --tokens     DIR: in place of --data, a folder of tokenised text; test.align may hold gold alignments of the test set
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
set -- "${REST[@]}"
[ -n "$SRC" ] && [ -n "$TRG" ] || die "--src and --trg are needed: the languages, as in train.en and train.fr"
[ -n "$DATA" ] || [ -n "$TOKENS" ] || die "--data is needed: a folder with $TRAIN.$SRC, $TRAIN.$TRG and so on"
at_least_one BUDGET INTERVAL PATIENCE WORDS LONG
for number in BPE RARE; do
    [[ ${!number} =~ ^[0-9]+$ ]] || die "--${number,,} is ${!number}; give a number, or 0"
done
declare -A MODEL=(
    [RNNencdec-30]='--context last --max-words 30'
    [RNNsearch-30]='--context attention --max-words 30'
    [RNNencdec-50]='--context last --max-words 50'
    [RNNsearch-50]='--context attention --max-words 50'
    [RNNsearch-50-long]='--context attention --max-words 50'
)
declare -A UPDATES=([RNNencdec-30]=$((BUDGET * 18 / 10)) [RNNencdec-50]=$((BUDGET * 21 / 10)))
for model in ${MODELS//,/ }; do
    [ -n "${MODEL[$model]-}" ] || die "--models: $model is none of ${!MODEL[*]}"
done

own_folder "$OUT" reproduce multi30k_reproduce wmt14_en_fr
set_up
RUNS=$OUT/runs
mkdir -p "$RUNS/data"
prepare_data() {
    local side part types=$((WORDS + 4)) # including fairseq's four symbols
    say "preparing text: Moses tokens, shuffled once; dictionaries of $WORDS words"
    rm -rf "$OUT/text"
    mkdir -p "$OUT/text"
    if [ -n "$TOKENS" ]; then
        for side in "$SRC" "$TRG"; do
            for part in "train $TRAIN" "valid $VALID" "test $TEST"; do
                cp "$TOKENS/${part#* }.$side" "$OUT/text/${part% *}.$side"
            done
        done
        copy_record "$TOKENS" "$OUT/text"
        if [ -f "$TOKENS/$TEST.align" ]; then cp "$TOKENS/$TEST.align" "$RUNS/data/test.align"; fi
    else
        rnnsearch prepare "$DATA" "$OUT/text" -s "$SRC" -t "$TRG" \
            --train "$TRAIN" --valid "$VALID" --test "$TEST" --bpe "$BPE" --shuffle 1
    fi
    fairseq-preprocess --user-dir "$USER_DIR" -s "$SRC" -t "$TRG" --destdir "$OUT/bin" --workers 2 \
        --nwordssrc "$types" --nwordstgt "$types" \
        --trainpref "$OUT/text/train" --validpref "$OUT/text/valid" --testpref "$OUT/text/test" > "$OUT/preprocess.log" 2>&1 ||
        die_of_log "$OUT/preprocess.log" fairseq-preprocess
    copy_record "$OUT/text" "$OUT/bin"
    cp "$OUT"/bin/dict.*.txt "$OUT/text/test.$SRC" "$OUT/text/test.$TRG" "$RUNS/data"
}
once "$OUT/bin" prepare_data

train() { # MODEL GOAL OPTIONS...: train up to the GOAL, from the last checkpoint
    local run=$RUNS/$1 goal=$2
    [ "$(cat "$run/.trained" 2>/dev/null)" = "$goal" ] && return
    say "training $1 ($goal); full log in $run/train.log"
    rm -f "$run/.trained" "$run"/{generate.out,nounk.out,fairseq.out,score.jsonl,rare-*.jsonl} "$RUNS/others/${1/-long/⋆}, rare words "*
    fairseq-train "$OUT/bin" --user-dir "$USER_DIR" -s "$SRC" -t "$TRG" --arch "$ARCH" \
        --task rnnsearch --pool-batches 20 --batch-size 80 --criterion summed_nll --optimizer adadelta --clip-norm 1 \
        --distributed-world-size 1 \
        --save-interval-updates "$INTERVAL" --keep-interval-updates 1 --no-epoch-checkpoints \
        --save-dir "$run/checkpoints" --log-format simple --log-interval 100 "${@:3}" 2>&1 |
        show_progress "$run/train.log" "$1" || die_of_log "$run/train.log" fairseq-train
    echo "$goal" > "$run/.trained"
}

translate() { # MODEL NAME OPTIONS...: translate the test set to MODEL/NAME.out
    local run=$RUNS/$1 name=$2
    [ -f "$run/$name.out" ] && return
    say "translating the test set by $1: $name"
    fairseq-generate "$OUT/bin" --user-dir "$USER_DIR" --task rnnsearch -s "$SRC" -t "$TRG" \
        --path "$run/checkpoints/checkpoint_best.pt" --beam 12 --batch-size 32 "${@:3}" \
        > "$run/$name.part" 2> "$run/$name.log" || die_of_log "$run/$name.log" fairseq-generate
    mv "$run/$name.part" "$run/$name.out"
}

score() { # MODEL TEXT NAME: write the model's alignments of the pairs in TEXT to MODEL/NAME.jsonl
    local run=$RUNS/$1
    [ -f "$run/$3.jsonl" ] && return
    rnnsearch score --model "$run/checkpoints/checkpoint_best.pt" --prepared \
        "$2.$SRC" "$2.$TRG" --output "$run/$3.jsonl" 2> "$run/$3.log" || die_of_log "$run/$3.log" "rnnsearch score"
}

replace_unknown() { # MODEL: replace unknown words by source words, and by dictionary entries, as two further systems
    local run=$RUNS/$1 text=$OUT/text/rare-$RARE name=${1/-long/⋆}
    say "replacing unknown words in the translations by $1"
    mkdir -p "$RUNS/others"
    for side in "$SRC" "$TRG"; do head -n "$RARE" "$OUT/text/train.$side" > "$text.$side"; done
    score "$1" "$text" "rare-$RARE"
    tool reproduce.unknown_words learn "$run/rare-$RARE.jsonl" --source "$text.$SRC" --target "$text.$TRG" \
        --output "$run/dictionary"
    tool reproduce.unknown_words replace "$run/generate.out" --source "$OUT/text/test.$SRC" \
        --output "$RUNS/others/$name, rare words copied"
    tool reproduce.unknown_words replace "$run/generate.out" --source "$OUT/text/test.$SRC" \
        --dictionary "$run/dictionary" --output "$RUNS/others/$name, rare words looked up"
}

ORIGINAL=(--search groundhog --unnormalized)
for model in ${MODELS//,/ }; do
    run=$RUNS/$model updates=${UPDATES[$model]-$BUDGET}
    # shellcheck disable=SC2206  # options are several words
    options=(${MODEL[$model]} "${@/#BUDGET/$updates}")
    mkdir -p "$run"
    exec {busy}> "$run/.lock" # fairseq-train inherits the lock, in case it outlives this script
    flock --timeout 30 "$busy" || die "$run is being trained; wait for it, or stop it"
    if [ "$model" = RNNsearch-50-long ]; then
        if [ ! -f "$run/.begun" ] && [ -f "$RUNS/RNNsearch-50/.trained" ]; then
            rm -rf "$run/checkpoints"
            cp -r "$RUNS/RNNsearch-50"/{checkpoints,train.log} "$run"
        fi
        touch "$run/.begun"
        train "$model" "$PATIENCE checkpoints without a better one" --patience "$PATIENCE" "${options[@]}"
    else
        train "$model" "$updates updates" --max-update "$updates" "${options[@]}"
    fi
    alignment=--print-alignment=soft
    if [[ $model = RNNencdec-* ]]; then alignment=; fi
    translate "$model" generate "${ORIGINAL[@]}" $alignment
    translate "$model" nounk "${ORIGINAL[@]}" --unkpen inf
    translate "$model" fairseq
    if [ -n "$alignment" ]; then
        score "$model" "$OUT/text/test" score
        last=$model
    fi
    exec {busy}>&-
done
if [ -n "${last-}" ] && [ "$BPE" = 0 ] && [ "$RARE" != 0 ]; then replace_unknown "$last"; fi

say "the paper's tables and figures"
tool reproduce.report "$RUNS" -s "$SRC" -t "$TRG" --long "$LONG" ${LONGEST:+--longest "$LONGEST"} --output "$OUT/report"
show_model "$RUNS/${last-$model}/checkpoints/checkpoint_best.pt" --beam 12
