# shellcheck shell=bash
# Sourced by the scripts beside it: usage texts, phases with their minutes, our
# code's files, and Bazel's flags where nobody is watching.

# The comment block at the top of a script, for --help.
print_usage() {
  sed -n '2,/^[^#]/ s/^# \{0,1\}//p' "$1"
}

phase_names=()
phase_seconds=()
phase_results=()

# phase NAME COMMAND...: runs the command and keeps how long it took and how it
# ended. Returns the command's status.
phase() {
  local name=$1 start=$SECONDS status=0 result=ok
  shift
  printf '\n== %s\n' "$name"
  "$@" || status=$?
  if [[ $status != 0 ]]; then result="failed ($status)"; fi
  note_phase "$name" $((SECONDS - start)) "$result"
  return "$status"
}

# note_phase NAME SECONDS RESULT
note_phase() {
  phase_names+=("$1")
  phase_seconds+=("$2")
  phase_results+=("$3")
}

# One line a phase, and their sum.
print_phases() {
  local i total=0
  printf '\n%-24s %8s  %s\n' phase minutes result
  for i in "${!phase_names[@]}"; do
    print_phase "${phase_names[i]}" "${phase_seconds[i]}" "${phase_results[i]}"
    total=$((total + phase_seconds[i]))
  done
  print_phase 'all' "$total" ''
}

print_phase() {
  local minutes=$(($2 / 60)) tenths=$(($2 % 60 / 6))
  printf '%-24s %8s  %s\n' "$1" "$minutes.$tenths" "$3"
}

# Our C++ and protobuf files.
code_files() {
  find . -name '.?*' -prune -o \
    -type f \( -name '*.cc' -o -name '*.h' -o -name '*.proto' \) -print |
    sed 's|^\./||' | LC_ALL=C sort
}

# For every bazel command whose output goes to a log: progress twice a minute.
# shellcheck disable=SC2034
{
  bazel_flags=()
  if [[ ! -t 2 ]]; then bazel_flags=(--color=no --show_progress_rate_limit=30); fi
}
