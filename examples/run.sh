#!/usr/bin/env bash
# Installs what is missing, builds, and trains the toy language model: on its built-in corpus, or as the arguments say
# (examples/run.sh train --help).
source "$(dirname "${BASH_SOURCE[0]}")/../cmake/setup.sh"
setup_packages
setup_configure release
setup_build release toy_lm
if [ $# -eq 0 ]; then set -- train; fi
exec build/examples/toy_lm "$@"
