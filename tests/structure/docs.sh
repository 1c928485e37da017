#!/usr/bin/env bash
# Every C++ block in README.md and docs/ compiles by itself.
set -uo pipefail
source=$1 include=$2/include compiler=$3
cd "$source" || exit 1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

for page in README.md docs/*.md; do
  awk -v stem="$scratch/$(basename "$page" .md)" '
    /^```cpp$/ { inside = 1; file = stem "_" ++count ".cpp"; next }
    /^```$/ { inside = 0 }
    inside { print > file }' "$page"
done
failures=0 blocks=0
for block in "$scratch"/*.cpp; do
  blocks=$((blocks + 1))
  if ! "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Werror -I"$include" "$block"; then
    echo "a C++ block of the page $(basename "$block") does not compile"
    failures=1
  fi
done
echo "$blocks blocks"
[ "$blocks" -gt 0 ] && exit $failures
