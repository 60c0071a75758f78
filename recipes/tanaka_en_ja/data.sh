# Options and data, sourced by the recipes of this folder. It sets DATA, OUT, EPOCHS and JOBS, and writes text, lengths and bin
# to $OUT.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

DATA= OUT=$ROOT/runs/tanaka_en_ja EPOCHS=24 JOBS=1
parse_options "data= out= epochs= jobs=" "$@"
at_least_one EPOCHS JOBS
own_folder "$OUT" tanaka_en_ja
set_up

if [ -z "$DATA" ]; then
    DATA=$OUT/raw
    say "downloading 50,500 pairs of the Tanaka corpus to $DATA"
    mkdir -p "$DATA"
    for name in {train,dev}.{en,ja}; do
        [ -s "$DATA/$name" ] && continue
        curl --fail --silent --show-error --location --output "$DATA/$name.part" \
            "https://raw.githubusercontent.com/odashi/small_parallel_enja/master/$name" ||
            die "cannot download $name; fetch small_parallel_enja by other means and give its folder: $0 --data DIR"
        mv "$DATA/$name.part" "$DATA/$name"
    done
fi
for name in {train,dev}.{en,ja}; do
    [ -f "$DATA/$name" ] || die "$DATA/$name: no such file; --data is a folder of train.en, train.ja, dev.en and dev.ja"
done

hold_out() { # make the last 4,000 pairs of kept the test set, and the others, without its English sentences, the training text
    local side column=0
    paste "$OUT"/text/kept.{en,ja,tree} > "$OUT/text/kept"
    tail -n 4000 "$OUT/text/kept" > "$OUT/text/test"
    head -n -4000 "$OUT/text/kept" | awk -F'\t' 'NR == FNR { held[$1]; next } !($1 in held)' "$OUT/text/test" - > "$OUT/text/train"
    for side in en ja tree; do
        column=$((column + 1))
        cut -f $column "$OUT/text/train" > "$OUT/text/train.$side"
        cut -f $column "$OUT/text/test" > "$OUT/text/test.$side"
    done
    rm "$OUT"/text/{kept,kept.en,kept.ja,kept.tree,train,test}
}

if [ ! -f "$OUT/bin/.done" ]; then
    say "preparing: a line of transitions for each sentence, words seen once are unknown, length statistics"
    rm -rf "$OUT/text" "$OUT/bin"
    mkdir -p "$OUT/text"
    for part in train dev; do
        parses=$DATA/$part.tree
        if [ ! -f "$parses" ]; then
            parses=$OUT/parses/$part.tree
            if [ ! -f "$parses" ]; then
                say "parsing $part.en by Link Grammar"
                mkdir -p "$OUT/parses"
                rnnsearch parse "$DATA/$part.en" --output "$parses"
            fi
        fi
        rnnsearch trees "$DATA/$part.en" "$parses" --format penn --output "$OUT/text/$part.tree"
        cp "$DATA/$part.en" "$DATA/$part.ja" "$OUT/text"
    done
    # Before anything is counted; the paper trains on parsed sentences only. Of the 500 development sentences, the 36 without
    # a parse are left out, too: models with trees learn nothing of such sentences, so these must not choose the epoch.
    rnnsearch limit "$OUT/text/train" "$OUT/text/kept" -s en -t ja --trees tree --max-words 50
    rnnsearch limit "$OUT/text/dev" "$OUT/text/valid" -s en -t ja --trees tree --max-words 50
    hold_out
    # How text to translate becomes words: English is split by Moses, in lower case; Japanese must be given in words.
    cat > "$OUT/text/preparation.json" << 'END'
{"en": {"tokenizer": "moses", "moses_no_escape": true, "moses_no_dash_splits": true, "lowercase": true}, "ja": {}}
END
    preprocess() {
        fairseq-preprocess --user-dir "$USER_DIR" --destdir "$OUT/bin" --workers 2 \
            --trainpref "$OUT/text/train" --validpref "$OUT/text/valid" --testpref "$OUT/text/test" "$@" >> "$OUT/preprocess.log" 2>&1 ||
            die_of_log "$OUT/preprocess.log" fairseq-preprocess
    }
    preprocess -s en -t ja --thresholdsrc 2 --thresholdtgt 2
    preprocess --only-source -s tree
    rnnsearch lengths "$OUT/text/train.en" "$OUT/text/train.ja" --output "$OUT/lengths"
    copy_record "$OUT/text" "$OUT/bin"
    touch "$OUT/bin/.done"
fi
