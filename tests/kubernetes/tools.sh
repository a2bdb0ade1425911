#!/bin/sh
# Makes what `make test-kubernetes` uses, each once, in build/kubernetes:
#
#   bin/helm     Helm, built from the Go module that tools/go.mod pins
#   venv         Python with kubernetes-validate, which has the schemas of Kubernetes 1.29 to 1.34
#   go           where no new enough Go is on the PATH: the toolchain's module, fetched with Debian's older Go
#
# `scripts/setup.sh kubernetes` runs it. The first time takes several minutes of both cores.
set -eu
cd "$(dirname "$0")/../.."
made=$PWD/build/kubernetes
tools=$PWD/tests/kubernetes/tools
toolchain=v0.0.1-go1.26.1.linux-amd64
mkdir -p "$made/bin"

# The version of `$1` is at least that of tools/go.mod.
is_new_enough() {
  wanted=$(sed -n 's/^go //p' "$tools/go.mod")
  has=$("$1" env GOVERSION 2>/dev/null | sed 's/^go//')
  [ -n "$has" ] && [ "$(printf '%s\n%s\n' "$wanted" "$has" | sort -V | head -n 1)" = "$wanted" ]
}

find_go() {
  for go in go "$made/go/bin/go"; do
    if command -v "$go" >/dev/null && is_new_enough "$go"; then
      return
    fi
  done
  echo "setup: fetching the Go toolchain into build/kubernetes/go"
  fetched=$(cd "$made" && GOFLAGS='' go mod download -json "golang.org/toolchain@$toolchain" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  rm -rf "$made/go"
  cp -r "$fetched" "$made/go"
  # A module's files come without permissions.
  chmod -R u+w "$made/go"
  chmod +x "$made"/go/bin/* "$made"/go/pkg/tool/*/*
  go=$made/go/bin/go
}

if [ ! -x "$made/bin/helm" ] || [ -n "$(find "$tools/go.mod" -newer "$made/bin/helm")" ]; then
  find_go
  echo "setup: building Helm into build/kubernetes/bin"
  (cd "$tools" && GOBIN="$made/bin" GOFLAGS=-mod=readonly "$go" install -ldflags '-s -w' helm.sh/helm/v4/cmd/helm)
  touch "$made/bin/helm"
fi
if [ ! -x "$made/venv/bin/python" ] || ! "$made/venv/bin/python" -c 'import kubernetes_validate' 2>/dev/null; then
  echo "setup: installing kubernetes-validate into build/kubernetes/venv"
  python3 -m venv "$made/venv"
  "$made/venv/bin/pip" install --quiet --disable-pip-version-check kubernetes-validate==1.34.1
fi
