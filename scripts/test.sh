#!/bin/bash
# Sets up, builds and runs the tests. The last line is "N passed, N failed"
# (", N skipped" where some were), counted as test cases.
#
#   scripts/test.sh [--long] [BAZEL_FLAG...] [TARGET...]
#
#   --long         the long form of the property tests (STAGECOACH_LONG=1)
#   BAZEL_FLAG     such as --config=asan, --config=tsan, --test_tag_filters=threads
#   TARGET         default //...
#
# Exit code 0 only if at least one test ran and none failed. A build that fails
# counts as one failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
source scripts/lib.sh

flags=() targets=()
for arg in "$@"; do
  case "$arg" in
    -h | --help)
      print_usage "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --long) flags+=(--test_env=STAGECOACH_LONG=1 --test_timeout=3600) ;;
    --*) flags+=("$arg") ;;
    *) targets+=("$arg") ;;
  esac
done
if [[ ${#targets[@]} == 0 ]]; then targets=(//...); fi

events=$(mktemp)
tally='0 passed, 1 failed'
finish() {
  print_phases
  rm -f "$events"
  printf '%s\n' "$tally"
}
trap finish EXIT

phase 'set-up' scripts/setup.sh
# Without them (no network, say) the tests with the tag "python" skip.
phase 'python packages' scripts/python_env.sh || true
phase 'transformers' scripts/python_env.sh --transformers || true
phase 'build' bazel build --keep_going "${bazel_flags[@]}" "${flags[@]}" -- "${targets[@]}"
status=0
phase 'tests' bazel test --keep_going "${bazel_flags[@]}" "${flags[@]}" \
  --build_event_json_file="$events" -- "${targets[@]}" || status=$?
# Bazel knows which targets failed; the test.xml files know how many cases.
counted=$(scripts/count_tests.py "$events") || status=1
tally=${counted##*$'\n'}
printf '\n%s' "${counted%"$tally"}"
exit "$status"
