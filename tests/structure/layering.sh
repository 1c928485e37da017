#!/usr/bin/env bash
# Who may include whom: core <- autograd <- nn, autograd <- optim; training sees them all; and xtensor in one public header
# alone.
set -euo pipefail
cd "$1"
failures=0

# forbid <what is wrong> <pattern of included names> <files...>: no file may include a header that matches.
forbid() {
  local what=$1 pattern=$2 found
  shift 2
  if found=$(grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]($pattern)" "$@" /dev/null); then
    echo "$what:"
    echo "$found"
    failures=1
  fi
}

room() { find "$@" -name '*.[ch]pp'; }

mapfile -t core < <(room core)
mapfile -t autograd < <(room autograd)
mapfile -t nn < <(room nn)
mapfile -t optim < <(room optim)
mapfile -t training < <(room training)
# Kernels are private, and so is a header that needs them; the others are what users get.
mapfile -t public < <(find ./*.hpp core autograd nn optim training -name '*.hpp' -not -path 'core/kernels/*' -not -path ./xtensor.hpp \
                           -exec grep -L '<tapegrad/core/kernels/' {} +)
private=$(find autograd nn optim training core -name '*.hpp' -not -path 'core/kernels/*' -exec grep -l '<tapegrad/core/kernels/' {} + | paste -sd '|')
everything=("${core[@]}" "${autograd[@]}" "${nn[@]}" "${optim[@]}" "${training[@]}" ./*.hpp)

forbid "core sees nothing but core" 'tapegrad/(autograd|nn|optim|training|tapegrad\.hpp|xtensor\.hpp)' "${core[@]}"
forbid "autograd sees core and autograd" 'tapegrad/(nn|optim|training|tapegrad\.hpp|xtensor\.hpp)' "${autograd[@]}"
forbid "nn sees core, autograd and nn" 'tapegrad/(optim|training|tapegrad\.hpp|xtensor\.hpp)' "${nn[@]}"
forbid "optim sees core, autograd and optim" 'tapegrad/(nn|training|tapegrad\.hpp|xtensor\.hpp)' "${optim[@]}"
forbid "training sees all of them" 'tapegrad/(tapegrad\.hpp|xtensor\.hpp)' "${training[@]}"
forbid "nothing sees tests or examples" '(tapegrad/|\.\./|.*/)?(tests|examples)/' "${everything[@]}"
forbid "only xtensor.hpp shows xtensor to users" '(xtensor|xtl|xsimd|xflens|xtensor-blas)/' "${public[@]}"
forbid "private headers are for the library alone" "tapegrad/(core/kernels/${private:+|$private})" "${public[@]}"
forbid "includes in the library are written <tapegrad/...>" '(core|autograd|nn|optim|training)/' "${everything[@]}"
exit $failures
