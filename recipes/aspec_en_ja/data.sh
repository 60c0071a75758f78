#!/usr/bin/env bash
# Prepare ASPEC-JE for run.sh, which sources this; alone, it stops when the data is ready to train on.
#
#   recipes/aspec_en_ja/data.sh --data DIR [--out DIR] [--small]
#
# --data   the folder ASPEC-JE (train/train-1.txt, ..., dev/dev.txt, test/test.txt), for which NICT and JST give licences:
#          https://jipsti.jst.go.jp/aspec/ What is in it of the following is not made anew, line N for the Nth pair:
#            {train,dev,test}.xml   what enju -xml prints for the English side; else enju must be on the PATH
#            {train,dev,test}.ja    KyTea's tokens of the Japanese side; else kytea must be
# --out    where everything is written (default: runs/aspec_en_ja, runs/aspec_en_ja_small); stopped there, it goes on there
# --small  the paper's small setting, 100,000 pairs and words seen twice; else 1,500,000 pairs and words seen five times
#
# It leaves OUT, SMALL, and in $OUT text, lengths and bin.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

DATA= OUT= SMALL= PAIRS=1500000 SEEN=5
parse_options "data= out= small" "$@"
if [ -n "$SMALL" ]; then SMALL=_small PAIRS=100000 SEEN=2; fi
[ -n "$DATA" ] || die "give the folder ASPEC-JE: $0 --data DIR"
OUT=${OUT:-$ROOT/runs/aspec_en_ja$SMALL}
own_folder "$OUT" aspec_en_ja
set_up
mkdir -p "$OUT/parses" "$OUT/text"

lines() { wc -l < "$1"; }

first_lines() { # FILE RAW OUTPUT: as many of FILE as RAW has, since a user may have parsed more
    [ "$(lines "$1")" -ge "$(lines "$2")" ] || die "$1 has $(lines "$1") lines for $(lines "$2") pairs; give one a pair"
    head -n "$(lines "$2")" "$1" > "$3.part"
    mv "$3.part" "$3"
}

convert() { # PROGRAM RAW OUTPUT COMMAND...: what a program that reads a sentence a line says of RAW
    command -v "$1" > /dev/null || die "$1 is not on the PATH, and $DATA has no $(basename "$3"); install $1 or give that file"
    say "$1: $3"
    "${@:4}" < "$2" > "$3.part" 2> "$3.log" || die_of_log "$3.log" "$1"
    [ "$(lines "$3.part")" = "$(lines "$2")" ] || die "$1 gave $(lines "$3.part") lines for $(lines "$2"); see $3.log"
    mv "$3.part" "$3"
}

if [ ! -f "$OUT/bin/.done" ]; then
    say "preparing the first $PAIRS pairs; words seen less than $SEEN times are unknown"
    rm -rf "$OUT/bin"
    rnnsearch aspec extract "$DATA" "$OUT/raw" --pairs "$PAIRS"
    for part in train dev test; do
        raw=$OUT/raw/$part parses=$OUT/parses/$part.xml tokens=$OUT/text/$part.ja
        if [ -f "$DATA/$part.xml" ]; then first_lines "$DATA/$part.xml" "$raw.en" "$parses"
        elif [ ! -f "$parses" ]; then convert enju "$raw.en" "$parses" enju -xml
        fi
        if [ -f "$DATA/$part.ja" ]; then first_lines "$DATA/$part.ja" "$raw.ja" "$tokens"
        elif [ ! -f "$tokens" ]; then convert kytea "$raw.ja" "$tokens" kytea -out tok
        fi
        text=$OUT/text/$part
        rnnsearch aspec words "$raw.en" "$parses" --output "$text.en"
        rnnsearch trees "$text.en" "$parses" --format enju --lowercase --output "$text.tree"
    done
    # How typed text becomes such words: by Moses, which splits as Enju does but for n't; Japanese comes in KyTea's words.
    rnnsearch record "$OUT/text" en --tokenizer moses --moses-no-escape --moses-no-dash-splits --lowercase
    rnnsearch record "$OUT/text" ja
    preprocess() {
        fairseq-preprocess --user-dir "$USER_DIR" --destdir "$OUT/bin" --workers 2 --trainpref "$OUT/text/train" \
            --validpref "$OUT/text/dev" --testpref "$OUT/text/test" "$@" >> "$OUT/preprocess.log" 2>&1 ||
            die_of_log "$OUT/preprocess.log" fairseq-preprocess
    }
    preprocess -s en -t ja --thresholdsrc "$SEEN" --thresholdtgt "$SEEN"
    preprocess --only-source -s tree
    rnnsearch lengths "$OUT/text/train.en" "$OUT/text/train.ja" --output "$OUT/lengths"
    touch "$OUT/bin/.done"
fi
