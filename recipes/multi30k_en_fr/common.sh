# Sourced by the recipes of this folder: their options, the data, and the evaluation. It leaves DATA, OUT and $OUT/bin.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

DATA= OUT=$ROOT/runs/multi30k_en_fr
while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || die "$1 needs a folder"
    case $1 in
        --data) DATA=$2 ;;
        --out) OUT=$2 ;;
        *) die "unknown option $1; see the head of $0" ;;
    esac
    shift 2
done
mkdir -p "$OUT"

if [ -z "$DATA" ]; then
    DATA=$OUT/raw
    say "downloading Multi30k to $DATA"
    mkdir -p "$DATA"
    for name in {train,val,test_2016_flickr}.{en,fr}; do
        [ -s "$DATA/$name" ] && continue
        curl --fail --silent --show-error --location \
            "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/$name.gz" | gunzip > "$DATA/$name.part" ||
            die "cannot download $name; fetch Multi30k by other means and give its folder: $0 --data DIR"
        mv "$DATA/$name.part" "$DATA/$name"
    done
fi

if [ ! -f "$OUT/bin/.done" ]; then
    say "preparing text: Moses tokens, 5,000 BPE merges"
    rm -rf "$OUT/text" "$OUT/bin"
    python -m rnnsearch_fairseq.data.prepare "$DATA" "$OUT/text" -s en -t fr \
        --train train --valid val --test test_2016_flickr --bpe 5000
    fairseq-preprocess --user-dir "$USER_DIR" -s en -t fr --destdir "$OUT/bin" --workers 2 \
        --trainpref "$OUT/text/train" --validpref "$OUT/text/valid" --testpref "$OUT/text/test" > "$OUT/preprocess.log" 2>&1 ||
        die_of_log "$OUT/preprocess.log" fairseq-preprocess
    touch "$OUT/bin/.done"
fi

translate() { # CHECKPOINT NAME: test_2016_flickr to NAME.out (all that fairseq prints) and NAME.fr (detokenised)
    fairseq-generate "$OUT/bin" --user-dir "$USER_DIR" -s en -t fr --path "$1" \
        --beam 12 --batch-size 32 --print-alignment soft > "$2.out" 2> "$2.log" || die_of_log "$2.log" fairseq-generate
    grep '^H-' "$2.out" | sort -t- -k2n | cut -f3 | sed 's/@@ //g; s/@@$//' |
        sacremoses --language fr --processes 1 --quiet detokenize > "$2.fr"
    wc -l < "$DATA/test_2016_flickr.fr" | grep -qx "$(wc -l < "$2.fr")" || die "not one translation for each caption"
}

bleu() { # NAME OPTIONS...: sacrebleu of NAME.fr, detokenised, cased
    sacrebleu "$DATA/test_2016_flickr.fr" -i "$1.fr" -l en-fr -w 2 "${@:2}"
}
