#!/bin/sh
# Builds the product's image with docker, podman or buildah, whichever is installed; `make image` calls it.
#
#   scripts/image.sh
#
# Settings from the environment:
#   DEVICE      cpu (default) or cuda
#   TARGET      runtime (default) or debug
#   IMAGE       the image's name; default zerofleet:VERSION, with -cuda and -debug appended as they apply
#   BASE        the Debian 12 image to build on; `debootstrap` makes one where no registry can be reached (needs root)
#   ENGINE      docker, podman or buildah; default: the first that works
#   JOBS        how many compilers run at a time
#   DEFINES     further definitions for CMake, such as -DCMAKE_BUILD_TYPE=RelWithDebInfo
#   OPTIONS     further options of the engine's `build`
#
# The image contains the list of its packages (SPDX), as /usr/share/sbom/zerofleet.spdx.json.
set -eu
cd "$(dirname "$0")/.."

device=${DEVICE:-cpu}
target=${TARGET:-runtime}
version=$(sed -n 's/^project(zerofleet VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
case "$device $target" in
  "cpu runtime") suffix= ;;
  "cuda runtime") suffix=-cuda ;;
  "cpu debug") suffix=-debug ;;
  "cuda debug") suffix=-cuda-debug ;;
  *)
    echo "image: DEVICE must be cpu or cuda and TARGET runtime or debug, got $device and $target" >&2
    exit 2
    ;;
esac
image=${IMAGE:-zerofleet:$version$suffix}
revision=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)

works() {
  case "$1" in
    docker | podman) "$1" info >/dev/null 2>&1 ;;
    buildah) buildah version >/dev/null 2>&1 ;;
    *) return 1 ;;
  esac
}

engine=${ENGINE:-}
if [ -n "$engine" ]; then
  works "$engine" || { echo "image: $engine does not work here" >&2; exit 2; }
else
  for each in docker podman buildah; do
    if works "$each"; then engine=$each && break; fi
  done
fi
if [ -z "$engine" ]; then
  echo "image: no docker, podman or buildah works here; on Debian, \`apt install buildah\`" >&2
  exit 2
fi

case "$engine" in
  docker) build="docker build" ;;
  podman) build="podman build --format docker" ;;
  # chroot isolation works as root on machines that refuse nested containers.
  buildah) build="buildah bud --isolation chroot --format docker" ;;
esac

base=${BASE:-docker.io/library/debian:12-slim}
if [ "$base" = debootstrap ]; then
  base=localhost/zerofleet-debian:12
  archive=build/image/debian.tar
  if [ ! -e "$archive" ]; then
    mkdir -p build/image
    docker/base.sh "$archive.part"
    mv "$archive.part" "$archive"
  fi
  if [ "$engine" = buildah ]; then
    container=$(buildah from scratch)
    buildah add -q "$container" "$archive" / >/dev/null
    buildah commit -q "$container" "$base" >/dev/null
    buildah rm "$container" >/dev/null
  else
    "$engine" import "$archive" "$base" >/dev/null
  fi
fi

echo "image: $engine builds $image on $base"
# shellcheck disable=SC2086  # lists of words
$build ${OPTIONS:-} --file docker/Dockerfile --target "$target" --tag "$image" \
  --build-arg "BASE=$base" --build-arg "DEVICE=$device" --build-arg "VERSION=$version" --build-arg "REVISION=$revision" \
  --build-arg "JOBS=${JOBS:-$(nproc)}" --build-arg "DEFINES=${DEFINES:-}" .
echo "image: $image is built"
