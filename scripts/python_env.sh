#!/bin/bash
# Gets the Python packages of scripts/python.lock: the tokenizers library that
# `stagecoach data prepare` and `stagecoach generate` use, and the tests with the
# tag "python". Safe to run again: what is there already is left alone. Python's
# own packages are not touched.
#
#   scripts/python_env.sh           prints the folder that holds the packages
#   scripts/python_env.sh --transformers
#                                   makes a virtual environment with transformers and
#                                   PyTorch instead (scripts/transformers.lock), for
#                                   the tests that compare with them; 1.9 GB; needs
#                                   the libraries of a CUDA 13 toolkit, not a GPU
#
# Environment:
#   STAGECOACH_WHEELS   where downloaded wheels are kept
#                       (default ~/.cache/stagecoach-wheels)
#   XDG_CACHE_HOME      the packages go to stagecoach-python/ in it
#                       (default ~/.cache); the stagecoach command looks there
#   CUDA_HOME           the toolkit (default /usr/local/cuda)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
source scripts/lib.sh

readonly CACHE="${XDG_CACHE_HOME:-$HOME/.cache}"
readonly WHEELS="${STAGECOACH_WHEELS:-$CACHE/stagecoach-wheels}"
readonly LOCK=scripts/python.lock
readonly LINK="$PWD/.deps/python"

die() {
  printf 'python_env: %s\n' "$*" >&2
  exit 1
}

# The wheel with this hash among those that were downloaded, if there is one.
wheel_with() {
  local sum file
  while read -r sum file; do
    if [[ $sum == "$1" ]]; then printf '%s\n' "$file"; fi
  done < <(find "$WHEELS" -name 'tokenizers-*.whl' -exec sha256sum {} +) | head -n 1
}

# pip checks the file against the lock's hash.
download() {
  local attempt
  for attempt in 1 2 3; do
    if python3 -m pip download --no-deps --no-cache-dir --require-hashes \
      --only-binary=:all: --disable-pip-version-check --progress-bar off --quiet \
      --implementation cp --python-version 3.11 --abi abi3 --platform manylinux_2_17_x86_64 \
      -d "$WHEELS" -r "$LOCK" >&2; then
      return
    fi
    printf 'python_env: download: attempt %s of 3 failed\n' "$attempt" >&2
    sleep 3
  done
  die "could not download the wheels of $LOCK: look at the network and pip's settings"
}

unpack() {
  local wheel=$1 folder=$2
  rm -rf "$folder.new"
  mkdir -p "$folder.new"
  unzip -qo "$wheel" -d "$folder.new" || die "could not unpack $wheel: is the disk full?"
  PYTHONPATH="$folder.new" python3 -c 'import tokenizers' ||
    die "the tokenizers library does not load in $(command -v python3)"
  rm -rf "$folder"
  mv "$folder.new" "$folder"
}

# With all packages of the lock, or not at all.
make_transformers() {
  local folder="$CACHE/stagecoach-transformers" lock=scripts/transformers.lock
  local libraries="${CUDA_HOME:-/usr/local/cuda}/lib64"
  [[ -e $libraries/libcublas.so.13 ]] ||
    die "PyTorch wants a CUDA 13 toolkit's libraries, and $libraries has none; set CUDA_HOME"
  mkdir -p "$CACHE" "$WHEELS" .deps
  exec 9>"$CACHE/stagecoach-transformers.lock"
  flock 9 # another checkout may be at work
  if ! cmp -s "$lock" "$folder/made-of"; then
    rm -rf "$folder"
    python3 -m venv "$folder" || die "python3 cannot make a virtual environment"
    # The wheels that scripts/setup.sh has downloaded serve here too.
    "$folder/bin/python" -m pip install --no-deps --only-binary=:all: --quiet \
      --disable-pip-version-check --progress-bar off --find-links "$WHEELS" -r "$lock" >&2 ||
      die "could not install what $lock names: look at the network and pip's settings"
    LD_LIBRARY_PATH="$libraries" "$folder/bin/python" -c 'import torch, transformers' ||
      die "transformers was installed in $folder, but cannot be imported"
    cp "$lock" "$folder/made-of"
  fi
  ln -sfn "$folder" .deps/transformers
  printf '%s\n' "$folder"
}

case "${1:-}" in
  --transformers)
    make_transformers
    exit 0
    ;;
  -h | --help)
    print_usage "${BASH_SOURCE[0]}"
    exit 0
    ;;
  '') ;;
  *) die "unknown argument $1; scripts/python_env.sh --help says what there is" ;;
esac
[[ $(uname -m) == x86_64 ]] || die "the locked wheel is for x86-64, this is $(uname -m)"
command -v python3 >/dev/null || die "there is no python3; scripts/setup.sh installs it"

read -r requirement sum < <(sed -n 's/^\([^# ]*\) --hash=sha256:\([0-9a-f]*\)$/\1 \2/p' "$LOCK")
folder="$CACHE/stagecoach-python/${requirement/==/-}"
mkdir -p "$CACHE/stagecoach-python" "$WHEELS" .deps
exec 9>"$CACHE/stagecoach-python/lock"
flock 9 # another checkout may be at work
if [[ ! -d $folder ]]; then
  wheel=$(wheel_with "$sum")
  if [[ -z $wheel ]]; then
    download
    wheel=$(wheel_with "$sum")
  fi
  [[ -n $wheel ]] || die "pip left no file with the locked hash in $WHEELS"
  unpack "$wheel" "$folder"
fi
if [[ "$(readlink "$LINK" || true)" != "$folder" ]]; then
  ln -sfn "$folder" "$LINK"
  # Bazel looks there only when its server starts.
  bazel --noblock_for_lock shutdown >/dev/null 2>&1 9>&- ||
    printf 'python_env: a build is running: "bazel shutdown" lets Bazel see what is new\n' >&2
fi
printf '%s\n' "$folder"
