#!/usr/bin/env python3
"""Lays out the root of the product's image: one program, the libraries it needs, and what says where they come from.

    docker/rootfs.py BUNDLE ROOT [--revision R] [--cuda build/cuda]

BUNDLE is what `cmake --install` made (cmake/Bundle.cmake); glibc, licenses and the list of packages are of this machine, which has to be
Debian. There is no shell, package manager or interpreter in ROOT: what starts in it is zerofleet.

    /opt/zerofleet                 the bundle, with the run paths it was made for
    /usr/lib, /lib, /lib64         glibc
    /etc/passwd, group             the user that it runs as
    /var/lib/zerofleet, /tmp       folders that this user may write to; the first is where it starts
    /usr/share/doc/*/copyright     the license of each package that is in it
    /usr/share/sbom                the list of these packages, an SPDX document
    /var/lib/dpkg/status.d         the same for scanners of vulnerabilities, as other images without a package manager have it
"""
import argparse
import datetime
import os
import pathlib
import re
import shutil
import subprocess
import sys

import packages

SOURCES = pathlib.Path(__file__).resolve().parent.parent
USER = 65532  # as in the Dockerfile and the chart
FOLDER = "var/lib/zerofleet"  # where it starts; as in the Dockerfile
GLIBC = "libc6"
# Of glibc's package: other character sets, which nothing here converts to.
LEFT_OUT = {"gconv", "audit"}


def glibc_files():
    listed = packages.dpkg("--listfiles", GLIBC).stdout.split()
    libraries = [pathlib.Path(each) for each in listed if re.match(r"(/usr)?/lib.*\.so", each) and pathlib.Path(each).is_file()]
    return [each for each in libraries if not LEFT_OUT.intersection(each.parts)]


def library_folders():
    triplet = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True, check=True).stdout.strip()
    return [pathlib.Path("/usr/lib") / triplet, pathlib.Path("/usr/lib") / triplet / "ucx"]


def bundled_packages(bundle, of_cuda):
    """The packages of the libraries in a bundle; `of_cuda` has those of CUDA's libraries."""
    of_debian, others = [], set()
    folders = library_folders()
    for library in sorted((bundle / "lib").rglob("*.so*")):
        here = next((folder / library.name for folder in folders if (folder / library.name).exists()), None)
        if here:
            of_debian.append(here)
        elif library.name in of_cuda:
            others.add(of_cuda[library.name])
        else:
            raise packages.Unknown(f"no package has lib/{library.name} of the bundle")
    return packages.owners(of_debian) | others


def headers():
    """The packages that a build asks for: of some, whole libraries are in headers."""
    listed = subprocess.run([str(SOURCES / "scripts" / "setup.sh"), "list", "build"], capture_output=True, text=True, check=True)
    return packages.debian_packages(name for name in listed.stdout.split() if name.endswith("-dev"))


def write(file, text, mode=0o644):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)


def lay_out(bundle, root):
    for folder, mode in (("dev", 0o755), ("etc", 0o755), ("proc", 0o755), ("sys", 0o755), ("tmp", 0o1777), (FOLDER, 0o1777),
                         ("usr/lib", 0o755), ("usr/lib64", 0o755)):
        (root / folder).mkdir(parents=True)
        (root / folder).chmod(mode)
    for link in ("lib", "lib64"):
        (root / link).symlink_to(f"usr/{link}")
    for file in glibc_files():
        place = root / "usr" / str(file).removeprefix("/").removeprefix("usr/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file.resolve(), place)
    shutil.copytree(bundle, root / "opt" / "zerofleet", symlinks=True)
    write(root / "etc" / "passwd", f"root:x:0:0:root:/:/nonexistent\nzerofleet:x:{USER}:{USER}:zerofleet:/{FOLDER}:/nonexistent\n")
    write(root / "etc" / "group", f"root:x:0:\nzerofleet:x:{USER}:\n")
    write(root / "etc" / "nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
    write(root / "usr" / "lib" / "os-release", pathlib.Path("/etc/os-release").read_text())
    (root / "etc" / "os-release").symlink_to("../usr/lib/os-release")


def say_where_from(root, version, revision, contained, built_with, cuda):
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    time = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc) if epoch else datetime.datetime.now(datetime.timezone.utc)
    write(root / "usr" / "share" / "sbom" / "zerofleet.spdx.json",
          packages.spdx(version, revision, time.strftime("%Y-%m-%dT%H:%M:%SZ"), contained, built_with))
    documents = root / "usr" / "share" / "doc"
    for package in [*contained, *built_with]:
        if package.stanza:
            license_text = pathlib.Path("/usr/share/doc") / package.name / "copyright"
        else:
            license_text = cuda / "licenses" / package.name
        write(documents / package.name / "copyright", license_text.read_text(errors="replace"))
    for package in contained:
        if package.stanza:
            write(root / "var" / "lib" / "dpkg" / "status.d" / package.name, package.stanza)
    write(documents / "zerofleet" / "copyright", (SOURCES / "LICENSE").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=pathlib.Path)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--revision", default="unknown")
    parser.add_argument("--cuda", type=pathlib.Path, help="the toolkit whose libraries are in the bundle")
    arguments = parser.parse_args()
    version = re.search(r"project\(zerofleet VERSION ([0-9.]+)", (SOURCES / "CMakeLists.txt").read_text()).group(1)
    try:
        toolkit, of_libraries = packages.cuda_packages(arguments.cuda) if arguments.cuda else (set(), {})
        contained = packages.debian_packages([GLIBC]) | bundled_packages(arguments.bundle, of_libraries)
        lay_out(arguments.bundle, arguments.root)
        say_where_from(arguments.root, version, arguments.revision, contained, headers() | toolkit - contained, arguments.cuda)
    except (packages.Unknown, OSError) as problem:
        sys.exit(f"rootfs.py: {problem}")


if __name__ == "__main__":
    main()
