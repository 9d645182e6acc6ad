#!/bin/bash
# Runs the fuzz targets, each on one core.
#
#   scripts/fuzz.sh [--seconds N] [--jobs N] [--keep] [TARGET...]
#
#   --seconds N    of fuzzing for each target; default 600
#   --jobs N       this many targets at once; default 1
#   --keep         adds inputs that reach new code to the committed corpora
#   TARGET         such as //job:parse_fuzz; default all
#
# Starts from the corpora in the tree and from what earlier runs found, which is
# kept in ~/.cache/stagecoach-fuzz. Prints per target: executions, edges of the
# code reached, inputs in the corpus, findings. A finding is made as small as
# possible and left in TARGET_corpus/, where TARGET_corpus_test replays it from
# then on: fix it, write a test of what went wrong, commit both. Exit code 1 if
# there were findings.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
source scripts/lib.sh

seconds=600 jobs=1 keep=false targets=()
while (($#)); do
  case "$1" in
    -h | --help)
      print_usage "${BASH_SOURCE[0]}"
      exit 0
      ;;
    --seconds)
      seconds=${2:?--seconds wants a number}
      shift
      ;;
    --jobs)
      jobs=${2:?--jobs wants a number}
      shift
      ;;
    --keep) keep=true ;;
    *) targets+=("$1") ;;
  esac
  shift
done
command -v clang-14 >/dev/null || {
  echo 'fuzz: no clang-14; run scripts/setup.sh --dev' >&2
  exit 1
}
# A finding also ends with a stack: symbols make it readable.
ASAN_SYMBOLIZER_PATH=$(command -v llvm-symbolizer-14 || true)
export ASAN_SYMBOLIZER_PATH
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=0
export UBSAN_OPTIONS=print_stacktrace=1

if [[ ${#targets[@]} == 0 ]]; then
  mapfile -t targets < <(bazel query "${bazel_flags[@]}" \
    'attr(tags, "\bfuzz\b", kind("cc_binary rule", //...))' 2>/dev/null)
fi
[[ ${#targets[@]} != 0 ]] || {
  echo 'fuzz: no targets' >&2
  exit 1
}
bazel build "${bazel_flags[@]}" --config=fuzz -- "${targets[@]}"
bin=$(bazel info --config=fuzz bazel-bin 2>/dev/null)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# statistic NAME LOG: of libFuzzer's -print_final_stats.
statistic() {
  sed -n "s/^stat::$1: *//p" "$2" | tail -n 1
}

# minimise PROGRAM INPUT CORPUS FOLDER: the smallest input that fails likewise.
minimise() {
  local program=$1 input=$2 corpus=$3 small=$4/small
  cp "$input" "$small"
  "$program" -minimize_crash=1 -max_total_time=60 -exact_artifact_path="$small.next" \
    "$input" >"$4/minimise.log" 2>&1 || true
  if [[ -s $small.next ]]; then mv "$small.next" "$small"; fi
  cp "$small" "$corpus/finding_$(sha256sum "$small" | cut -c1-12)"
}

# fuzz TARGET: its line of the report and its findings, in a folder of its own.
fuzz() {
  local target=$1 name program folder corpus found log options status=0 findings=0 input edges inputs
  name=${target#//}
  name=${name/:/\/}
  program=$bin/$name
  folder=$work/${name//\//_}
  corpus=$PWD/${name}_corpus
  found=${XDG_CACHE_HOME:-$HOME/.cache}/stagecoach-fuzz/$name
  log=$folder/log
  options=(-max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -print_final_stats=1
    -artifact_prefix="$folder/" -close_fd_mask=1)
  if [[ -f $name.dict ]]; then options+=(-dict="$name.dict"); fi
  mkdir -p "$folder" "$found" "$corpus"
  printf '%s %s\n' "$(date +%T)" "$target"
  "$program" "${options[@]}" "$found" "$corpus" >"$log" 2>&1 || status=$?
  for input in "$folder"/{crash,leak,oom,timeout}-*; do
    [[ -e $input ]] || continue
    findings=$((findings + 1))
    minimise "$program" "$input" "$corpus" "$folder"
  done
  if ((status != 0)); then
    if ((findings == 0)); then findings=1; fi
    tail -n 60 "$log"
  fi
  if $keep; then "$program" -merge=1 "$corpus" "$found" >"$folder/merge.log" 2>&1; fi
  edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  inputs=$(find "$corpus" -type f | wc -l)
  printf '%-42s %12s %8s %8s %9s\n' "$target" \
    "$(statistic number_of_executed_units "$log")" "$edges" "$inputs" "$findings" >"$folder/report"
}

for target in "${targets[@]}"; do
  while (($(jobs -rp | wc -l) >= jobs)); do wait -n; done
  fuzz "$target" &
done
wait

printf '\n%-42s %12s %8s %8s %9s\n' target executions edges corpus findings
cat "$work"/*/report
awk '{ findings += $NF; targets++ } END { exit findings != 0 || targets != wanted }' \
  wanted="${#targets[@]}" "$work"/*/report
