# Sourced by the recipes of this folder: their options, and the data. It leaves DATA and OUT, which may be set before.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

DATA= OUT=${OUT:-$ROOT/runs/multi30k_en_fr}
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

