#!/bin/bash
# Kills the coordinator again and again, by SIGKILL, during one real job, and
# compares its losses and weights with those of an undisturbed run.
#
#   scripts/kill_coordinator.sh [KILLS [SEED]]     100 kills take some minutes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

kills=${1:-100}
seed=${2:-1}
exec bazel test //tests/cluster:restart_test \
  --test_filter='RestartTest.AJobGoesOn*' --test_output=streamed \
  --nocache_test_results --test_timeout=7200 \
  --test_env="RESTART_KILLS=$kills" --test_env="RESTART_SEED=$seed"
