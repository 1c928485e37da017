#!/usr/bin/env bash
# Each program of one file has fewer than 120 lines and a section in examples/README.md.
set -uo pipefail
cd "$1/examples" || exit 1
failures=0
for file in *.cpp; do
  lines=$(wc -l < "$file")
  if [ "$lines" -ge 120 ]; then
    echo "examples/$file: an example has fewer than 120 lines; got $lines"
    failures=1
  fi
  if ! grep -qx "## ${file%.cpp}" README.md; then
    echo "examples/README.md: must have a section '## ${file%.cpp}'; got none"
    failures=1
  fi
done
exit $failures
