#!/bin/bash
# One real job under faults, one every 15 s: workers and the coordinator are
# killed, stand still, are told to end. Compares losses and weights with those of
# an undisturbed run, prints what happened and the share of useful time, and fails
# below 90 %: the number of steps that were kept, times the median's length, by
# the time that all took.
#
#   scripts/chaos_soak.sh [MINUTES [SEED]]     30 minutes if nothing is said
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

minutes=${1:-30}
seed=${2:-1}
exec bazel test //tests/faults:chaos_test --test_output=streamed \
  --nocache_test_results --test_timeout=$((minutes * 600 + 1800)) \
  --test_env="CHAOS_SECONDS=$((minutes * 60))" --test_env="CHAOS_SEED=$seed" \
  --test_env=CHAOS_USEFUL=90
