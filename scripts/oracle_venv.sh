#!/bin/sh
# Makes build/oracle-venv, where tests/oracle/check_hf_export.py finds torch and Hugging Face transformers. `make test` calls this
# while it builds; if it fails, the tests that need it say so and are skipped.
#
# torch is Debian's (python3-torch, CPU; about 140 MB of packages to fetch); transformers comes from PyPI in the last version
# that works with it. Does nothing if both are installed.
set -eu
cd "$(dirname "$0")/.."

venv=build/oracle-venv
works() {
  "$venv/bin/python3" -c 'import torch, safetensors, transformers; transformers.LlamaForCausalLM
print("torch", torch.__version__, "transformers", transformers.__version__)' 2>/dev/null
}

if works; then
  exit 0
fi
is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}
if ! is_installed python3-torch || ! is_installed python3-venv; then
  as_root=
  [ "$(id -u)" = 0 ] || as_root=sudo
  $as_root apt-get -q update </dev/null
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends \
    python3-torch python3-venv </dev/null
fi
/usr/bin/python3 -m venv --system-site-packages "$venv"
"$venv/bin/pip" install -q --no-compile --retries 1 --timeout 30 'transformers==4.33.3' 'safetensors==0.4.5'
works
