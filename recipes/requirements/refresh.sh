#!/usr/bin/env bash
# Write the files of this folder anew. They have the newest versions of all packages that recipes/setup.sh installs, for Python
# 3.10 to 3.13, and the hashes of the packages' files. They do not have PyTorch, whose build differs from machine to machine.
# sources.txt has the packages that PyPI has only as source code. This script needs uv (pip install uv).
#
#   recipes/requirements/refresh.sh
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
parse_options "" "$@"
cd "$(dirname "${BASH_SOURCE[0]}")"
SOURCES=(fairseq-fixed antlr4-python3-runtime)

compile() { # OPTIONS...
    uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-annotate --no-header \
        --override <(echo "torch; python_version < '3'") "$@"
}
compile ../../pyproject.toml --extra dev --extra test <(printf '%s\n' cython 'setuptools<81' wheel) \
    "${SOURCES[@]/#/--no-emit-package=}" --output-file wheels.txt.part
printf '%s\n' "${SOURCES[@]}" | compile - --constraint <(compile ../../pyproject.toml --extra dev) --no-deps --output-file sources.txt.part
mv wheels.txt.part wheels.txt
mv sources.txt.part sources.txt
