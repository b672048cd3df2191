#!/usr/bin/env bash
# The project's commands. Each installs what is missing (Debian packages), builds in build/ and runs.
#   bash cmake/dev.sh demo [--no-install]   the demo, on the GPU if one is visible, else on the host engine
#   bash cmake/dev.sh test [--no-install]   builds everything and runs the tests
#   bash cmake/dev.sh gpu FOLDER            GPU tests, which must not be skipped, then the benchmark; results go to FOLDER
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

needed="g++ cmake ninja-build libfmt-dev nlohmann-json3-dev libxxhash-dev libcli11-dev libgtest-dev libbenchmark-dev libopenblas-dev libdnnl-dev"
build=build
jobs=$(nproc)

usage() {
  sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}

installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q '^install ok installed$'; }

# Names the missing packages; installs them unless told not to.
packages() {
  command -v dpkg-query >/dev/null || { echo "Not a Debian system: install what corresponds to: $needed" >&2; return 0; }
  local missing="" package
  for package in $needed; do
    installed "$package" || missing="$missing $package"
  done
  [ -n "$missing" ] || return 0
  echo "Debian packages needed:$missing"
  if [ "$install" = no ]; then
    echo "Install them with: apt-get install$missing"
    exit 3  # nothing was built or run
  fi
  local sudo=""
  [ "$(id -u)" = 0 ] || sudo=sudo
  export DEBIAN_FRONTEND=noninteractive
  $sudo apt-get update -qq
  # shellcheck disable=SC2086
  $sudo apt-get install -y -qq --no-install-recommends $missing
}

gpu_visible() { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU'; }

configure() { cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "$@"; }

demo() {
  packages
  if gpu_visible; then
    configure -DATTUNE_CUDA=AUTO -DATTUNE_CUDA_ARCHITECTURES=native
  else
    configure -DATTUNE_CUDA=OFF -DATTUNE_CUDA_ARCHITECTURES="80;90a-real"
  fi
  cmake --build "$build" --target attune_program -j "$jobs"
  "$build/attune" demo
}

run_tests() {
  packages
  configure -DATTUNE_CUDA=AUTO -DATTUNE_CUDA_ARCHITECTURES="80;90a-real"
  cmake --build "$build" -j "$jobs"
  ctest --test-dir "$build" --output-on-failure
}

# Uses build/ as it is if it holds the programs: it may have been built elsewhere.
gpu() {
  local out=$1 failed=0 test shard
  mkdir -p "$out"
  [ -x "$build/attune" ] || { configure -DATTUNE_CUDA=ON -DATTUNE_CUDA_ARCHITECTURES=native; cmake --build "$build" -j "$jobs"; }
  # Most of the time goes into cuDNN's compiler: shards of every program run side by side, the benchmark alone behind them.
  local -r shards=4
  for test in "$build"/tests/gpu_*_test; do
    for ((shard = 0; shard < shards; ++shard)); do echo "$test $shard"; done
  done | ATTUNE_REQUIRE_GPU=1 GTEST_TOTAL_SHARDS=$shards xargs -P "$((jobs < 8 ? jobs : 8))" -L 1 bash -c '
    log=$0/$(basename "$1").$2.log
    GTEST_SHARD_INDEX=$2 timeout 300 "$1" >"$log" 2>&1 || echo "FAILED ($?): $1, shard $2" >>"$log"' "$out"
  local program logs passed
  for test in "$build"/tests/gpu_*_test; do
    program=$(basename "$test")
    logs=("$out/$program".*.log)
    passed=$(awk '/^\[  PASSED/ {n += $4} END {print n + 0}' "${logs[@]}")
    if [ "$passed" = 0 ] || grep -q '^FAILED' "${logs[@]}"; then
      echo "$program: FAILED"
      grep -hE '^FAILED|^\[  FAILED|Failure' "${logs[@]}" | head -n 12 || true
      failed=1
    else
      echo "$program: $passed passed"
    fi
  done
  timeout 480 "$build/attune" bench benchmarks/workloads.csv --device cuda --csv "$out/suite.csv" >"$out/bench.log" 2>"$out/bench.err" || failed=1
  tail -n 40 "$out/bench.log"
  return $failed
}

[ $# -ge 1 ] || usage
command=$1
shift
install=yes
if [ "${1:-}" = --no-install ]; then
  install=no
  shift
fi
case $command in
  demo) demo ;;
  test) run_tests ;;
  gpu) [ $# -eq 1 ] || usage; gpu "$1" ;;
  *) usage ;;
esac
