#!/usr/bin/env bash
# Test the second paper's main claim on sentences of 8 to 40 words of PHP's manual, English-Japanese. The recipe trains the
# tree-to-sequence model with Link Grammar's parses and, as controls, with right-branching and with random trees. It also trains
# ANMT, the same model without trees. All models are trained with softmax, for the same number of updates. The report has BLEU and
# RIBES, and BLEU by source length.
#
#   recipes/php_en_ja/run.sh --data TABLE [--out DIR] [--epochs N] [--jobs N]
#
# --data    table of English, a tab and Japanese; README.md says how to make it
# --out     output folder (default: runs/php_en_ja); an interrupted run is resumed there
# --epochs  passes over the training pairs (default: 10, after which the learning rate is 0)
# --jobs    models to train at a time (default: 1); on a CPU, give the number of cores, and OMP_NUM_THREADS=1
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

DATA= OUT=$ROOT/runs/php_en_ja EPOCHS=10 JOBS=1
parse_options "data= out= epochs= jobs=" "$@"
[ -n "$DATA" ] || die "give the table: $0 --data TABLE; see $0 --help"
set_up
command -v link-parser > /dev/null || die "link-parser is not on the PATH; install it (Debian: apt-get install link-grammar)"
python -c "import MeCab, ipadic" 2> /dev/null || pip_install --quiet mecab-python3==1.0.12 ipadic==1.0.0
TEXT=$OUT/text

prepare() { # FOLDER: the text with parses, and the same text with right-branching and with random trees
    local part kind
    mkdir -p "$1"/{tree2seq,right,random}
    for part in train valid test; do
        once "$OUT/parses/$part.penn" tool trees.parse "$OUT/raw/$part.cased" --output
        tool trees.transitions "$OUT/raw/$part.en" "$OUT/parses/$part.penn" --format penn --lowercase --output "$OUT/raw/$part.tree"
        tool trees.limit "$OUT/raw/$part" "$1/tree2seq/$part" -s en -t ja --trees tree --max-words 50
        for kind in right random; do
            cp "$1/tree2seq/$part".{en,ja} "$1/$kind"
            tool trees.controls "$1/tree2seq/$part.tree" --kind "$kind" --output "$1/$kind/$part.tree"
        done
    done
    for kind in tree2seq right random; do
        binarise "$1/$kind" -s en -t ja --thresholdsrc 2 --thresholdtgt 2 "$1/$kind/bin"
        binarise "$1/$kind" --only-source -s tree "$1/$kind/bin"
    done
}
say "preparing: sentences, their parses, and trees that know nothing of syntax"
once "$OUT/raw" tool php_en_ja.pairs "$DATA"
once "$TEXT" prepare
once "$OUT/lengths" tool trees.lengths "$TEXT/tree2seq/train.en" "$TEXT/tree2seq/train.ja" --output

printf "%s\n" "tree2seq "{1..3} "right "{1..3} "random "{1..3} "anmt "{1..3} |
    xargs -P "$JOBS" -L 1 bash "$ROOT/recipes/php_en_ja/model.sh" "$OUT" "$EPOCHS"

say "the report"
tool reproduce.eriguchi_tables "$OUT/runs" --reference "$TEXT/tree2seq/test.ja" --source "$TEXT/tree2seq/test.en" --output "$OUT/tables.md"
cat "$OUT/tables.md"
