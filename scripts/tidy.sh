#!/bin/bash
# clang-tidy over the whole tree, or over some of it. Findings are errors.
#
#   scripts/tidy.sh                    every .cc file that Bazel builds
#   scripts/tidy.sh FILE...            these
#   scripts/tidy.sh --changed COMMIT   the .cc files that differ from COMMIT, or
#                                      whose header does
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
source scripts/lib.sh

die() {
  printf 'tidy: %s\n' "$*" >&2
  exit 1
}

# The .cc files that Bazel builds, out of those named on standard input.
built() {
  LC_ALL=C sort -u | LC_ALL=C comm -12 - <(sed -n 's/^  "file": "\(.*\)",\{0,1\}$/\1/p' compile_commands.json | LC_ALL=C sort -u)
}

changed_since() {
  git diff --name-only --diff-filter=d "$1" -- '*.cc' '*.h' | sed 's/\.h$/.cc/'
}

case "${1:-}" in
  -h | --help)
    print_usage "${BASH_SOURCE[0]}"
    exit 0
    ;;
  --changed) [[ $# == 2 ]] || die '--changed wants one commit' ;;
esac
command -v clang-tidy-14 >/dev/null || die 'no clang-tidy-14; run scripts/setup.sh --dev'

# Generated headers must be there; nothing else has to be compiled.
bazel build "${bazel_flags[@]}" --config=clang --keep_going \
  --output_groups=compilation_prerequisites_INTERNAL_ //... ||
  die 'the build files or the generated headers do not build'
scripts/compdb.py --config=clang

case "${1:-}" in
  '') mapfile -t files < <(code_files | built) ;;
  --changed) mapfile -t files < <(changed_since "$2" | built) ;;
  *) files=("$@") ;;
esac
echo "tidy: ${#files[@]} files"
[[ ${#files[@]} != 0 ]] || exit 0
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$(nproc)" clang-tidy-14 --quiet --warnings-as-errors='*' -p . \
    2> >(grep -v ' warnings\{0,1\} generated.$' >&2)
