#!/usr/bin/env bash
# Train a phrase-based system, Thot, on the words that models of run.sh were trained on, tune it on their development set, and
# translate their test set: it becomes a row of Table 1 when the recipe that made the folder is called again. It takes a
# quarter of an hour for 29,000 captions, and two hours for 32,000 messages of documentation.
#
#   recipes/reproduce/phrase_based.sh --runs DIR --src en --trg fr
#
# --runs       output folder of run.sh, or of a recipe that ends in it, as runs/multi30k_reproduce
# --src, --trg source and target language
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

RUNS= SRC= TRG=
parse_options "runs= src= trg=" "$@"
[ -n "$RUNS" ] && [ -n "$SRC" ] && [ -n "$TRG" ] || die "--runs, --src and --trg are needed; see $0 --help"
[ -d "$RUNS/text" ] || die "$RUNS has no text; make it by recipes/reproduce/run.sh"
OUT=$RUNS/phrase_based
set_up

if [ ! -x "$OUT/venv/bin/pip" ]; then python -m venv "$OUT/venv"; fi
"$OUT/venv/bin/pip" --disable-pip-version-check install --quiet sil-thot==3.5.3 sil-machine==1.9.2
join_pieces() { # FOLDER
    mkdir -p "$1"
    for name in {train,valid,test}.{"$SRC","$TRG"}; do sed -E 's/@@( |$)//g' "$RUNS/text/$name" > "$1/$name"; done
}
once "$OUT/text" join_pieces

say "training and tuning; full log in $OUT/log"
translate() { # FILE
    PYTHONPATH=$ROOT "$OUT/venv/bin/python" -m recipes.reproduce.phrase_based "$OUT/text" "$1" -s "$SRC" -t "$TRG" \
        2> "$OUT/log" || die_of_log "$OUT/log" phrase_based.py
}
once "$RUNS/runs/others/phrase-based" translate
say "the translations are $RUNS/runs/others/phrase-based; call the recipe that made $RUNS again, to write its report anew"
