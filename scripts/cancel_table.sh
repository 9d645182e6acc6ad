#!/bin/bash
# Cancels a real job while it computes, sends, writes checkpoints, recovers, and
# prints what was left of it: nothing.
#
#   scripts/cancel_table.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

exec bazel test //tests/faults:cancel_test --test_output=streamed \
  --nocache_test_results
