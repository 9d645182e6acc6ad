#!/bin/bash
# Runs a job on two workers that share nothing but a network: each has a network
# namespace of its own, with a virtual cable between them. Shows the path that
# its edges take, and compares losses and weights with those of a run on shared
# memory. Says so and ends with 0 where this machine does not let us make network
# namespaces (needs root and iproute2).
#
#   scripts/two_namespaces.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! { command -v ip && command -v nsenter && unshare --net true; } \
  >/dev/null 2>&1; then
  echo 'two_namespaces: skipped: this machine does not let us make network' \
    'namespaces (needs root and iproute2)'
  exit 0
fi
exec bazel test //tests/cluster:transports_test \
  --test_filter='NamespacesTest.*' \
  --test_output=streamed --nocache_test_results
