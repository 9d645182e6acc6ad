#!/bin/bash
# A real job whose worker and coordinator do not hear each other, one way, the
# other way, both ways, shorter and longer than `dead`; whose connection is cut
# or slow; whose worker is stopped for 1, 10 and 60 s. Prints what that did to
# the job's placement, and compares the result with an undisturbed run.
#
#   scripts/partition_table.sh      some minutes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

exec bazel test //tests/faults:partition_test --test_output=streamed \
  --nocache_test_results --test_timeout=3600 --test_env=PARTITION_LONG=1
