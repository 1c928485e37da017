#!/usr/bin/env bash
# run.sh <program>: it must exit 0, and its last line must be "ok".
set -euo pipefail
output=$("$1") || {
  status=$?
  echo "$output"
  exit $status
}
echo "$output"
[ "$(tail -n 1 <<< "$output")" = ok ]
