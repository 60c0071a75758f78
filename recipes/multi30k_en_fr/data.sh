# Options and data, sourced by run.sh and reproduce.sh. It sets DATA and OUT. RECIPE, if set before, names the default folder
# and marks the output folder.
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"

RECIPE=${RECIPE:-multi30k_en_fr} DATA=
OUT=$ROOT/runs/$RECIPE
parse_options "data= out=" "$@"
own_folder "$OUT" "$RECIPE"
set_up

if [ -z "$DATA" ]; then
    exec {download}> "$OUT/.lock"
    flock "$download" # two calls that start together must download once
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
    exec {download}>&-
fi
