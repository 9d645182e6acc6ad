#!/bin/bash
# Fills the disk at each write of a small journal and of a checkpoint, flips bits
# and cuts at every offset of a journal, a manifest and a header of safetensors,
# under AddressSanitizer, and prints how much of it was noticed.
#
#   scripts/damage_table.sh      some minutes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

exec bazel test --config=asan --config=failpoints --test_output=all \
  --nocache_test_results //coordinator/journal:journal_damage_test \
  //coordinator/journal:journal_fault_test \
  //stage_worker/checkpoint:folders_test \
  //stage_worker/checkpoint:manifest_test \
  //stage_worker/checkpoint:safetensors_header_test
