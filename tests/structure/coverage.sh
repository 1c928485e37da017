#!/usr/bin/env bash
# docs/coverage.md has one row for each demand, and what the rows name is there: files and tests (Suite.Name).
set -uo pipefail
cd "$1" || exit 1
page=docs/coverage.md
failures=0
complain() {
  echo "$page: $1"
  failures=$((failures + 1))
}

for section in S:10 M:13 H:14 E:7 T:11 D:6 P:16 V:5 R:19 F:9; do
  for number in $(seq "${section#*:}"); do
    id=${section%:*}$number
    rows=$(grep -c "^| $id |" "$page")
    [ "$rows" = 1 ] || complain "one row for $id is needed; got $rows"
  done
done

tests=$(grep -rhoE '^TEST(_F|_P)?\([A-Za-z0-9]+, *[A-Za-z0-9_]+' tests | sed -E 's/^TEST(_F|_P)?\(//; s/, */./')
while IFS='|' read -r _ id _ where _; do
  id=${id// /}
  found=0
  while read -r name; do
    if [[ $name =~ ^[A-Za-z0-9]+\.[A-Z][A-Za-z0-9_]+$ ]]; then
      grep -qxF "$name" <<<"$tests" || complain "$id: there is no test $name"
      found=1
    elif [[ $name =~ ^[A-Za-z0-9_./]+\.(cpp|hpp|md|sh)$ ]]; then
      [ -f "$name" ] || complain "$id: there is no file $name"
      found=1
    fi
  done < <(grep -oE '`[^`]+`' <<<"$where" | tr -d '`')
  [ "$found" = 1 ] || complain "$id: a row names a test or a file; got $where"
done < <(grep -E '^\| [A-Z][0-9]+ \|' "$page")
[ "$failures" = 0 ]
