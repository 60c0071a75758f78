#!/usr/bin/env bash
# Shared functions. Every recipe and tests/run.sh source this script. --help prints the comment at the head of the script
# that was called, and exits.
#
# set_up makes .venv at the top of the checkout and installs the package into it, unless .venv is up to date. If you call
# this script itself, it only runs set_up:
#
#   recipes/setup.sh
#
#   PYTHON=python3.13   the Python to use (default: the first complete one of 3.11, 3.12, 3.13, 3.10 and 3.14; 3.14 is not tested)
#   TORCH=torch==2.13.0 the PyTorch to install, in pip's words
set -euo pipefail
# Every recipe skips the steps that are done, and a training goes on from the checkpoint that it saves when it is stopped.
trap 'printf "\nstopped; run the same command again to go on\n" >&2; exit 130' INT

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
TORCH=${TORCH:-torch==2.13.0}

say() { # WORDS...: a line with the time, in bold letters on a terminal
    local bold='' plain=''
    [ ! -t 1 ] || bold=$'\033[1m' plain=$'\033[0m'
    printf '\n%s[%s] %s%s\n' "$bold" "$(date +%H:%M:%S)" "$*" "$plain"
}
die() { printf 'error: %s\n' "$*" >&2; exit 1; }
die_of_log() { # LOG STEP: end after a step that failed, or that a signal has ended
    local status=$?
    if [ "$status" = 130 ] || [ "$status" = 143 ]; then exit "$status"; fi
    tail -3 "$1" >&2
    die "$2 failed; see $1"
}

usage() { awk 'NR == 1 { next } !/^#/ { exit } { sub(/^# ?/, ""); print }' "$0"; }

tool() { # PROGRAM WORDS...: run a Python program of the recipes, as reproduce.report
    PYTHONSAFEPATH=1 PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH} python -m "recipes.$1" "${@:2}"
}

prepare_text() { # WORDS...: rnnsearch prepare, without what it says of a training, as the recipes have their own
    rnnsearch prepare "$@" | sed '/^What to expect/,$d'
}

download() { # ADDRESS SHA256 FILE: download a file, unpack it if it is packed, and compare it with what the results were made of
    curl --fail --silent --show-error --location "$1" | if [[ $1 = *.gz ]]; then gunzip; else cat; fi > "$3" ||
        die "cannot download $1; fetch it by other means and give its folder: $0 --data DIR"
    echo "$2  $3" | sha256sum --check --quiet >&2 || die "$1 is not the file that the results were made of"
}

once() { # OUTPUT COMMAND...: make a file or a folder by COMMAND, whose last word becomes the path to write, unless it is there
    [ ! -e "$1" ] || { echo "there already: $1" && return; }
    mkdir -p "$(dirname "$1")"
    rm -rf "$1.part"
    "${@:2}" "$1.part"
    mv "$1.part" "$1"
}

binarise() { # TEXT OPTIONS... BIN: binarise TEXT/{train,valid,test}.LANGUAGE to BIN. A BIN in TEXT has the record of how the text
    # was prepared above it, where a training looks for it
    fairseq-preprocess --user-dir "$USER_DIR" --trainpref "$1/train" --validpref "$1/valid" --testpref "$1/test" --workers 2 \
        "${@:2:$#-2}" --destdir "${!#}" >> "$1/preprocess.log" 2>&1 || die_of_log "$1/preprocess.log" fairseq-preprocess
}

has_gpu() { nvidia-smi -L &> /dev/null; }

fast_precision() { # --bf16, where bfloat16 is fast: Intel's AVX-512 without AMX takes 1.3 times as long as with float32
    local flags=amx_bf16
    if grep -qs AuthenticAMD /proc/cpuinfo; then flags=avx512_bf16; fi
    if has_gpu || grep -qs "$flags" /proc/cpuinfo; then echo --bf16; fi
}

show_model() { # CHECKPOINTS OPTIONS...: say where a model is, or an ensemble with colons between, and how to translate with it;
    # OPTIONS are options of the search
    local path paths= checkpoints options=${*:2}
    IFS=: read -ra checkpoints <<< "$1"
    for path in "${checkpoints[@]}"; do
        paths+=${paths:+:}$(printf %q "$(realpath --no-symlinks --relative-base="$ROOT" "$path")")
    done
    say "the model is $paths; to use it, at the top of the checkout:"
    cat << END
  source .venv/bin/activate
  # translate what you type (Ctrl-D ends)
  rnnsearch translate --model $paths $options
  # or on a page
  rnnsearch serve --model $paths $options
END
}

