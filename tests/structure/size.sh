#!/usr/bin/env bash
# Prints the lines of code of the rooms. A file stays under 400 of them. All together should be at most 8,000: how far
# they are above that is printed, and they may not grow any further. Empty lines and lines of nothing but a comment don't
# count.
set -euo pipefail
cd "$1"
failures=0
total=0

code_lines() { grep -cvE '^[[:space:]]*(//.*)?$' "$1" || true; }

for room in core autograd nn optim training; do
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
budget=8000
now=17500
if [ "$total" -gt "$budget" ]; then echo "above the budget of $budget lines by $((total - budget))"; fi
if [ "$total" -gt "$now" ]; then
  echo "the rooms are above their budget of $budget lines and must not grow beyond $now; got $total"
  failures=1
fi
exit $failures
