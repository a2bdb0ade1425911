#!/bin/sh
# Builds the package into a virtual environment with PyTorch, and runs its tests: `make test-torch`.
set -eu
environment=$1 jobs=$2
shift 2
cd "$(dirname "$0")/.."
case $environment in /*) ;; *) environment=$PWD/$environment ;; esac
if [ ! -x "$environment/bin/python" ]; then
  /usr/bin/python3 -m venv "$environment"
fi
"$environment/bin/pip" install --quiet --upgrade pip
"$environment/bin/pip" install --quiet 'torch>=2.4' transformers peft accelerate safetensors numpy pytest \
  'nanobind>=2.0' 'scikit-build-core>=0.10'
CMAKE_BUILD_PARALLEL_LEVEL=$jobs "$environment/bin/pip" install --quiet --no-build-isolation ./python
cd python/tests
exec "$environment/bin/python" -m pytest -q "$@" .
