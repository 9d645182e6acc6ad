#!/bin/bash
# Ends the coordinator, then a worker, by SIGKILL at every named place where a
# crash matters (base/failpoint.h), each in a real job of its own, and compares
# losses and weights with those of an undisturbed run.
#
#   scripts/kill_everywhere.sh             all; some minutes
#   scripts/kill_everywhere.sh SAMPLE SEED that many of them, chosen by SEED
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

filter='All/*FailpointTest.*'
if (($# > 0)); then
  sample=$1
  seed=${2:-1}
  echo "$sample failpoints, seed $seed"
  mapfile -t names < <(grep -o '"\(journal\|coordinator\|worker\)\.[a-z._]*"' \
    base/failpoint.cc | tr -d '"' | tr . _ | sort |
    shuf --random-source=<(yes "$seed") -n "$sample")
  filter=$(printf '*/%s:' "${names[@]}")
fi
exec bazel test --config=failpoints //tests/cluster:restart_test \
  "--test_filter=$filter" --test_output=streamed --nocache_test_results \
  --test_timeout=3600
