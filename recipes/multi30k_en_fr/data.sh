# Options and data. run.sh and reproduce.sh source this script, which sets DATA and OUT. If the caller has set RECIPE and OPTIONS,
# RECIPE names the default folder, and OPTIONS names more options.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

DATA= OUT=$ROOT/runs/${RECIPE:-multi30k_en_fr}
parse_options "data= out= ${OPTIONS-}" "$@"
set_up

if [ -z "$DATA" ]; then
    DATA=$OUT/raw
    say "downloading Multi30k to $DATA"
    from=https://raw.githubusercontent.com/multi30k/dataset/2cc0f2d7c615b60e07e2d51bb5edc004444d7e0e/data/task1/raw
    while read -r digest name; do once "$DATA/$name" download "$from/$name.gz" "$digest"; done << 'END'
460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6 train.en
5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d train.fr
1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227 val.en
5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc val.fr
399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182 test_2016_flickr.en
cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6 test_2016_flickr.fr
END
fi
