#!/bin/bash
# Runs one real job for many steps and prints each worker's allocated, reserved
# and resident bytes along the way: all of them must stay flat.
#
#   scripts/memory_growth.sh [STEPS]     2,000 steps take some minutes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

steps=${1:-2000}
exec bazel test //tests/cluster:memory_test \
  --test_filter='MemoryTest.NothingGrowsOverSteps' --test_output=streamed \
  --nocache_test_results --test_timeout=7200 \
  --test_env="MEMORY_STEPS=$steps"
