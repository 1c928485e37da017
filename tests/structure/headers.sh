#!/usr/bin/env bash
# Each public header compiles alone, and twice in a row.
set -uo pipefail
source=$1 include=$2/include compiler=$3
cd "$source" || exit 1
failures=0

while read -r header; do
  if ! printf '#include <tapegrad/%s>\n#include <tapegrad/%s>\n' "$header" "$header" |
       "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Werror -I"$include" -x c++ -; then
    echo "tapegrad/$header does not compile alone"
    failures=1
  fi
done < <(find ./*.hpp core autograd nn optim training -name '*.hpp' -not -path 'core/kernels/*' | sed 's|^\./||' | sort)
exit $failures
