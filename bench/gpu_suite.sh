#!/bin/sh
# Everything that can only be shown on a GPU, in calls of under 9 minutes: correctness, timings, sanitizer, peers.
#
#   bench/gpu_suite.sh BUNDLE OUT --part first           then correctness, timed, sanitizer and peers, each a call with the same OUT
#   bench/gpu_suite.sh BUNDLE OUT                        all parts in one call, as far as 9 minutes go
#   bench/gpu_suite.sh BUNDLE OUT --dry-run              the same steps, small and on the CPU: tests this script, measures nothing;
#                                                        with --device cuda and a bundle of an emulated build, on the GPU path
#
# Further flags: --budget SECONDS, --vocab TOKENS, --host-gib GIB. Repeat a call that was cut short: steps that passed are not run
# again; on a new machine --earlier FOLDER names the earlier results (its steps.jsonl is read). BUNDLE is the folder that
# `cmake --install build --prefix BUNDLE` made, or that folder packed by tar (.tar, .tar.xz, .tar.zst). The machine needs a driver,
# cuBLASLt, cuDNN and NCCL of CUDA 13 from a toolkit or from Python packages, and python3; comparisons with PyTorch need it in that
# python3, else they are skipped. OUT gets steps.jsonl as steps end, then result.json and result.md, and suite.log with all output.
#
# The first part has what decides most: versions and what the libraries refuse, stages 0 and 3 to the bit, AdamW against a copy,
# the step of gpt2-1558m, PyTorch with compiled blocks. A refusal is printed, and the rest goes on.
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
  # The archive may or may not have a folder around the bundle.
  bundle=$(dirname "$(dirname "$(find "$work/bundle" -path '*/bin/zerofleet' | head -n 1)")")
fi
if [ ! -x "$bundle/bin/zerofleet" ]; then
  echo "gpu_suite.sh: $bundle holds no bin/zerofleet" >&2
  exit 2
fi
bundle=$(cd "$bundle" && pwd)

# Finds cuBLASLt, cuDNN and NCCL in LD_LIBRARY_PATH, a toolkit or Python packages. Only the folders that hold one of them are used,
# so that no other library is picked up.
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
# Only for Zerofleet's programs: PyTorch brings its own libraries and must not get others.
export GPU_SUITE_LIBRARIES="$libraries"

cd "$here/.."
code=0
python3 "$here/gpu_suite.py" --bundle "$bundle" --out "$out" --work "$work" "$@" || code=$?
exit $code
