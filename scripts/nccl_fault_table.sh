#!/bin/bash
# Runs one job for each failure that the NCCL host emulator can be told to have,
# and prints what the user sees and after how many seconds.
#
#   scripts/nccl_fault_table.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec bazel test //tests/cluster:nccl_fault_table_test --test_output=streamed \
  --nocache_test_results
