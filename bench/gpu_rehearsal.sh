#!/bin/sh
# Builds the GPU path as an emulation on host threads, and runs every step of gpu_suite.sh on it at small sizes.
#
#   bench/gpu_rehearsal.sh JOBS
set -eu
cd "$(dirname "$0")/.."
tests="device_test zero_test trainer_test collective_test pytorch_parity_test"
# shellcheck disable=SC2086  # a list of targets
scripts/build.sh build-emulated "$1" -DZEROFLEET_CUDA=EMULATED zerofleet $tests
work=$(mktemp -d "${TMPDIR:-/tmp}/gpu-rehearsal-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$work/bundle/bin" "$work/bundle/libexec"
cp build-emulated/zerofleet "$work/bundle/bin/"
for test in $tests; do
  cp "$(find build-emulated -name "$test" -type f)" "$work/bundle/libexec/"
done
bench/gpu_suite.sh "$work/bundle" "$work/out" --dry-run --device cuda --budget 3000
