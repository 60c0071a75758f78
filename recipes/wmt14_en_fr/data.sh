#!/usr/bin/env bash
# Prepare the data of Bahdanau et al. (2015), Section 4.1: WMT 2014's English-French corpora in Moses tokens, reduced to 348
# million French words by data selection, shuffled and binarised. news-test-2012 and 2013 are the development set,
# newstest2014 is the test set.
#
#   recipes/wmt14_en_fr/data.sh [--data DIR] [--out DIR] [--words N]
#
# --data   folder with some or all of the files, under their names in the archives, and the test set as
#          newstest2014.{en,fr}; other files are downloaded, 6.7 GB in all. The test set is sacrebleu's; if SACREBLEU names
#          sacrebleu's folder, wmt14/full is taken from there
# --out    output folder (default: runs/wmt14_en_fr); an interrupted run is resumed there
# --words  French words to select (default: 348,000,000)
#
# README.md in this folder states the disk space, memory and time that are needed. The program lmplz must be on PATH, and
# kenlm installed: see the head of selection.py. All cores are used; taskset limits them.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

DATA= OUT=$ROOT/runs/wmt14_en_fr WORDS=348000000
parse_options "data= out= words=" "$@"
at_least_one WORDS
[ -z "$DATA" ] || [ -d "$DATA" ] || die "$DATA: no such folder; --data is one that has some of the corpora"
own_folder "$OUT" wmt14_en_fr
set_up
command -v lmplz > /dev/null || die "lmplz is not on PATH; the head of recipes/wmt14_en_fr/selection.py says how to get it"
CORPORA=(europarl-v7.fr-en news-commentary-v9.fr-en commoncrawl.fr-en undoc.2000.fr-en giga-fren.release2.fixed)
STATMT=https://www.statmt.org RAW=$OUT/raw TEXT=$OUT/text
WORKERS=$(nproc) PAIR=(-s en -t fr)
mkdir -p "$RAW" "$TEXT" "$OUT/runs/data"
exec {lock}> "$OUT/.lock"
flock --nonblock "$lock" || die "another data.sh is at work in $OUT; wait for it, or stop it"
# Remove large leftovers of a killed command, and a selection of another size.
find "$TEXT" -mindepth 1 -maxdepth 1 -name '.*' \( -type d -o -name '*.partial' \) -exec rm -r {} +
if [ "$(cat "$TEXT/.words" 2>/dev/null || echo "$WORDS")" != "$WORDS" ]; then rm -f "$TEXT"/.{selection,order,binary}.done; fi
echo "$WORDS" > "$TEXT/.words"

step() { # NAME WHAT: run the function NAME, unless it was completed before
    [ -f "$TEXT/.$1.done" ] && return
    say "$2"
    "$1"
    touch "$TEXT/.$1.done"
}

present() { # FILES...: whether all of an archive's files are in RAW; link them there from --data if they are in it
    local file
    for file in "$@"; do
        file=$(basename "${file%.gz}")
        [ -f "$RAW/$file" ] || { [ -f "$DATA/$file" ] && ln -sfn "$(realpath "$DATA/$file")" "$RAW/$file"; } || return 1
    done
}

