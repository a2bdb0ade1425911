#!/bin/sh
# Optional: makes build/oracle-venv, where tests/oracle/check_hf_export.py finds torch and Hugging Face transformers.
#
# torch is Debian's (python3-torch, CPU); transformers comes from PyPI in the last version that works with it.
set -eu
cd "$(dirname "$0")/.."

if ! dpkg-query -W -f='${db:Status-Status}' python3-torch 2>/dev/null | grep -q '^installed$'; then
  as_root=
  [ "$(id -u)" = 0 ] || as_root=sudo
  $as_root apt-get -q update </dev/null
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends \
    python3-torch python3-venv </dev/null
fi
/usr/bin/python3 -m venv --system-site-packages build/oracle-venv
build/oracle-venv/bin/pip install -q 'transformers==4.26.1' 'safetensors==0.4.5'
build/oracle-venv/bin/python3 -c 'import torch, transformers; print("torch", torch.__version__, "transformers", transformers.__version__)'
