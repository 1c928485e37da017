#!/usr/bin/env bash
# Installs what is missing, builds, and trains the toy language model: on its built-in corpus, or as the arguments say
# (examples/run.sh train --help). Paths are relative to the folder that it is called in. Without arguments, what an earlier
# such run has left in toy_lm-out is replaced.
caller=$PWD
source "$(dirname "${BASH_SOURCE[0]}")/../cmake/setup.sh"
setup_packages
setup_configure release
setup_build release toy_lm
program=$PWD/build/examples/toy_lm
cd "$caller"
if [ $# -eq 0 ]; then set -- train --overwrite; fi
exec "$program" "$@"
