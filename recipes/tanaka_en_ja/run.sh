#!/usr/bin/env bash
# Test the second paper's claims, and print its Tables 3, 4 and 5, on the Tanaka corpus, English-Japanese: 4,000 pairs are held
# out as the test set. Three models are trained with three seeds, with softmax and with BlackOut (2,000 negatives): the
# tree-to-sequence model, the sequential model, and the sequential model with the source reversed. The tree-to-sequence model
# without its LSTM, and with 500 negatives, is trained with one seed. A training ends when the learning rate has been halved four
# times (our rule, not the paper's). All searches of Table 4 use the tree-to-sequence models of BlackOut.
#
#   recipes/tanaka_en_ja/run.sh [--data DIR] [--out DIR] [--epochs N] [--jobs N]
#
# --data    folder with {train,dev}.{en,ja} and parses in {train,dev}.tree (Penn brackets; without these files, Link
#           Grammar parses the text); without --data the corpus is downloaded
# --out     output folder (default: runs/tanaka_en_ja); an interrupted run is resumed there
# --epochs  passes over the training pairs at most (default: 24)
# --jobs    models to train at a time (default: 1); on a CPU, give the number of cores, and OMP_NUM_THREADS=1
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

DATA= OUT=$ROOT/runs/tanaka_en_ja EPOCHS=24 JOBS=1
parse_options "data= out= epochs= jobs=" "$@"
set_up
TEXT=$OUT/text

if [ -z "$DATA" ]; then
    DATA=$OUT/raw
    say "downloading 50,500 pairs of the Tanaka corpus to $DATA"
    from=https://raw.githubusercontent.com/odashi/small_parallel_enja/312408a11c5fbcbc09443bebb18121f7efdcd61e
    while read -r digest name; do once "$DATA/$name" download "$from/$name" "$digest"; done << 'END'
148b05dcd28638fe20ee84f2b1127001c80982be352007dda241fb759adadc76 train.en
fc81a1434349ec98a449d7ae9cd2530057f689637684ecfed3501ea6a8a07ecc train.ja
04a2673449770657fd5e3b963cb856be3130923212b6db8ac7eaeef18f06c041 dev.en
cd534f56b8639dc130f86a365e5ec0aa70042000bdd740a622fbbf8b6be4acca dev.ja
END
fi

prepare() { # FOLDER
    local part side column parses
    mkdir "$1"
    for part in train dev; do
        parses=$DATA/$part.tree
        if [ ! -f "$parses" ]; then
            parses=$OUT/parses/$part.tree
            once "$parses" tool trees.parse "$DATA/$part.en" --output
        fi
        tool trees.transitions "$DATA/$part.en" "$parses" --format penn --output "$1/$part.tree"
        cp "$DATA/$part.en" "$DATA/$part.ja" "$1"
    done
    # Before anything is counted; the paper trains on parsed sentences only. Of the 500 development sentences, the 36 without
    # a parse are left out, too: models with trees learn nothing of such sentences, so these must not choose the epoch.
    tool trees.limit "$1/train" "$1/kept" -s en -t ja --trees tree --max-words 50
    tool trees.limit "$1/dev" "$1/valid" -s en -t ja --trees tree --max-words 50
    # The last 4,000 pairs are the test set, and the others, without its English sentences, the training text.
    paste "$1"/kept.{en,ja,tree} > "$1/kept"
    tail -n 4000 "$1/kept" > "$1/test"
    head -n -4000 "$1/kept" | awk -F'\t' 'NR == FNR { held[$1]; next } !($1 in held)' "$1/test" - > "$1/train"
    for part in train test; do
        column=0
        for side in en ja tree; do cut -f $((column += 1)) "$1/$part" > "$1/$part.$side"; done
    done
    rm "$1"/{kept,kept.en,kept.ja,kept.tree,train,test}
    # How text to translate becomes words: English is split by Moses, in lower case; Japanese must be given in words.
    cat > "$1/preparation.json" << 'END'
{"en": {"tokenizer": "moses", "moses_no_escape": true, "moses_no_dash_splits": true, "lowercase": true}, "ja": {}}
END
}
binarise_with_trees() { # BIN
    binarise "$TEXT" -s en -t ja --thresholdsrc 2 --thresholdtgt 2 "$1"
    binarise "$TEXT" --only-source -s tree "$1"
}
say "preparing: transitions of each parse, dictionaries without words that occur once, length statistics"
once "$TEXT" prepare
once "$TEXT/bin" binarise_with_trees
once "$OUT/lengths" tool trees.lengths "$TEXT/train.en" "$TEXT/train.ja" --output

{ # the models that decide the paper's main claim first
    for seed in 1 2 3; do
        for objective in softmax blackout2000; do
            for model in tree2seq anmt anmt_reversed; do echo "$model $objective $seed"; done
        done
    done
    echo "tree2seq blackout500 1"
    for objective in softmax blackout2000; do echo "phrases_only $objective 1"; done
} | xargs -P "$JOBS" -L 1 bash "$ROOT/recipes/tanaka_en_ja/model.sh" "$OUT" "$EPOCHS"

say "the paper's tables, on the test set"
tool reproduce.eriguchi_tables "$OUT/runs" --reference "$TEXT/test.ja" --output "$OUT/tables.md"
cat "$OUT/tables.md"
show_model "$OUT/runs/tree2seq-blackout2000/model.pt" --search tree2seq --beam 20 --max-len-b 100 \
    --length-statistics "$(realpath --relative-base="$ROOT" "$OUT/lengths")"
echo "  # translate takes parses, too: python -m recipes.trees.parse TEXT --output TREES, and --trees TREES"
