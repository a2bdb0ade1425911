#!/bin/sh
# Everything that can only be shown on a GPU, in one call of under 9 minutes: conformance, parity, sanitizer, benches.
#
#   bench/gpu_suite.sh BUNDLE OUT [--budget SECONDS] [--vocab TOKENS] [--host-gib GIB]
#   bench/gpu_suite.sh BUNDLE OUT --dry-run     the same steps, small and on the CPU: tests this script, measures nothing
#
# BUNDLE is the folder that `cmake --install build --prefix BUNDLE` made, or that folder packed by tar (.tar, .tar.xz,
# .tar.zst). The machine needs a driver, CUDA 13's cuBLASLt, cuDNN and NCCL, and python3; with PyTorch in that python3
# the comparisons with it are made too, else they are skipped. OUT gets steps.jsonl as the steps end, then result.json and
# result.md, and suite.log with what every step printed.
#
# Exit code: 0 every step passed and every floor held, 1 a step failed, 2 usage, 3 no step failed but a floor was missed or
# could not be measured.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 2 ]; then
  sed -n '2,15s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
bundle=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
shift 2

work=$(mktemp -d "${TMPDIR:-/tmp}/gpu-suite-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
if [ -f "$bundle" ]; then
  mkdir "$work/bundle"
  tar -xf "$bundle" -C "$work/bundle"
  # Packed with or without a folder around it.
  bundle=$(dirname "$(dirname "$(find "$work/bundle" -path '*/bin/zerofleet' | head -n 1)")")
fi
if [ ! -x "$bundle/bin/zerofleet" ]; then
  echo "gpu_suite.sh: $bundle holds no bin/zerofleet" >&2
  exit 2
fi
bundle=$(cd "$bundle" && pwd)

# cuBLASLt, cuDNN and NCCL where a toolkit or PyTorch's own packages have put them: only folders that hold one of them, so
# that nothing else comes along.
of_python=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"] + "/nvidia")' 2>/dev/null)
libraries=
for name in libcublasLt.so.13 libcudnn.so.9 libnccl.so.2; do
  for root in /usr/local/cuda/lib64 /usr/lib/x86_64-linux-gnu "$of_python"; do
    library=$(find -L "$root" -name "$name" 2>/dev/null | head -n 1)
    [ -n "$library" ] || continue
    folder=$(dirname "$library")
    # The loader searches the system's own folder anyway.
    case ":$libraries:/usr/lib/x86_64-linux-gnu:" in *":$folder:"*) ;; *) libraries="$libraries${libraries:+:}$folder" ;; esac
    break
  done
done
# For Zerofleet's programs alone: PyTorch has its own, and must not be given others.
export GPU_SUITE_LIBRARIES="$libraries"

cd "$here/.."
code=0
python3 "$here/gpu_suite.py" --bundle "$bundle" --out "$out" --work "$work" "$@" || code=$?
exit $code
