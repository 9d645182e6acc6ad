#!/bin/bash
# Builds the example outside Stagecoach's tree: one compiler call.
#
#   build.sh HEADERS TORCH [OUTPUT]
#
# HEADERS: the folder that holds stagecoach/plugin.h.
# TORCH: libtorch's folder, with include/ and lib/; of the version that the
# workers have (`stagecoach version` says it).
set -euo pipefail
if [[ $# -lt 2 ]]; then
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"
  exit 2
fi
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
"${CXX:-g++}" -std=c++17 -O2 -fPIC -shared -Wall -fvisibility=hidden \
  -I"$1" -isystem "$2/include" \
  "$here/vision_transformer.cc" -o "${3:-vision_transformer.so}" \
  -L"$2/lib" -ltorch_cpu -lc10
