#!/usr/bin/env bash
# The library and its user may compile xtensor with different flags, so the library must define nothing under xtensor's
# names: the linker would take one of the two for both (see core/kernels/cxxblas.hpp).
set -euo pipefail
if found=$(nm -C --defined-only "$1" 2> /dev/null | grep -E ' [TWVu] (.*[ ,<(])?(xt|cxxblas)::'); then
  echo "$1 defines symbols under the names of xtensor:"
  head -20 <<< "$found"
  exit 1
fi
