#!/usr/bin/env bash
# Prints the lines of code of the four rooms; a file stays under 400 of them, all together under 11,500. Empty lines and
# lines of nothing but a comment don't count.
set -euo pipefail
cd "$1"
failures=0
total=0

code_lines() { grep -cvE '^[[:space:]]*(//.*)?$' "$1" || true; }

for room in core autograd nn optim; do
  sum=0
  while read -r file; do
    lines=$(code_lines "$file")
    sum=$((sum + lines))
    if [ "$lines" -gt 400 ]; then
      echo "$file: a file stays under 400 lines of code; got $lines"
      failures=1
    fi
  done < <(find "$room" -name '*.[ch]pp')
  printf '%-9s %5d lines of code\n' "$room" "$sum"
  total=$((total + sum))
done
printf '%-9s %5d lines of code\n' total "$total"
if [ "$total" -gt 11500 ]; then
  echo "the four rooms stay under 11,500 lines of code together; got $total"
  failures=1
fi
exit $failures
