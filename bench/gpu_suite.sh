#!/bin/sh
# Everything that can only be shown on a GPU, in calls of under 9 minutes: correctness, timings, sanitizer, peers.
#
#   bench/gpu_suite.sh BUNDLE OUT --part first           then correctness, timed, sanitizer and peers, each a call with the same OUT
#   bench/gpu_suite.sh BUNDLE OUT                        all parts in one call, as far as 9 minutes go
#   bench/gpu_suite.sh BUNDLE OUT --dry-run              the same steps, small and on the CPU: tests this script, measures nothing;
#                                                        with --device cuda and a bundle of an emulated build, the GPU path's too
#
# Further flags: --budget SECONDS, --vocab TOKENS, --host-gib GIB. A call that was cut short is made again: what has passed is
# not run twice; on a new machine --earlier FOLDER names the results so far, of which it needs steps.jsonl. BUNDLE is the folder that `cmake --install build --prefix BUNDLE` made, or that folder packed by tar (.tar,
# .tar.xz, .tar.zst). The machine needs a driver, CUDA 13's cuBLASLt, cuDNN and NCCL from a toolkit or from Python packages, and
# python3; with PyTorch in that python3 the comparisons with it are made too, else they are skipped. OUT gets steps.jsonl as the
# steps end, then result.json and result.md, and suite.log with what every step printed.
#
# The first part decides: versions and what the libraries refuse, stages 0 and 3 to the bit, AdamW over a copy, the step of
# gpt2-1558m, PyTorch with compiled blocks. A refusal is printed, and the rest goes on.
#
# Exit code: 0 every step passed and every floor held, 1 a step failed, 2 usage, 3 no step failed but a floor was missed or
# could not be measured.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 2 ]; then
  sed -n '2,19s/^# \{0,1\}//p' "$0" >&2
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
  # tar calls a program to unpack, xz say, that a machine may lack; Python has its own.
  tar -xf "$bundle" -C "$work/bundle" 2>"$work/tar.log" || python3 -m tarfile -e "$bundle" "$work/bundle" || {
    cat "$work/tar.log" >&2
    echo "gpu_suite.sh: $bundle cannot be unpacked here; unpack it elsewhere and name the folder" >&2
    exit 2
  }
  # Packed with or without a folder around it.
  bundle=$(dirname "$(dirname "$(find "$work/bundle" -path '*/bin/zerofleet' | head -n 1)")")
fi
if [ ! -x "$bundle/bin/zerofleet" ]; then
  echo "gpu_suite.sh: $bundle holds no bin/zerofleet" >&2
  exit 2
fi
bundle=$(cd "$bundle" && pwd)

# cuBLASLt, cuDNN and NCCL where LD_LIBRARY_PATH, a toolkit or Python packages have them: only folders that hold one of them,
# so that nothing else comes along.
of_python=$(python3 -c 'import site, sysconfig
print(*{path + "/nvidia" for path in [sysconfig.get_paths()["purelib"], *site.getsitepackages(), site.getusersitepackages()]})' \
  2>/dev/null || true)
of_nvcc=$(command -v nvcc 2>/dev/null || true)
[ -z "$of_nvcc" ] || of_nvcc=$(dirname "$(dirname "$(readlink -f "$of_nvcc")")")
roots="$(echo "${LD_LIBRARY_PATH:-}" | tr ':' ' ') ${CUDA_HOME:-} $of_nvcc /usr/local/cuda /usr/local/cuda-13 /usr/lib/x86_64-linux-gnu
  /usr/lib64 $of_python"
libraries=
for name in libcublasLt.so.13 libcudnn.so.9 libnccl.so.2; do
  library=
  for root in $roots; do
    [ -d "$root" ] || continue
    library=$(find -L "$root" -maxdepth 5 -name "$name" -not -path '*/stubs/*' 2>/dev/null | head -n 1)
    [ -z "$library" ] || break
  done
  if [ -z "$library" ]; then
    # shellcheck disable=SC2116,SC2086  # a list of folders, one space between them
    echo "gpu_suite.sh: found no $name in any of: $(echo $roots)"
    continue
  fi
  echo "gpu_suite.sh: $library"
  folder=$(dirname "$library")
  # The loader searches the system's own folder anyway.
  case ":$libraries:/usr/lib/x86_64-linux-gnu:" in *":$folder:"*) ;; *) libraries="$libraries${libraries:+:}$folder" ;; esac
done
# For Zerofleet's programs alone: PyTorch has its own, and must not be given others.
export GPU_SUITE_LIBRARIES="$libraries"

cd "$here/.."
code=0
python3 "$here/gpu_suite.py" --bundle "$bundle" --out "$out" --work "$work" "$@" || code=$?
exit $code
