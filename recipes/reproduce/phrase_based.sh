#!/usr/bin/env bash
# Train a phrase-based system, Moses, on the words that models of run.sh were trained on, tune Moses on their development set, and
# translate their test set. Call the recipe that made the folder again: Moses becomes a row of Table 1.
#
#   recipes/reproduce/phrase_based.sh --runs DIR --src en --trg fr --moses DIR
#
# --runs       output folder of run.sh, or of a recipe that calls run.sh, such as runs/multi30k_reproduce
# --src, --trg source and target language
# --moses      folder with Moses in mosesdecoder/ and fast_align in fast_align/, as recipes/reproduce/EVIDENCE.md builds them
#
# The system (Koehn et al., 2007) has the usual settings. fast_align aligns the words in both directions (grow-diag-final-and).
# Phrases have up to 7 words, and jump over at most 6. The model of their order is msd-bidirectional-fe. The language model has
# 5-grams of the target side, with modified Kneser-Ney smoothing. MERT tunes the weights for BLEU on the first 500 development
# pairs. The search is cube pruning with 1,000 hypotheses a stack. Unknown words are copied.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

RUNS= SRC= TRG= MOSES=
parse_options "runs= src= trg= moses=" "$@"
[ -n "$RUNS" ] && [ -n "$SRC" ] && [ -n "$TRG" ] && [ -n "$MOSES" ] || die "--runs, --src, --trg and --moses are needed; see $0 --help"
[ -d "$RUNS/text" ] || die "$RUNS has no text; make it by recipes/reproduce/run.sh"
ALIGN=$(realpath "$MOSES")/fast_align/build MOSES=$(realpath "$MOSES")/mosesdecoder
[ -x "$MOSES/bin/moses" ] && [ -x "$ALIGN/fast_align" ] || die "no $MOSES/bin/moses or no $ALIGN/fast_align; recipes/reproduce/EVIDENCE.md builds them"
RUNS=$(realpath "$RUNS")
OUT=$RUNS/phrase_based THREADS=$(nproc)
DECODER="-search-algorithm 1 -cube-pruning-pop-limit 1000 -stack 1000 -threads $THREADS"
set_up
mkdir -p "$OUT"

step() { # COMMAND...: run a program, with its messages in the log
    local program=$1
    [ "$1" != perl ] || program=$2
    "$@" 2>> "$OUT/log" || die_of_log "$OUT/log" "${program##*/}"
}

words() { # FOLDER: whole words, and names for the characters that Moses gives a meaning, as | and [
    mkdir -p "$1"
    for name in {train,valid,test}.{"$SRC","$TRG"}; do
        sed -E 's/@@( |$)//g' "$RUNS/text/$name" | perl "$MOSES/scripts/tokenizer/escape-special-chars.perl" > "$1/$name" 2>> "$OUT/log"
    done
    step perl "$MOSES/scripts/training/clean-corpus-n.perl" "$1/train" "$SRC" "$TRG" "$1/clean" 1 100 >> "$OUT/log"
    step perl "$MOSES/scripts/training/clean-corpus-n.perl" "$1/valid" "$SRC" "$TRG" "$1/short" 1 100 >> "$OUT/log"
    for side in "$SRC" "$TRG"; do head -n 500 "$1/short.$side" > "$1/tune.$side"; done
}

language_model() { # FILE
    step "$MOSES/bin/lmplz" -o 5 -S 20% --discount_fallback < "$OUT/text/train.$TRG" > "$1.arpa"
    step "$MOSES/bin/build_binary" "$1.arpa" "$1" >> "$OUT/log"
    rm "$1.arpa"
}

alignments() { # FOLDER
    mkdir -p "$1"
    paste -d'\t' "$OUT/text/clean.$SRC" "$OUT/text/clean.$TRG" | sed 's/\t/ ||| /' > "$1/pairs"
    step "$ALIGN/fast_align" -i "$1/pairs" -d -o -v > "$1/forward"
    step "$ALIGN/fast_align" -i "$1/pairs" -d -o -v -r > "$1/backward"
    step "$ALIGN/atools" -i "$1/forward" -j "$1/backward" -c grow-diag-final-and > "$1/aligned.grow-diag-final-and"
}

phrases() { # FOLDER
    mkdir -p "$1/model"
    step perl "$MOSES/scripts/training/train-model.perl" -root-dir "$1" -corpus "$OUT/text/clean" -f "$SRC" -e "$TRG" \
        -first-step 4 -alignment grow-diag-final-and -alignment-file "$OUT/alignments/aligned" \
        -reordering msd-bidirectional-fe -max-phrase-length 7 -lm "0:5:$OUT/lm:8" -external-bin-dir "$ALIGN" -cores "$THREADS" >> "$OUT/log"
    sed -i "s:$1:${1%.part}:" "$1/model/moses.ini"
}

tune() { # FOLDER
    step perl "$MOSES/scripts/training/mert-moses.pl" "$OUT/text/tune.$SRC" "$OUT/text/tune.$TRG" "$MOSES/bin/moses" \
        "$OUT/phrases/model/moses.ini" --working-dir "$1" --mertdir "$MOSES/bin" --decoder-flags "$DECODER" --predictable-seeds \
        --maximum-iterations 10 --threads "$THREADS" >> "$OUT/log"
}

translate() { # FILE
    rm -rf "$OUT/filtered"
    step perl "$MOSES/scripts/training/filter-model-given-input.pl" "$OUT/filtered" "$OUT/tuned/moses.ini" "$OUT/text/test.$SRC" >> "$OUT/log"
    # shellcheck disable=SC2086  # several options
    "$MOSES/bin/moses" -f "$OUT/filtered/moses.ini" $DECODER < "$OUT/text/test.$SRC" 2>> "$OUT/log" |
        perl "$MOSES/scripts/tokenizer/deescape-special-chars.perl" | sed 's/ *$//' > "$1" || die_of_log "$OUT/log" moses
}

say "training; full log in $OUT/log"
once "$OUT/text" words
once "$OUT/lm" language_model
once "$OUT/alignments" alignments
once "$OUT/phrases" phrases
say "tuning"
once "$OUT/tuned" tune
say "translating"
once "$RUNS/runs/others/phrase-based" translate
say "the translations are $RUNS/runs/others/phrase-based; to write the report anew, call the recipe that made $RUNS again"
