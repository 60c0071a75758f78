#!/usr/bin/env bash
# Train RNNsearch on Multi30k English-French, translate test_2016_flickr and print BLEU: under an hour on two CPU cores.
#
#   recipes/multi30k_en_fr/run.sh [--data DIR] [--out DIR]
#
# --data  folder with {train,val,test_2016_flickr}.{en,fr}; without it they are downloaded
# --out   where everything is written (default: runs/multi30k_en_fr); stopped there, it goes on there
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

if [ ! -f "$OUT/checkpoints/.done" ]; then
    say "training bahdanau_gru_small: 18 passes over 29,000 captions; full log in $OUT/train.log"
    fairseq-train "$OUT/bin" --user-dir "$USER_DIR" --arch bahdanau_gru_small -s en -t fr \
        --dropout 0.3 --readout-dropout 0.3 \
        --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1 \
        --lr 0.002 --lr-scheduler polynomial_decay --warmup-updates 400 --total-num-update 6534 \
        --criterion label_smoothed_cross_entropy --label-smoothing 0.1 \
        --batch-size 80 --max-update 6534 \
        --eval-bleu --eval-bleu-args '{"beam": 1}' --eval-bleu-detok moses --eval-bleu-remove-bpe \
        --best-checkpoint-metric bleu --maximize-best-checkpoint-metric --no-epoch-checkpoints \
        --save-dir "$OUT/checkpoints" --log-format simple --log-interval 100 2>&1 |
        tee -a "$OUT/train.log" | grep --line-buffered -E 'train_inner|valid on' ||
        die_of_log "$OUT/train.log" fairseq-train
    touch "$OUT/checkpoints/.done"
fi

say "translating 1,000 captions with a beam of 12"
fairseq-generate "$OUT/bin" --user-dir "$USER_DIR" -s en -t fr --path "$OUT/checkpoints/checkpoint_best.pt" \
    --beam 12 --batch-size 32 --print-alignment soft > "$OUT/generate.out" 2> "$OUT/generate.log" ||
    die_of_log "$OUT/generate.log" fairseq-generate
grep '^H-' "$OUT/generate.out" | sort -t- -k2n | cut -f3 | sed 's/@@ //g; s/@@$//' |
    sacremoses --language fr --processes 1 --quiet detokenize > "$OUT/test.hyp.fr"
wc -l < "$DATA/test_2016_flickr.fr" | grep -qx "$(wc -l < "$OUT/test.hyp.fr")" || die "not one translation for each caption"
python -m rnnsearch_fairseq.analysis.alignment_plot "$OUT/generate.out" "$OUT/alignment.png" --sentence 203

say "BLEU of $(wc -l < "$OUT/test.hyp.fr") translations, detokenised, cased (sacrebleu)"
sacrebleu "$DATA/test_2016_flickr.fr" -i "$OUT/test.hyp.fr" -l en-fr -w 2 --format text
