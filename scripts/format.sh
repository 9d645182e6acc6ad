#!/bin/bash
# clang-format over the whole tree, or over the files named.
#
#   scripts/format.sh [FILE...]            rewrites
#   scripts/format.sh --check [FILE...]    changes nothing, fails on a difference
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
source scripts/lib.sh

check=0
case "${1:-}" in
  -h | --help)
    print_usage "${BASH_SOURCE[0]}"
    exit 0
    ;;
  --check)
    check=1
    shift
    ;;
esac
command -v clang-format-14 >/dev/null || {
  echo 'format: no clang-format-14; run scripts/setup.sh --dev' >&2
  exit 1
}
if [[ $# == 0 ]]; then
  mapfile -t files < <(code_files)
else
  files=("$@")
fi
if [[ $check == 0 ]]; then
  clang-format-14 --style=file -i "${files[@]}"
  exit
fi
mapfile -t wrong < <(
  clang-format-14 --style=file --dry-run "${files[@]}" 2>&1 |
    sed -n 's/:[0-9]*:[0-9]*: warning: .*//p' | uniq
)
echo "format: ${#files[@]} files, ${#wrong[@]} of them to be formatted by scripts/format.sh"
if [[ ${#wrong[@]} != 0 ]]; then
  printf '  %s\n' "${wrong[@]}"
  exit 1
fi
