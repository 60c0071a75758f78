#!/usr/bin/env bash
# Prepare the training data from ASPEC-JE; run.sh sources this. English words and trees are Enju's. Japanese is prepared as
# WAT does, before and after KyTea (aspec.py).
#
#   recipes/aspec_en_ja/data.sh --data DIR [--out DIR] [--small]
#
# --data   the folder ASPEC-JE (train/train-1.txt, ..., dev/dev.txt, test/test.txt), licensed by NICT and JST:
#          https://jipsti.jst.go.jp/aspec/ It may also hold these files, with line N for the Nth pair:
#            {train,dev,test}.xml   output of enju -xml for the English side; without it, enju must be on the PATH
#            {train,dev,test}.ja    tokens of the Japanese side; without it, kytea must be on the PATH
#            jp-0.4.2-utf8-1.mod    the model of KyTea that WAT names; without it, kytea takes its own
# --out    output folder (default: runs/aspec_en_ja, runs/aspec_en_ja_small); an interrupted run is resumed there
# --small  the paper's small setting: the first 100,000 pairs that are parsed and have at most 50 words on each side, and
#          words seen twice (otherwise all such of the first 1,500,000 pairs, and words seen five times)
#
# It sets OUT and SMALL, and writes text, lengths and bin to $OUT.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

DATA= OUT= SMALL= PAIRS=1500000 SEEN=5 LIMITS=(--max-words 50)
parse_options "data= out= small" "$@"
if [ -n "$SMALL" ]; then SMALL=_small PAIRS=120000 SEEN=2 LIMITS+=(--pairs 100000); fi
[ -n "$DATA" ] || die "give the folder ASPEC-JE: $0 --data DIR"
OUT=${OUT:-$ROOT/runs/aspec_en_ja$SMALL}
own_folder "$OUT" aspec_en_ja
set_up
mkdir -p "$OUT"/{parses,normalized,kytea,words,text}

lines() { wc -l < "$1"; }

first_lines() { # FILE RAW OUTPUT: the first lines of FILE, as many as RAW has; FILE may hold more
    [ "$(lines "$1")" -ge "$(lines "$2")" ] || die "$1 has $(lines "$1") lines for $(lines "$2") pairs; give one a pair"
    head -n "$(lines "$2")" "$1" > "$3.part"
    mv "$3.part" "$3"
}

convert() { # PROGRAM RAW OUTPUT COMMAND...: write the output of COMMAND for RAW, one line for each, to OUTPUT
    command -v "$1" > /dev/null || die "$1 is not on the PATH, and $DATA has no $(basename "$3"); install $1 or give that file"
    say "$1: $3"
    "${@:4}" < "$2" > "$3.part" 2> "$3.log" || die_of_log "$3.log" "$1"
    [ "$(lines "$3.part")" = "$(lines "$2")" ] || die "$1 gave $(lines "$3.part") lines for $(lines "$2"); see $3.log"
    mv "$3.part" "$3"
}

if [ ! -f "$OUT/bin/.done" ]; then
    say "preparing the first $PAIRS pairs; words seen less than $SEEN times are unknown"
    rm -rf "$OUT/bin"
    tool aspec_en_ja.aspec extract "$DATA" "$OUT/raw" --pairs "$PAIRS"
    kytea=(kytea)
    if [ -f "$DATA/jp-0.4.2-utf8-1.mod" ]; then kytea+=(-model "$DATA/jp-0.4.2-utf8-1.mod"); fi
    for part in train dev test; do
        raw=$OUT/raw/$part parses=$OUT/parses/$part.xml words=$OUT/words/$part
        if [ -f "$DATA/$part.xml" ]; then first_lines "$DATA/$part.xml" "$raw.en" "$parses"
        elif [ ! -f "$parses" ]; then convert enju "$raw.en" "$parses" enju -xml
        fi
        if [ -f "$DATA/$part.ja" ]; then first_lines "$DATA/$part.ja" "$raw.ja" "$words.ja"
        elif [ ! -f "$words.ja" ]; then
            tool aspec_en_ja.aspec normalize "$raw.ja" --output "$OUT/normalized/$part.ja"
            convert kytea "$OUT/normalized/$part.ja" "$OUT/kytea/$part.ja" "${kytea[@]}" -out tok
            tool aspec_en_ja.aspec join "$OUT/kytea/$part.ja" --output "$words.ja"
        fi
        tool aspec_en_ja.aspec words "$raw.en" "$parses" --output "$words.en"
        rnnsearch trees "$words.en" "$parses" --format enju --lowercase --output "$words.tree"
    done
    cp "$OUT"/words/{dev,test}.{en,ja,tree} "$OUT/text"
    rnnsearch limit "$OUT/words/train" "$OUT/text/train" -s en -t ja --trees tree "${LIMITS[@]}"
    # How text to translate becomes words: Moses splits English as Enju does, except n't;
    # Japanese must be given in KyTea's words.
    cat > "$OUT/text/preparation.json" << 'END'
{"en": {"tokenizer": "moses", "moses_no_escape": true, "moses_no_dash_splits": true, "lowercase": true}, "ja": {}}
END
    preprocess() {
        fairseq-preprocess --user-dir "$USER_DIR" --destdir "$OUT/bin" --workers 2 --trainpref "$OUT/text/train" \
            --validpref "$OUT/text/dev" --testpref "$OUT/text/test" "$@" >> "$OUT/preprocess.log" 2>&1 ||
            die_of_log "$OUT/preprocess.log" fairseq-preprocess
    }
    preprocess -s en -t ja --thresholdsrc "$SEEN" --thresholdtgt "$SEEN"
    preprocess --only-source -s tree
    rnnsearch lengths "$OUT/text/train.en" "$OUT/text/train.ja" --output "$OUT/lengths"
    copy_record "$OUT/text" "$OUT/bin"
    touch "$OUT/bin/.done"
fi
