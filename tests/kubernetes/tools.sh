#!/bin/sh
# Makes what `make test-kubernetes` uses, each once, in build/kubernetes:
#
#   bin/helm               Helm, built from the Go module that tools/helm pins
#   bin/helm-docs          what writes the chart's README, likewise
#   bin/helm-unittest      what runs the chart's own tests, likewise
#   bin/kube-apiserver,    the API server, and kubectl where there is none, from the module that tools/control_plane pins
#   bin/kubectl
#   bin/kube-controller-manager, kube-scheduler and kubelet, which run pods, from the module that tools/node pins
#   bin/jobset, jobset     the controller of JobSets from the module that tools/jobset pins, and its type and webhooks from there
#   bin/kueue, kueue       Kueue's controller, likewise
#   bin/cert-manager,      cert-manager's controllers and webhook in one program, whose source is in tools/cert_manager, likewise
#   cert-manager
#   bin/trainer-…,         Kubeflow Trainer's controller, likewise
#   trainer-…
#   debian                 etcd, containerd, runc and the plugins of the Container Network Interface, unpacked from Debian's packages
#                          rather than installed, which would start servers
#   venv                   Python with kubernetes-validate, which has the schemas of Kubernetes 1.29 to 1.34, and with
#                          grafana-foundation-sdk, which has the types of Grafana's dashboards
#   go                     where no new enough Go is on the PATH: the toolchain's module, fetched with Debian's older Go
#
# `scripts/setup.sh kubernetes` runs it. The first time takes some 30 minutes of a core.
set -eu
cd "$(dirname "$0")/../.."
made=$PWD/build/kubernetes
tools=$PWD/tests/kubernetes/tools
toolchain=v0.0.1-go1.26.1.linux-amd64
mkdir -p "$made/bin"

# The version of `$1` is at least that of tools/go.mod.
is_new_enough() {
  wanted=$(sed -n 's/^go //p' "$tools/helm/go.mod")
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

# is_current MODULE FILE: it is there, and made since the module's pins or source changed.
is_current() {
  [ -e "$2" ] && [ -z "$(find "$tools/$1" -type f -newer "$2")" ]
}

# build MODULE PROGRAM PACKAGE LDFLAGS: PROGRAM in bin/, unless it is current.
build() {
  if is_current "$1" "$made/bin/$2"; then
    return
  fi
  find_go
  echo "setup: building $2 into build/kubernetes/bin"
  (cd "$tools/$1" && GOBIN="$made/bin" GOFLAGS=-mod=readonly CGO_ENABLED=0 "$go" install -ldflags "-s -w $4" "$3")
  touch "$made/bin/$2"
}

# Helm asks the server for its version, which release builds are told.
version=$(sed -n 's/.*k8s\.io\/kubernetes v\(1\.[0-9.]*\).*/v\1/p' "$tools/control_plane/go.mod" | head -n 1)
minor=$(echo "$version" | cut -d . -f 2)
stamp=
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  stamp="$stamp -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor"
done

build helm helm helm.sh/helm/v4/cmd/helm ''
build helm_docs helm-docs github.com/norwoodj/helm-docs/cmd/helm-docs ''
build helm_unittest helm-unittest github.com/helm-unittest/helm-unittest/cmd/helm-unittest ''
build control_plane kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver "$stamp"
command -v kubectl >/dev/null || build control_plane kubectl k8s.io/kubernetes/cmd/kubectl "$stamp"

for program in kube-controller-manager kube-scheduler kubelet; do
  build node "$program" "k8s.io/kubernetes/cmd/$program" "$stamp"
done

# undescribed MODULE PROGRAM PATH: whether PROGRAM/types.yaml and webhooks.yaml are still to be written; `$source` is then PATH's folder.
undescribed() {
  if is_current "$1" "$made/$2/webhooks.yaml"; then
    return 1
  fi
  find_go
  source=$(cd "$tools/$1" && GOFLAGS=-mod=readonly "$go" list -m -f '{{.Dir}}' "$3")
  mkdir -p "$made/$2"
}
PATH=$made/bin:$PATH

build jobset jobset sigs.k8s.io/jobset ''
if undescribed jobset jobset sigs.k8s.io/jobset; then
  cat "$source/config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml" >"$made/jobset/types.yaml"
  kubectl kustomize "$source/config/components/webhook" >"$made/jobset/webhooks.yaml"
fi

build kueue kueue sigs.k8s.io/kueue/cmd/kueue ''
if undescribed kueue kueue sigs.k8s.io/kueue; then
  kubectl kustomize "$source/config/components/crd" >"$made/kueue/types.yaml"
  kubectl kustomize "$source/config/components/webhook" >"$made/kueue/webhooks.yaml"
fi

build trainer trainer-controller-manager github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager ''
if undescribed trainer trainer-controller-manager github.com/kubeflow/trainer/v2; then
  kubectl kustomize "$source/manifests/base/crds" >"$made/trainer-controller-manager/types.yaml"
  kubectl kustomize "$source/manifests/base/webhook" >"$made/trainer-controller-manager/webhooks.yaml"
fi

build cert_manager cert-manager . ''
if undescribed cert_manager cert-manager github.com/cert-manager/cert-manager; then
  for type in "$source"/deploy/crds/*.yaml; do
    echo ---
    cat "$type"
  done >"$made/cert-manager/types.yaml"
  helm template cert-manager "$source/deploy/charts/cert-manager" --show-only templates/webhook-mutating-webhook.yaml \
    --show-only templates/webhook-validating-webhook.yaml >"$made/cert-manager/webhooks.yaml"
fi

# unpack PACKAGE FILE: the package in debian/, unless its FILE is there.
unpack() {
  if [ ! -e "$made/debian/$2" ]; then
    echo "setup: unpacking the package $1 into build/kubernetes/debian"
    mkdir -p "$made/debian"
    (cd "$made/debian" && apt-get -q download "$1" </dev/null && dpkg -x "$1"_*.deb . && rm "$1"_*.deb)
  fi
}
unpack etcd-server usr/bin/etcd
unpack containerd usr/bin/containerd
unpack runc usr/sbin/runc
unpack containernetworking-plugins usr/lib/cni/bridge

if [ ! -x "$made/venv/bin/python" ] || ! "$made/venv/bin/python" -c 'import kubernetes_validate, grafana_foundation_sdk' 2>/dev/null; then
  echo "setup: installing kubernetes-validate and grafana-foundation-sdk into build/kubernetes/venv"
  python3 -m venv "$made/venv"
  "$made/venv/bin/pip" install --quiet --disable-pip-version-check kubernetes-validate==1.34.1 'grafana-foundation-sdk==1769699379!11.6.0'
fi
