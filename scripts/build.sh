#!/bin/sh
# Configures and builds one build directory.
#
#   scripts/build.sh DIR JOBS [-DNAME=VALUE]... [TARGET]...     no target: everything
#
# Several sources of a target are compiled together, and headers that most sources include are compiled once: a build from nothing
# then takes a quarter of the time. For a build folder to edit in, use cmake alone.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
dir=$1
jobs=$2
shift 2
defines=
targets=
for argument in "$@"; do
  case "$argument" in
    -D*) defines="$defines $argument" ;;
    *) targets="$targets $argument" ;;
  esac
done

# shellcheck disable=SC2086  # lists without spaces inside
cmake -S "$root" -B "$root/$dir" -G Ninja -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=48 \
  -DZEROFLEET_PRECOMPILE=ON $defines
# shellcheck disable=SC2086
exec ninja -C "$root/$dir" -j "$jobs" $targets
