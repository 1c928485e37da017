#!/usr/bin/env bash
# Installs what the build needs and this machine lacks, configures and builds: functions for examples/run.sh, tests/run.sh
# and .ci/run, which source this file.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

setup_dependencies=(ninja-build libfmt-dev libopenblas-dev libxtensor-dev libxtensor-blas-dev libxsimd-dev
                    nlohmann-json3-dev libcli11-dev libgtest-dev libbenchmark-dev)

# setup_packages [package...]: the dependencies, a compiler, CMake, and the packages named.
setup_packages() {
  local missing=() package sudo=()
  if ! command -v dpkg-query > /dev/null; then
    echo "setup: this is neither Debian nor Ubuntu; nothing is installed, and configuring will tell what is missing" >&2
    return
  fi
  command -v c++ > /dev/null || missing+=(g++)
  command -v cmake > /dev/null || missing+=(cmake)
  for package in "${setup_dependencies[@]}" "$@"; do
    dpkg-query -W -f='${db:Status-Status}\n' "$package" 2> /dev/null | grep -qx installed || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then return; fi
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo > /dev/null || {
      echo "setup: these packages are missing, and without sudo only root can install them: ${missing[*]}" >&2
      exit 1
    }
    sudo=(sudo)
  fi
  echo "setup: installing ${missing[*]}"
  if ! { "${sudo[@]}" apt-get update -q && "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
         apt-get install -y -q --no-install-recommends "${missing[@]}"; } > setup.log 2>&1; then
    tail -20 setup.log >&2
    echo "setup: apt-get could not install ${missing[*]}; the whole log is in setup.log" >&2
    exit 1
  fi
  rm -f setup.log
}

# setup_configure <preset> [cmake options...]
setup_configure() {
  if command -v ccache > /dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
  cmake --preset "$@"
}

# setup_build <preset> [targets...]
setup_build() {
  local preset=$1
  shift
  cmake --build --preset "$preset" -j "$(nproc)" ${1:+--target "$@"}
}

# setup_test <preset> [ctest options...]: runs the tests, and closes with "N passed, N failed" alone on a line.
setup_test() {
  local preset=$1 log status=0 total failed
  shift
  log=$(mktemp)
  ctest --preset "$preset" -j "$(nproc)" "$@" 2>&1 | tee "$log" || status=$?
  read -r failed total < <(sed -nE 's/.*tests passed, ([0-9]+) tests? failed out of ([0-9]+).*/\1 \2/p' "$log") || true
  rm -f "$log"
  if [ -z "${total:-}" ]; then
    echo "ctest --preset $preset ran no test" >&2
    exit 1
  fi
  echo "$((total - failed)) passed, $failed failed"
  if [ "$status" -ne 0 ]; then exit "$status"; fi
}
