#!/bin/bash
# Prepares a Debian 12 machine to build this repository. Safe to run again: what
# is there already is left alone.
#
#   scripts/setup.sh            build and test tools, libraries, libtorch
#   scripts/setup.sh --dev      also clang, clang-format, clang-tidy, gcovr, shellcheck
#   scripts/setup.sh --ucx      also UCX, for the transport ucx (docs/ucx.md)
#   scripts/setup.sh --no-apt   only libtorch (the Debian packages are there)
#
# Neither a GPU nor a CUDA toolkit is needed. Environment:
#   STAGECOACH_GPU=0|1   overrides the look for a GPU (1 adds about 2 GB of CUDA
#                        libraries)
#   STAGECOACH_WHEELS    where downloaded wheels are kept, shared by all checkouts
#                        (default ~/.cache/stagecoach-wheels)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lib.sh
source scripts/lib.sh

readonly WHEELS="${STAGECOACH_WHEELS:-${XDG_CACHE_HOME:-$HOME/.cache}/stagecoach-wheels}"
readonly TORCH="$PWD/.deps/torch"

# The one list of Debian packages.
BUILD_PACKAGES=(
  bazel-bootstrap g++ lld pkg-config unzip ca-certificates openssl python3 python3-pip
  protobuf-compiler protobuf-compiler-grpc
  libabsl-dev libbenchmark-dev libcli11-dev libgmock-dev libgrpc++-dev libgtest-dev
  libprotobuf-dev libspdlog-dev libsqlite3-dev libssl-dev libtomlplusplus-dev nlohmann-json3-dev
  zlib1g-dev
)
DEV_PACKAGES=(
  clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev gcovr git shellcheck
)
UCX_PACKAGES=(libucx-dev)

changed=0

say() { printf '[setup %3ds] %s\n' "$SECONDS" "$*"; }
die() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

# ---- Debian packages ---------------------------------------------------------

packages() {
  local wanted=("${BUILD_PACKAGES[@]}") missing=() package
  command -v apt-get >/dev/null ||
    die "no apt-get: this script knows Debian 12. Elsewhere install the libraries listed in scripts/setup.sh, then run it with --no-apt"
  grep -qs '^VERSION_CODENAME=bookworm' /etc/os-release ||
    say "this is not Debian 12 (bookworm), for which the package names are"
  if [[ $dev == 1 ]]; then wanted+=("${DEV_PACKAGES[@]}"); fi
  if [[ $ucx == 1 ]]; then wanted+=("${UCX_PACKAGES[@]}"); fi
  for package in "${wanted[@]}"; do
    [[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" == installed ]] ||
      missing+=("$package")
  done
  if [[ ${#missing[@]} == 0 ]]; then
    say "Debian packages: all ${#wanted[@]} are there"
    return
  fi
  say "Debian packages to install: ${missing[*]}"
  install_packages "${missing[@]}"
  changed=1
  say "Debian packages: installed ${#missing[@]}"
}

install_packages() {
  local root=() log="$PWD/.deps/apt.log"
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null || die "not root and no sudo. As root: apt-get install $*"
    root=(sudo)
  fi
  "${root[@]}" apt-get update -q >"$log" 2>&1 || apt_failed update "$log"
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -yq --no-install-recommends "$@" >"$log" 2>&1 ||
    apt_failed install "$log"
}

apt_failed() {
  tail -20 "$2" >&2
  die "apt-get $1 failed (the whole log is $2): look at the network and /etc/apt/sources.list, then run this again"
}

# ---- libtorch ----------------------------------------------------------------

have_gpu() {
  case "${STAGECOACH_GPU:-}" in
    0) return 1 ;;
    1) return 0 ;;
  esac
  [[ -e /dev/nvidia0 ]]
}

# "name==version sha256" for each wheel of the lock files.
locked() {
  sed -n 's/^\([^# ]*\) --hash=sha256:\([0-9a-f]*\)$/\1 \2/p' "$@"
}

# Fills wheel_of: name==version -> file, for the locked wheels that are here and
# have the right hash. True if none is missing.
declare -A wheel_of
find_wheels() {
  local -A file_of=()
  local sum file requirement complete=0
  while read -r sum file; do
    file_of[$sum]=$file
  done < <(find "$WHEELS" -name '*.whl' -exec sha256sum {} +)
  while read -r requirement sum; do
    wheel_of[$requirement]=${file_of[$sum]:-}
    [[ -n "${wheel_of[$requirement]}" ]] || complete=1
  done < <(locked "$@")
  return "$complete"
}

# pip checks every file against the lock's hash, also one that is already there.
download() {
  local attempt lock requirements=()
  for lock in "$@"; do requirements+=(-r "$lock"); done
  for attempt in 1 2 3; do
    if /usr/bin/python3 -m pip download --no-deps --no-cache-dir --require-hashes \
      --only-binary=:all: --disable-pip-version-check --progress-bar "$progress_bar" \
      --implementation cp --python-version 3.11 --abi cp311 --abi none \
      --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 \
      --platform manylinux_2_25_x86_64 --platform manylinux_2_17_x86_64 \
      --platform manylinux2014_x86_64 \
      -d "$WHEELS" "${requirements[@]}"; then
      return
    fi
    say "download: attempt $attempt of 3 failed"
    sleep 3
  done
  die "could not download the wheels of $*: look at the network and pip's settings. Where pip says that hashes do not match, the file it was given is damaged or was changed upstream"
}

# unpack WHEEL MEMBER...: the wheel is named as in the lock file.
unpack() {
  local wheel=${wheel_of[$1]}
  shift
  unzip -qo "$wheel" "$@" -d "$TORCH.new" ||
    die "could not unpack $wheel: is the disk full? ($(df -Ph "$PWD" | awk 'NR==2 {print $4}') free)"
}

unpack_cpu() {
  local requirement
  for requirement in "${!wheel_of[@]}"; do
    case "$requirement" in
      torch==*)
        unpack "$requirement" 'torch/include/ATen/*' 'torch/include/c10/*' \
          'torch/include/caffe2/*' 'torch/include/torch/*' \
          torch/lib/libtorch_cpu.so torch/lib/libc10.so torch/lib/libgomp.so.1
        ;;
      nvidia-cuda-runtime==*)
        unpack "$requirement" 'nvidia/cu13/lib/*.so*' 'nvidia/cu13/include/*'
        ;;
      nvidia-cuda-crt==*) unpack "$requirement" 'nvidia/cu13/include/*' ;;
      nvidia-cuda-cupti==*) unpack "$requirement" 'nvidia/cu13/lib/libcupti.so*' ;;
    esac
  done
}

