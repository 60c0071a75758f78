# Options and data, sourced by run.sh and reproduce.sh. It sets DATA and OUT. Set before, RECIPE names the default folder, and
# OPTIONS more options.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

DATA= OUT=$ROOT/runs/${RECIPE:-multi30k_en_fr}
parse_options "data= out= ${OPTIONS-}" "$@"
set_up

if [ -z "$DATA" ]; then
    DATA=$OUT/raw
    say "downloading Multi30k to $DATA"
    download() { # NAME FILE
        curl --fail --silent --show-error --location \
            "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/$1.gz" | gunzip > "$2" ||
            die "cannot download $1; fetch Multi30k by other means and give its folder: $0 --data DIR"
    }
    for name in {train,val,test_2016_flickr}.{en,fr}; do once "$DATA/$name" download "$name"; done
fi