parse_options() { # "NAME= NAME --" WORDS...: the option --NAME sets the variable NAME, in capitals and with _ for -, to
    # the next word or, without =, to 1. If -- is listed, it ends the options, and the words after it go to REST
    local known=" $1 " name variable
    shift
    REST=()
    while [ $# -gt 0 ]; do
        if [[ $1 = -- && $known = *" -- "* ]]; then
            REST=("${@:2}")
            return
        fi
        name=${1#--} variable=${1#--}
        variable=${variable//-/_}
        if [[ $1 = --* && $known = *" $name= "* ]]; then
            [ $# -gt 1 ] && [[ $2 != --* ]] || die "$1 needs a value; see $0 --help"
            printf -v "${variable^^}" %s "$2"
            shift 2
        elif [[ $1 = --* && $known = *" $name "* ]]; then
            printf -v "${variable^^}" 1
            shift
        else
            die "unknown option $1; see $0 --help"
        fi
    done
}

find_python() { # print the first Python that has what compiles fairseq; 3.14 comes last, as it is not tested
    local candidate lacks found=
    for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3.10 python3.14 python3}; do
        lacks=$("$candidate" -c '
import importlib.util, os, sys, sysconfig
lacks = [f"has no {name}" for name in ("venv", "ensurepip") if not importlib.util.find_spec(name)]
lacks += ["has no headers"] * (not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))
lacks += ["is {}.{}".format(*sys.version_info)] * (not (3, 10) <= sys.version_info < (3, 15))
print(*lacks, sep=", ")' 2>/dev/null) || { [ -n "${PYTHON-}" ] || continue; lacks="cannot be run"; }
        if [ -z "$lacks" ]; then echo "$candidate"; return; fi
        found+=" ($candidate $lacks)"
    done
    die "no Python 3.10 to 3.13 with venv, ensurepip and headers found$found; install them (Debian: python3 python3-venv python3-dev) or name another: PYTHON=/path/to/python $0"
}

pip_install() { "$ROOT/.venv/bin/python" -m pip --disable-pip-version-check install "$@"; }

install_pytorch() {
    # Without a GPU, the build in PyTorch's own index is a tenth the size. It replaces the default index for this command
    # only: beside it, a package of the same name there would win.
    if ! command -v nvidia-smi >/dev/null; then
        # In a subshell, so that Ctrl-C says on standard error how to go on.
        (pip_install --quiet --index-url https://download.pytorch.org/whl/cpu --retries 0 "$TORCH") 2>/dev/null && return
        echo "PyTorch's own index cannot be used; trying the default index, where PyTorch is a download of about 2.5 GB, with code for GPUs"
    fi
    pip_install "$TORCH" # not --quiet, which hides how far the download is
}

install_package() {
    local python
    python=$(find_python)
    command -v c++ >/dev/null || die "there is no C++ compiler, which the installation of fairseq needs; install one (Debian: g++)"
    [ ! -e "$ROOT/.venv" ] || [ -e "$ROOT/.venv/.installed" ] ||
        die "$ROOT/.venv is an environment of your own, which set-up would replace; move it away, and run the same command again"
    say "set-up 1/3: PyTorch ($TORCH) into .venv, with $("$python" --version); all three steps take about three minutes"
    rm -rf "$ROOT/.venv"
    mkdir "$ROOT/.venv" && touch "$ROOT/.venv/.installed" # so that an interrupted set-up can be started again
    "$python" -m venv "$ROOT/.venv"
    echo 'export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-1000} # see recipes/setup.sh' >> "$ROOT/.venv/bin/activate"
    install_pytorch
    install_tools
}

install_tools() {
    say "set-up 2/3: the packages of recipes/requirements"
    pip_install --quiet --require-hashes --no-deps --only-binary :all: -r "$ROOT/recipes/requirements/wheels.txt"
    # With build isolation, pip would download a second PyTorch only to compile fairseq.
    say "set-up 3/3: fairseq, which compiles six extensions, and this package"
    pip_install --quiet --require-hashes --no-deps --no-build-isolation -r "$ROOT/recipes/requirements/sources.txt"
    # "compat": else, in the folder above the checkout, Python would import the checkout in place of the package in it.
    pip_install --quiet --no-deps --no-build-isolation --config-settings editable_mode=compat --editable "$ROOT"
}

environment() { # print the versions that a result depends on: PyTorch, and a digest of those of all other packages
    echo "$TORCH $(cat "$ROOT"/recipes/requirements/*.txt | sha256sum | head -c 12)"
}

set_up() {
    local installed="$ROOT/.venv/.installed" wanted found
    wanted="$(environment) $(sha256sum < "$ROOT/pyproject.toml")"
    found=$(cat "$installed" 2>/dev/null || true)
    if [ "$found" != "$wanted" ]; then
        # Where only other packages have changed, PyTorch stays.
        if [ "${found%% *}" = "$TORCH" ]; then install_tools; else install_package; fi
        echo "$wanted" > "$installed"
    fi
    export PATH="$ROOT/.venv/bin:$PATH"
    # By default, waiting threads spin so long that training becomes several times slower when another program uses a core.
    # Without any spinning, training loses a quarter of its speed, because small matrices cause many short waits.
    export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-1000}
    export USER_DIR="$ROOT/rnnsearch_fairseq"
}

for word in "$@"; do
    case $word in
        -h | --help) usage; exit ;;
        --) break ;;
    esac
done

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    parse_options "" "$@"
    set_up
    say "set up ($(environment)); to use it, at the top of the checkout: source .venv/bin/activate"
fi
