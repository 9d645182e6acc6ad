#!/bin/bash
# From a bare Debian 12 to a GPT-style model that trains on real text, over four
# worker processes under a coordinator, all on this machine.
#
#   scripts/quickstart.sh          trains on the licence texts that Debian ships
#   scripts/quickstart.sh FILE     trains on your own text, read as bytes
#
# Does the set-up (scripts/setup.sh), the build and the run, and says how many
# minutes each took. The exit code is the run's.
set -euo pipefail
from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
source scripts/lib.sh

readonly LICENCES=/usr/share/common-licenses
readonly SPEC=examples/gpt_on_text.toml
# About two steps of the example; the job itself refuses what is too short.
readonly MINIMUM_BYTES=4096

die() {
  printf 'quickstart: %s\n' "$*" >&2
  exit 2
}

# The licence texts, always in the same order: the same bytes on every machine
# with the same Debian.
write_corpus() {
  [[ -d $LICENCES ]] ||
    die "$LICENCES is not there (it is on every Debian): give a text file of your own"
  mkdir -p .quickstart
  find "$LICENCES" -type f -print0 | LC_ALL=C sort -z | xargs -0 cat >.quickstart/corpus.new
  mv .quickstart/corpus.new .quickstart/corpus.txt
}

check_text() {
  local bytes
  [[ -e $1 ]] || die "$1: no such file"
  [[ -f $1 ]] || die "$1: not a regular file"
  [[ -r $1 ]] || die "$1: not readable"
  bytes=$(stat -Lc %s "$1")
  ((bytes >= MINIMUM_BYTES)) ||
    die "$1: only $bytes bytes; give a text of $MINIMUM_BYTES or more"
}

build() {
  bazel build "${bazel_flags[@]}" \
    //client:stagecoach //coordinator:stagecoach-coordinator //stage_worker:stagecoach-worker
}

train() {
  bazel-bin/client/stagecoach run "$SPEC" --local "${settings[@]}"
}

settings=()
[[ $# -le 1 ]] || die "one file at most; scripts/quickstart.sh --help"
case "${1:-}" in
  '') ;;
  -h | --help)
    print_usage "${BASH_SOURCE[0]}"
    exit 0
    ;;
  -*) die "unknown argument $1; scripts/quickstart.sh --help" ;;
  *)
    text=$(cd "$from" && realpath -m -- "$1")
    check_text "$text"
    settings=(--set "data.path=$text")
    ;;
esac
if [[ ${#settings[@]} == 0 ]]; then write_corpus; fi

trap print_phases EXIT
phase 'set-up' scripts/setup.sh
phase 'build' build
phase 'run' train