fetch() { # ARCHIVE FILES...: download and unpack these files to RAW; an interrupted download is resumed
    local archive=$OUT/${1##*/} file raw unpack
    if present "${@:2}"; then return; fi
    if [ ! -f "$archive" ]; then
        echo "$STATMT/$1"
        curl --fail --location --retry 5 --continue-at - --progress-bar --output "$archive.part" "$STATMT/$1" ||
            die "cannot download $STATMT/$1; start this again, or fetch it by other means to $archive"
        mv "$archive.part" "$archive"
    fi
    for file in "${@:2}"; do
        raw=$RAW/$(basename "${file%.gz}") unpack=cat
        if [[ $file = *.gz ]]; then unpack=gunzip; fi
        tar --extract --to-stdout --file "$archive" "$file" | $unpack > "$raw.part" ||
            die "$archive has no whole $file; delete the archive and start this again"
        mv "$raw.part" "$raw"
    done
    rm "$archive"
}

corpora() {
    fetch wmt13/training-parallel-europarl-v7.tgz training/europarl-v7.fr-en.{en,fr}
    fetch wmt14/training-parallel-nc-v9.tgz training/news-commentary-v9.fr-en.{en,fr}
    fetch wmt13/training-parallel-commoncrawl.tgz commoncrawl.fr-en.{en,fr}
    fetch wmt13/training-parallel-un.tgz un/undoc.2000.fr-en.{en,fr}
    fetch wmt10/training-giga-fren.tar giga-fren.release2.fixed.{en,fr}.gz
    fetch wmt14/dev.tgz dev/newstest201{2,3}.{en,fr}
    present newstest2014.{en,fr} && return
    test_set src en
    test_set ref fr
}

test_set() { # SIDE LANGUAGE: write a side of newstest2014 to RAW, with characters in place of entities
    sacrebleu --test-set wmt14/full --language-pair en-fr --echo "$1" |
        python -c 'import html, sys; sys.stdout.writelines(map(html.unescape, sys.stdin))' > "$RAW/newstest2014.part" ||
        die "sacrebleu has no wmt14/full; start this again, or give a folder with newstest2014.{en,fr} by --data"
    mv "$RAW/newstest2014.part" "$RAW/newstest2014.$2"
}

join() { # LANGUAGE NAMES...: the lines of these files; the web's carriage returns inside a line count as a space
    local name
    for name in "${@:2}"; do sed -e 's/\r/ /g' -e '$a\' "$RAW/$name.$1"; done
}

tokens() {
    local language
    for language in en fr; do
        join "$language" "${CORPORA[@]}" > "$RAW/train.$language"
        join "$language" newstest201{2,3} > "$RAW/valid.$language"
        join "$language" newstest2014 > "$RAW/test.$language"
    done
    rnnsearch prepare "$RAW" "$TEXT" "${PAIR[@]}" --bpe 0 --max-words 50 > "$OUT/prepare.log" 2>&1 ||
        die_of_log "$OUT/prepare.log" "rnnsearch prepare"
    for language in en fr; do
        mv "$TEXT/train.$language" "$TEXT/all.$language"
        rm "$RAW/train.$language"
    done
}

# Select pairs similar to the development set, as Cho et al. (2014) did, whose procedure the paper follows.
selection() {
    tool wmt14_en_fr.selection "$TEXT/all" "$TEXT/valid" "$TEXT/selected" "${PAIR[@]}" --words "$WORDS"
}

order() {
    rnnsearch limit "$TEXT/selected" "$TEXT/train" "${PAIR[@]}" --max-words 50 --shuffle 1
}

binary() { # --nwords counts fairseq's four symbols, too
    rm -rf "$OUT/bin"
    fairseq-preprocess --user-dir "$USER_DIR" -s en -t fr --destdir "$OUT/bin" --workers "$WORKERS" \
        --nwordssrc 30004 --nwordstgt 30004 --padding-factor 1 --trainpref "$TEXT/train" --validpref "$TEXT/valid" \
        --testpref "$TEXT/test" > "$OUT/preprocess.log" 2>&1 || die_of_log "$OUT/preprocess.log" fairseq-preprocess
    cp "$OUT"/bin/dict.*.txt "$TEXT"/test.{en,fr} "$OUT/runs/data"
    copy_record "$TEXT" "$OUT/bin"
    touch "$OUT/bin/.done"
}

step corpora "1/5 the corpora and test sets"
step tokens "2/5 Moses tokens; pairs with an empty side or one of more than 50 words are dropped"
step selection "3/5 selecting $WORDS French words"
step order "4/5 shuffling"
step binary "5/5 binarising, with the 30,000 most frequent words of each language"
say "ready: $OUT/bin"
