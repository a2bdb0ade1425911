#!/bin/sh
# Builds what the tests need and runs every test, with one summary at the end. `make test` and CI call it.
#
#   tests/run_all.sh [JOBS]        JOBS defaults to the number of cores
#
# Three builds, each a folder at the root:
#   build        g++, release: the house rules, the integration tests, and the unit tests that compute; the others, which are
#                marked ONCE, run only in build-asan (`make check` builds and runs all of them)
#   build-asan   clang, AddressSanitizer and UndefinedBehaviorSanitizer: unit tests and fuzz targets; clang's thread-safety
#                analysis is an error in this build
#   build-tsan   clang, ThreadSanitizer: the tests of the folders where threads meet
#
# The quickest to find faults come first: if one of the release build's unit tests fails, everything ends. These and the integration
# tests wait more than they compute, so they run while the sanitizers' builds and tests, at a lower priority, use the cores.
set -eu
cd "$(dirname "$0")/.."
jobs=${1:-$(nproc)}
fuzz_seconds=${ZEROFLEET_FUZZ_SECONDS:-4}
integration=
started=$(date +%s)

say() { printf '\n== [%4d s] %s\n' "$(($(date +%s) - started))" "$*"; }

# run_ctest NAME ARGUMENTS...: runs ctest; its output goes to build/tests-NAME.log too.
run_ctest() {
  name=$1
  shift
  { "$@" || echo "ctest failed"; } 2>&1 | tee "build/tests-$name.log"
}
# passed NAME: whether that run of ctest passed.
passed() { ! grep -q '^ctest failed$' "build/tests-$1.log"; }
totals() { sed -n "s/^\(.*tests passed.*\)$/  $1: \1/p" "build/tests-$1.log"; }

say "release build"
mkdir -p build
# Everything that needs no CUDA is compiled while the toolkit is fetched, where there is none. Then the packages for the comparison
# with Hugging Face transformers are fetched.
scripts/setup.sh cuda >build/cuda-setup.log 2>&1 &
cuda=$!
scripts/build.sh build "$jobs" -DZEROFLEET_TESTS_ONCE=ON -DZEROFLEET_CUDA=OFF zf_coordinator zf_data zf_services_common
if ! wait "$cuda"; then
  tail -n 3 build/cuda-setup.log
  echo "setup: no CUDA toolchain: the GPU code is not compiled, everything else is tested"
fi
scripts/oracle_venv.sh >build/oracle-venv.log 2>&1 &
oracle=$!
scripts/build.sh build "$jobs" -DZEROFLEET_TESTS_ONCE=ON -DZEROFLEET_CUDA=AUTO

# Builds with clang: with AddressSanitizer, UndefinedBehaviorSanitizer, fuzz targets and thread-safety analysis, then with
# ThreadSanitizer. Runs in the background, and ends its children when it is told to end.
build_sanitizers() {
  build=
  trap 'kill $build; exit 1' TERM
  common="-DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=Sanitize sanitized_tests"
  # shellcheck disable=SC2086  # flags
  nice scripts/build.sh build-asan "$jobs" $common -DZEROFLEET_SANITIZE=address,undefined -DZEROFLEET_FUZZERS=ON \
    -DZEROFLEET_FUZZ_SECONDS="$fuzz_seconds" &
  build=$!
  wait "$build" || exit 1
  # shellcheck disable=SC2086
  nice scripts/build.sh build-tsan "$jobs" $common -DZEROFLEET_SANITIZE=thread &
  build=$!
  wait "$build"
}

say "the sanitizers' builds begin (build/sanitizers-build.log); release unit tests and house rules"
build_sanitizers >build/sanitizers-build.log 2>&1 &
builds=$!
trap 'kill "$builds" $integration 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
# One more job than there are cores, since some tests wait more than they compute.
run_ctest unit ctest --test-dir build -L '^(unit|house)$' -j $((jobs + 1)) --output-on-failure
passed unit || exit 1

if ! wait "$oracle"; then
  echo "The check against Hugging Face transformers is skipped; the end of build/oracle-venv.log says why:"
  tail -n 3 build/oracle-venv.log
fi

say "integration tests begin"
ctest --test-dir build -LE '^(unit|house)$' -j "$jobs" --output-on-failure >build/tests-integration.log 2>&1 &
integration=$!
if ! wait "$builds"; then
  tail -n 60 build/sanitizers-build.log
  exit 1
fi

# One ctest run over both sanitizer builds.
mkdir -p build/sanitized
for dir in build-asan build-tsan; do
  echo "subdirs(\"../../$dir\")"
done >build/sanitized/CTestTestfile.cmake

# Clang 14's sanitizers need a predictable memory layout; kernels that randomise it widely break them.
plain_layout="setarch $(uname -m) -R"
$plain_layout true 2>/dev/null || plain_layout=

say "sanitizers and fuzz targets"
# shellcheck disable=SC2086  # a command and its flags
run_ctest sanitizers nice $plain_layout ctest --test-dir build/sanitized -j $((jobs + 1)) --output-on-failure

say "integration tests: the rest of them"
wait "$integration" || echo "ctest failed" >>build/tests-integration.log
trap - EXIT INT TERM
cat build/tests-integration.log

say "all tests"
if grep -q '^ZEROFLEET_NVCC:.*-NOTFOUND$' build/CMakeCache.txt; then
  echo "the GPU code was NOT compiled or tested: no nvcc here, and scripts/setup.sh cuda did not bring one"
fi
for name in unit integration sanitizers; do totals "$name"; done
for name in unit integration sanitizers; do
  grep -h -A 20 '^The following tests FAILED' "build/tests-$name.log" || true
done
passed integration && passed sanitizers
