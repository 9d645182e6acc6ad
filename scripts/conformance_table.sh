#!/bin/bash
# Runs the data path's conformance suites, and the tests with two processes, on
# every path, and prints a table: case by path.
#
#   scripts/conformance_table.sh [TRANSFERS [SEED]]
#
# TRANSFERS (600) is how many the random mixture sends, SEED what it is made
# from; the seeds that were drawn are printed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

flags=(--nocache_test_results --test_output=all --keep_going)
if [[ $# -ge 1 ]]; then flags+=("--test_env=SOAK_TRANSFERS=$1"); fi
if [[ $# -ge 2 ]]; then flags+=("--test_env=SOAK_SEED=$2"); fi
tests=(
  loopback:loopback_test
  shm:shm_conformance_test
  shm:shm_two_process_test
  tcp:tcp_conformance_test
  tcp:tcp_two_process_test
  nccl:nccl_conformance_test
  nccl:nccl_two_process_test
)
# Only where UCX was found when the build began.
if [[ -e /usr/include/ucp/api/ucp.h ]]; then
  tests+=(ucx:ucx_conformance_test ucx:ucx_two_process_test)
fi
status=0
bazel test "${flags[@]}" "${tests[@]/#///transport/}" |
  grep -E '^SOAK_SEED=|FAILED' || status=${PIPESTATUS[0]}
logs=$(bazel info bazel-testlogs)
reports=("${tests[@]/#/$logs/transport/}")
reports=("${reports[@]/%//test.xml}")
python3 scripts/conformance_table.py "${reports[@]/://}" || status=$?
exit "$status"
