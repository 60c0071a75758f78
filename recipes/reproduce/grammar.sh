#!/usr/bin/env bash
# Reproduce the first paper's tables and figures on the corpus of the built-in bilingual grammar, with sentences of 3 to 60
# words and gold alignments: about an hour of one core.
#
#   recipes/reproduce/grammar.sh [OPTION VALUE]... [-- OPTIONS OF fairseq-train]      (as in run.sh)
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
set_up

once "$ROOT/runs/grammar/text" tool grammar
options=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1"); shift; done
[ $# = 0 ] || shift
# The paper's Adadelta learns several times more slowly than Adam (adadelta.sh). The order of the decoder is the original
# program's (--update-word current), which learns these alignments faster than that of the paper's appendix; W_o is one matrix.
exec bash "$ROOT/recipes/reproduce/run.sh" --tokens "$ROOT/runs/grammar/text" --src en --trg fr \
    --out "$ROOT/runs/reproduce_grammar" --arch bahdanau_gru_small --words 800 --budget 1000 --interval 500 --patience 5 \
    "${options[@]}" -- --update-word current --optimizer adam --lr 0.003 --warmup-updates 100 \
    --lr-scheduler polynomial_decay --total-num-update BUDGET --end-learning-rate 0.0002 "$@"
