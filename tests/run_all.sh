#!/bin/sh
# Builds what the tests need and runs every test, with one summary at the end. `make test` and CI call it.
#
#   tests/run_all.sh [JOBS]        JOBS defaults to the number of cores
#
# Three builds, each a folder at the root, each with every test of its kind:
#   build        g++, release: unit tests, the layering check, the integration tests
#   build-asan   clang, AddressSanitizer and UndefinedBehaviorSanitizer: unit tests and fuzz targets; clang's thread-safety
#                analysis is an error in this build
#   build-tsan   clang, ThreadSanitizer: the tests of the folders where threads meet
set -eu
cd "$(dirname "$0")/.."
jobs=${1:-$(nproc)}

say() { printf '\n== %s\n' "$*"; }

say "release build"
scripts/build.sh build "$jobs"

say "clang build with AddressSanitizer, UndefinedBehaviorSanitizer, fuzz targets and thread-safety analysis"
scripts/build.sh build-asan "$jobs" -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=Sanitize \
  -DZEROFLEET_SANITIZE=address,undefined -DZEROFLEET_FUZZERS=ON

say "clang build with ThreadSanitizer"
scripts/build.sh build-tsan "$jobs" -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=Sanitize \
  -DZEROFLEET_SANITIZE=thread threaded_tests

# One ctest run over the three builds, for one summary.
mkdir -p build/all
for dir in build build-asan build-tsan; do
  echo "subdirs(\"../../$dir\")"
done >build/all/CTestTestfile.cmake

# Clang 14's sanitizers want a predictable memory layout; kernels that randomise it widely break them.
plain_layout="setarch $(uname -m) -R"
$plain_layout true 2>/dev/null || plain_layout=

say "tests"
# shellcheck disable=SC2086  # a command and its flags
exec $plain_layout ctest --test-dir build/all -j "$jobs" --output-on-failure
