#!/bin/bash
# Line coverage of our code by its tests, per file and per folder.
#
#   scripts/coverage.sh [TARGET...]     default //...
#
# Writes coverage/coverage.txt, coverage/coverage.csv and coverage/index.html.
# Only code that the targets build is counted.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
source scripts/lib.sh

case "${1:-}" in
  -h | --help)
    print_usage "${BASH_SOURCE[0]}"
    exit 0
    ;;
esac
command -v gcovr >/dev/null || {
  echo 'coverage: no gcovr; run scripts/setup.sh --dev' >&2
  exit 1
}
root=$PWD
out=$root/coverage
targets=("$@")
if [[ ${#targets[@]} == 0 ]]; then targets=(//...); fi
rm -rf coverage
mkdir coverage
# Outside the workspace: Bazel would take //... to mean this as well.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/counts" "$work/tree/bazel-out"

# Bazel compiles in /proc/self/cwd, which is baked into the objects as the place
# to write counts to: GCOV_PREFIX_STRIP takes it off, GCOV_PREFIX says where.
status=0
bazel test "${bazel_flags[@]}" --config=cov \
  --test_env=GCOV_PREFIX="$work/counts" --test_env=GCOV_PREFIX_STRIP=3 \
  -- "${targets[@]}" || status=$?
[[ $status == 0 || $status == 3 ]] || exit "$status" # 3: a test failed

# One folder where our folders, bazel-out/ and external/ all resolve, as gcov
# wants it: counts (.gcda) beside what the compiler left (.gcno).
execroot=$(bazel info --config=cov execution_root 2>/dev/null)
base=$(bazel info --config=cov output_base 2>/dev/null)
mapfile -t folders < <(code_files | cut -d/ -f1 | uniq)
for folder in "${folders[@]}"; do ln -s "$root/$folder" "$work/tree/"; done
ln -s "$base/external" "$work/tree/"
cp -r "$work/counts/bazel-out/." "$work/tree/bazel-out/"
(
  cd "$execroot/bazel-out"
  find . -path './*-cov/bin/*' -name '*.gcno' \
    -exec cp --parents -t "$work/tree/bazel-out" {} +
)

filters=()
for folder in "${folders[@]}"; do filters+=(--filter "$root/$folder/"); done
cd "$work/tree"
gcovr --root . "${filters[@]}" --exclude '.*_(test|bench|fuzz)[._].*' --exclude 'bazel/.*' --exclude '.*/testing/.*' \
  --exclude 'tests/.*' --gcov-ignore-parse-errors \
  --txt "$out/coverage.txt" --csv "$out/coverage.csv" --html-details "$out/index.html" \
  bazel-out 2>"$out/gcovr.log" || {
  tail -5 "$out/gcovr.log" >&2
  exit 1
}
cat "$out/coverage.txt"
awk -F, '
  NR > 1 { folder = $1; sub("/[^/]*$", "", folder); lines[folder] += $2; run[folder] += $3 }
  END { for (f in lines) printf "%-40s %6d lines %5.1f %%\n", f, lines[f], 100 * run[f] / lines[f] }
' "$out/coverage.csv" | LC_ALL=C sort
exit "$status"
