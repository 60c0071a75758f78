# Options, data and evaluation, sourced by run.sh and readings.sh. It sets DATA and OUT, and writes $OUT/bin.
source "$(dirname "${BASH_SOURCE[0]}")/data.sh"

prepare_data() {
    say "preparing text: Moses tokens, 5,000 BPE merges"
    rm -rf "$OUT/text"
    rnnsearch prepare "$DATA" "$OUT/text" -s en -t fr \
        --train train --valid val --test test_2016_flickr --bpe 5000
    fairseq-preprocess --user-dir "$USER_DIR" -s en -t fr --destdir "$OUT/bin" --workers 2 \
        --trainpref "$OUT/text/train" --validpref "$OUT/text/valid" --testpref "$OUT/text/test" > "$OUT/preprocess.log" 2>&1 ||
        die_of_log "$OUT/preprocess.log" fairseq-preprocess
    copy_record "$OUT/text" "$OUT/bin"
}
once "$OUT/bin" prepare_data

translate() { # CHECKPOINT NAME: translate test_2016_flickr to NAME.fr, as text, and write the alignments to NAME.jsonl
    rnnsearch translate "$DATA/test_2016_flickr.en" --model "$1" --beam 12 --output "$2.fr" --alignments "$2.jsonl" \
        2> "$2.log" || die_of_log "$2.log" "rnnsearch translate"
    wc -l < "$DATA/test_2016_flickr.fr" | grep -qx "$(wc -l < "$2.fr")" || die "not one translation for each caption"
}

bleu() { # NAME OPTIONS...: print sacrebleu of NAME.fr, detokenised and cased
    sacrebleu "$DATA/test_2016_flickr.fr" -i "$1.fr" -l en-fr -w 2 "${@:2}"
}
