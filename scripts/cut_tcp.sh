#!/bin/bash
# Cuts the TCP connections of one real job again and again, in the middle of
# transfers, and compares its losses and weights with those over shared memory.
#
#   scripts/cut_tcp.sh [CUTS [SEED]]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cuts=${1:-50}
seed=${2:-1}
exec bazel test //tests/cluster:resend_test --test_output=streamed \
  --nocache_test_results --test_timeout=7200 \
  --test_env="RESEND_CUTS=$cuts" --test_env="RESEND_SEED=$seed"
