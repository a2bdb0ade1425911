#!/bin/sh
# Installs the Debian 12 packages that Zerofleet needs and that are missing; installs nothing when none is.
#
#   scripts/setup.sh build            compiler, CMake and the libraries
#   scripts/setup.sh build test      also what the tests use: clang with its sanitizers, a Prometheus server
#   scripts/setup.sh build demo      also the demo's text
#   scripts/setup.sh build format    also clang-format
#
# Needs root, or sudo. To add a package, add its line to the list of the set that uses it.
set -eu

packages_of() {
  case "$1" in
    build)
      echo g++ cmake ninja-build pkg-config ccache python3
      echo libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc libabsl-dev
      echo libucx-dev libdnnl-dev libhwy-dev
      echo prometheus-cpp-dev libcivetweb-dev
      echo libyaml-cpp-dev nlohmann-json3-dev libspdlog-dev libcli11-dev libxxhash-dev
      echo libgtest-dev libgmock-dev
      ;;
    test) echo clang libclang-rt-14-dev llvm openssl ;;
    demo) echo bible-kjv bible-kjv-text ;;
    format) echo clang-format ;;
    *)
      echo "setup.sh: unknown set '$1'; the sets are build, test, demo and format" >&2
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

# A Prometheus server for the scrape test. Unpacked rather than installed: Debian's package would start a server.
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
  *" test "*) unpack_prometheus ;;
esac
