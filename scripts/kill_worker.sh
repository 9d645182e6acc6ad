#!/bin/bash
# Kills a worker, another one each time, by SIGKILL, again and again during one
# real job with checkpoints, starts it again, and compares losses and weights
# with those of an undisturbed run.
#
#   scripts/kill_worker.sh [KILLS [SEED]]     20 kills take some minutes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

kills=${1:-20}
seed=${2:-1}
exec bazel test //tests/cluster:recovery_test \
  --test_filter='RecoveryTest.AJobGoesOn*' --test_output=streamed \
  --nocache_test_results --test_timeout=7200 \
  --test_env="RECOVERY_KILLS=$kills" --test_env="RECOVERY_SEED=$seed"
