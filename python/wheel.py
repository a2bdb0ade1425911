"""Puts UCX's transports into a wheel (--link: a repaired one), or says which platform this machine's wheels are for; see wheel.sh."""

import os
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path


def libucs():
    """UCX's library that loads the transports."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"libucs\.so\.0 .*=> (\S+)", listed)
    if not found:
        raise SystemExit("wheel: no libucs.so.0 on this machine; make setup installs it")
    return Path(found.group(1))


def add_transports(wheel):
    with zipfile.ZipFile(wheel, "a", zipfile.ZIP_DEFLATED) as archive:
        for module in sorted((libucs().parent / "ucx").glob("libuc*_*.so.0")):
            if "rdmacm" not in module.name:  # as the executable's bundle, cmake/Bundle.cmake
                file = Path(os.path.realpath(module))  # named as auditwheel names libucs: by the file, not its link
                archive.write(file, f"zerofleet/ucx/{file.name}")


def link_transports(wheel):
    """Makes the transports in a repaired wheel find its libraries; auditwheel does so only for Python's extensions. RDMA's
    own libraries come from the machine, like a driver's."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "wheel", "unpack", "-d", folder, wheel], check=True, stdout=subprocess.DEVNULL)
        root = next(Path(folder).iterdir())
        carried = {re.sub(r"-[0-9a-f]{8}", "", file.name): file.name for file in (root / "zerofleet.libs").iterdir()}
        for module in (root / "zerofleet/ucx").iterdir():
            change = ["--force-rpath", "--set-rpath", "$ORIGIN/../../zerofleet.libs"]
            for needed in patchelf("--print-needed", module).split():
                for name, file in carried.items():
                    if name == needed or name.startswith(f"{needed}."):
                        change += ["--replace-needed", needed, file]
            patchelf(*change, module)
        os.remove(wheel)
        subprocess.run([sys.executable, "-m", "wheel", "pack", "-d", os.path.dirname(wheel), root], check=True,
                       stdout=subprocess.DEVNULL)


def patchelf(*arguments):
    return subprocess.run(["patchelf", *map(str, arguments)], capture_output=True, text=True, check=True).stdout


def main():
    if sys.argv[1:] == ["--platform"]:
        print(f"manylinux_{platform.libc_ver()[1].replace('.', '_')}_{platform.machine()}")
    elif sys.argv[1] == "--link":
        link_transports(sys.argv[2])
    else:
        add_transports(sys.argv[1])


if __name__ == "__main__":
    main()
