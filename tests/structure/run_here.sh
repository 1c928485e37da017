#!/usr/bin/env bash
# examples/run.sh runs the program in the folder that it is called in, by a name that works there, with the arguments as
# they are. Nothing is installed or built: setup.sh's functions and the program are stand-ins.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tree="$scratch/source tree" caller="$scratch/caller's folder"
mkdir -p "$tree/examples" "$tree/cmake" "$tree/build/examples" "$caller"
cp "$1/examples/run.sh" "$tree/examples"
{
  cat "$1/cmake/setup.sh"
  echo 'setup_packages() { :; }; setup_configure() { :; }; setup_build() { :; }'
} > "$tree/cmake/setup.sh"
printf '#!/usr/bin/env bash\nprintf "%%s\\n" "$PWD" "$0" "$@"\n' > "$tree/build/examples/toy_lm"
chmod +x "$tree/build/examples/toy_lm"

expect() {  # <folder> <script> <expected arguments> [arguments...]
  local folder=$1 script=$2 arguments=$3 got
  shift 3
  got=$(cd "$folder" && bash "$script" "$@")
  if [ "$got" != "$folder"$'\n'"$tree/build/examples/toy_lm"$'\n'"$arguments" ]; then
    echo "run.sh in '$folder' ran '$got'"
    exit 1
  fi
}
expect "$tree" examples/run.sh $'train\n--overwrite'
expect "$caller" "$tree/examples/run.sh" $'train\n--text\na b.txt' train --text 'a b.txt'
expect "$caller" "../source tree/examples/run.sh" $'train\n--overwrite'