unpack_cuda() {
  local requirement
  for requirement in "${!wheel_of[@]}"; do
    case "$requirement" in
      torch==*)
        unpack "$requirement" torch/lib/libtorch_cuda.so torch/lib/libtorch_cuda_linalg.so \
          torch/lib/libc10_cuda.so torch/lib/libtorch_nvshmem.so torch/lib/libcaffe2_nvrtc.so
        ;;
      nvidia-nccl-*) unpack "$requirement" 'nvidia/*/lib/*.so*' 'nvidia/*/include/*' ;;
      nvidia-*) unpack "$requirement" 'nvidia/*/lib/*.so*' ;;
    esac
  done
}

libtorch() {
  local locks=(scripts/torch.lock) variant=cpu stamp unresolved
  if have_gpu; then
    variant=cuda
    locks+=(scripts/torch-cuda.lock)
  fi
  stamp="$variant $(cat "${locks[@]}" | sha256sum | cut -d' ' -f1)"
  if [[ "$(cat "$TORCH/stamp" 2>/dev/null)" == "$stamp" ]]; then
    say "libtorch ($variant): already unpacked"
    return
  fi
  [[ $(uname -m) == x86_64 ]] || die "the locked wheels are for x86-64, this is $(uname -m)"
  mkdir -p "$WHEELS"
  if find_wheels "${locks[@]}"; then
    say "libtorch ($variant): the wheels are in $WHEELS"
  else
    say "libtorch ($variant): downloading wheels into $WHEELS"
    download "${locks[@]}"
    find_wheels "${locks[@]}" || die "pip left no file with the locked hash in $WHEELS"
  fi

  say "libtorch ($variant): unpacking"
  rm -rf "$TORCH.new"
  mkdir -p "$TORCH.new"
  unpack_cpu
  if [[ $variant == cuda ]]; then unpack_cuda; fi
  unresolved=$(ldd "$TORCH.new/torch/lib/libtorch_cpu.so" | grep 'not found' || true)
  [[ -z "$unresolved" ]] || die "libtorch_cpu.so does not load here: $unresolved"
  echo "$stamp" >"$TORCH.new/stamp"
  rm -rf "$TORCH"
  mv "$TORCH.new" "$TORCH"
  changed=1
  say "libtorch ($variant): ready, $(du -sh "$TORCH" | cut -f1)"
}

# Bazel looks at the installed libraries only when its server starts.
restart_bazel() {
  if [[ $changed == 1 ]]; then
    bazel --noblock_for_lock shutdown >/dev/null 2>&1 9>&- ||
      say "a build is running: when it is done, 'bazel shutdown' lets Bazel see what is new"
  fi
}

dev=0 apt=1 ucx=0
for arg in "$@"; do
  case "$arg" in
    --dev) dev=1 ;;
    --ucx) ucx=1 ;;
    --no-apt) apt=0 ;;
    -h | --help)
      print_usage "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *) die "unknown argument $arg; scripts/setup.sh --help lists them" ;;
  esac
done
progress_bar=off
if [[ -t 1 ]]; then progress_bar=on; fi
mkdir -p .deps
exec 9>.deps/lock
flock 9 # another set-up of this checkout may be at work
if [[ $apt == 1 ]]; then packages; fi
libtorch
restart_bazel
say "done"
