#!/usr/bin/env bash
# Installs what is missing, builds everything, and runs every test. Options are handed to the configuring cmake
# (tests/run.sh -DTAPEGRAD_WERROR=ON).
source "$(dirname "${BASH_SOURCE[0]}")/../cmake/setup.sh"
setup_packages
setup_configure release "$@"
setup_build release
setup_test release
