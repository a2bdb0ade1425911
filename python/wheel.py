"""Puts UCX's transports into a wheel, or says which platform this machine's wheels are for; see wheel.sh."""

import os
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path


def libucs():
    """The library of UCX that looks for transports, which stand in ucx/ beside it."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"libucs\.so\.0 .*=> (\S+)", listed)
    if not found:
        raise SystemExit("wheel: no libucs.so.0 on this machine; make setup installs it")
    return Path(found.group(1))


def add_transports(wheel):
    with zipfile.ZipFile(wheel, "a", zipfile.ZIP_DEFLATED) as archive:
        for module in sorted((libucs().parent / "ucx").glob("libuc*_*.so.0")):
            if "rdmacm" not in module.name:  # as the executable's bundle, cmake/Bundle.cmake
                archive.write(os.path.realpath(module), f"zerofleet.libs/ucx/{module.name}")


def main():
    if sys.argv[1:] == ["--platform"]:
        print(f"manylinux_{platform.libc_ver()[1].replace('.', '_')}_{platform.machine()}")
    else:
        add_transports(sys.argv[1])


if __name__ == "__main__":
    main()
