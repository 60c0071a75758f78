# The second paper's models, sourced by tanaka_en_ja/run.sh.

tree_options() { # MODEL OBJECTIVE: the options of fairseq-train
    case $1 in
        tree2seq) echo --arch tree2seq_small ;;
        anmt) echo --arch anmt_small ;;
        anmt_reversed) echo --arch anmt_small --reverse-source ;;
        phrases_only) echo --arch tree2seq_small --constituents phrases-only ;;
    esac
    case $2 in
        softmax) echo --criterion summed_nll ;;
        *) echo --criterion blackout --blackout-samples "${2#blackout}" ;;
    esac
}

show_tree_model() { # CHECKPOINTS: say where they lie, and how to translate by them
    show_model "$1" --search tree2seq --beam 20 --max-len-b 100 \
        --length-statistics "$(from_root "$OUT/lengths")"
    echo "  # translate takes parses, too: rnnsearch parse TEXT --output TREES, and --trees TREES"
}
