#!/usr/bin/env bash
# Train one model on the text that best.sh has prepared in OUT, average the model's last ten checkpoints, choose the length penalty
# on the development set, and translate the test set. best.sh calls this script for every model.
#
#   recipes/multi30k_en_fr/best_model.sh DATA OUT NAME
#
# NAME  rnnsearch-SEED; of fairseq: lstm-SEED and transformer (with the settings of RNNsearch that apply to them), lstm-usual
#       and transformer-published-SEED (with their own); or ensemble, of rnnsearch-1 and rnnsearch-2, which must be trained before
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

[ $# = 3 ] || die "three words are needed; see $0 --help"
DATA=$1 TEXT=$2/text MODELS=$2/models NAME=$3
set_up
MODEL=$MODELS/$NAME
# Keep freed memory: otherwise fairseq's transformer spends a quarter of its time on new pages.
export MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=17179869184

UPDATES=9500 # of 1,900 words; 50 to 100 minutes of one core that multiplies bfloat16
ADAM="--optimizer adam --adam-betas (0.9,0.98)"
FALLING="$ADAM --clip-norm 1 --lr 0.008 --lr-scheduler polynomial_decay --warmup-updates 400 --total-num-update $UPDATES --max-tokens 2048"
LSTM="--arch lstm --encoder-bidirectional --dropout 0.3 --encoder-embed-dim 256 --encoder-hidden-size 256 \
--decoder-embed-dim 256 --decoder-hidden-size 256 --decoder-out-embed-dim 256 $FALLING"
TINY="--arch transformer_tiny --dropout 0.3 $ADAM --lr-scheduler inverse_sqrt --warmup-init-lr 1e-7 --warmup-updates 2000 --lr 0.005 --max-tokens 4096"
for side in encoder decoder; do
    TINY+=" --$side-layers 4 --$side-embed-dim 128 --$side-ffn-embed-dim 256 --$side-attention-heads 4"
done
SMOOTHED="--criterion label_smoothed_cross_entropy --label-smoothing 0.1"
# Ten checkpoints between updates, or of the last epochs.
BETWEEN="--save-interval 1000 --validate-interval 1000 --save-interval-updates 237 --keep-interval-updates 10"
case $NAME in
    rnnsearch-*)
        OPTIONS="--arch bahdanau_gru_small --update-word current --share-all-embeddings --dropout 0.4 --readout-dropout 0.4 \
--word-dropout 0.1 --criterion smoothed_nll --label-smoothing 0.1 --weight-decay 0.05 $FALLING $BETWEEN $(fast_precision)"
        ;;
    lstm-usual) OPTIONS="$LSTM $SMOOTHED --keep-last-epochs 10" ;;
    lstm-*) OPTIONS="$LSTM $SMOOTHED --share-all-embeddings --weight-decay 0.05 $BETWEEN" ;;
    transformer-published-*) OPTIONS="$TINY $SMOOTHED --share-all-embeddings --patience 10 --keep-last-epochs 10" UPDATES=8000 ;;
    transformer) OPTIONS="$TINY $SMOOTHED --share-all-embeddings --weight-decay 0.05 ${BETWEEN/237/200}" UPDATES=8000 ;;
esac

train() { # MODEL
    local last seed=${NAME##*-}
    say "training $NAME; full log in $MODEL/train.log"
    # shellcheck disable=SC2086  # the options are words
    fairseq-train "$TEXT/bin" --user-dir "$USER_DIR" --task rnnsearch -s en -t fr $OPTIONS --seed "${seed//[a-z]*/1}" \
        --max-update "$UPDATES" --eval-bleu --eval-bleu-args '{"beam": 1}' --eval-tokenized-bleu --eval-bleu-remove-bpe \
        --save-dir "$MODEL/checkpoints" --log-format json --log-interval 100 2>&1 |
        rnnsearch progress "$MODEL/train.log" "$UPDATES" --name "$NAME" || die_of_log "$MODEL/train.log" fairseq-train
    # shellcheck disable=SC2012  # fairseq's names have no line ends
    mapfile -t last < <(ls -v "$MODEL"/checkpoints/checkpoint*[0-9].pt | tail -10)
    tool multi30k_en_fr.average "${last[@]}" --output "$1"
}

translate() { # SUBSET LENPEN FILE: write the tokens of the translations; fairseq-generate reads fairseq's own models, too
    fairseq-generate "$TEXT/bin" --user-dir "$USER_DIR" --task rnnsearch -s en -t fr --path "$CHECKPOINTS" \
        --gen-subset "$1" --beam 5 --lenpen "$2" --batch-size 64 --post-process subword_nmt > "$3.out" 2> "$MODEL/translate.log" ||
        die_of_log "$MODEL/translate.log" fairseq-generate
    grep ^H- "$3.out" | sort -t- -k2n | cut -f3 > "$3"
    rm "$3.out"
}

choose_length_penalty() { # FILE: write the development set's best BLEU, and the length penalty that has it
    local penalty penalties="0.6 0.8 1 1.2 1.4 1.6"
    for penalty in $penalties; do
        once "$MODEL/valid.$penalty" translate valid "$penalty"
        echo "$(sacrebleu "$DATA/val.fr" -i "$MODEL/valid.$penalty" --tokenize none --force -w 2 --score-only) $penalty"
    done | sort -rn | head -1 > "$1"
}

if [ "$NAME" = ensemble ]; then
    CHECKPOINTS=$MODELS/rnnsearch-1/model.pt:$MODELS/rnnsearch-2/model.pt
else
    CHECKPOINTS=$MODEL/model.pt
    once "$CHECKPOINTS" train
fi
once "$MODEL/lenpen" choose_length_penalty
read -r _ PENALTY < "$MODEL/lenpen"
once "$MODEL/test.fr" translate test "$PENALTY"
