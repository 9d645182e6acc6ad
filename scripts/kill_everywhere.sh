#!/bin/bash
# Ends the coordinator, then a worker, by SIGKILL at every named place where a
# crash matters (base/failpoint.h), each in a real job of its own, and compares
# losses and weights with those of an undisturbed run; fills the disk at every
# write of a checkpoint.
#
#   scripts/kill_everywhere.sh             all; some minutes
#   scripts/kill_everywhere.sh SAMPLE SEED that many of the deaths, chosen by SEED
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

sample=${1:-0}
seed=${2:-1}
if ((sample > 0)); then echo "$sample failpoints, seed $seed"; fi
exec bazel test --config=failpoints //tests/faults:failpoint_test \
  --test_output=streamed --nocache_test_results --test_timeout=3600 \
  --test_env="FAILPOINT_SAMPLE=$sample" --test_env="FAILPOINT_SEED=$seed"
