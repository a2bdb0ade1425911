#!/usr/bin/env python3
"""The root of the product's image, as docker/rootfs.py lays it out: a run trains in it as the image's user, nothing else can be
started in it, and every library in it is in its list of packages.

Running in it needs root and mounts; the rest does not.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import fleet

sys.path.insert(0, str(fleet.ROOT / "scripts"))
import cuda_toolkit  # noqa: E402

BUILD = pathlib.Path(fleet.BINARY).resolve().parent
USER = "65532:65532"
FOLDER = "/var/lib/zerofleet"  # the image's working directory
LARGEST_IMAGE_BYTES = 150_000_000
# Runs its arguments in $1, with the mounts that a container adds to its image.
CONTAINED = 'root=$1; shift; mount --rbind /dev "$root/dev" && mount -t proc none "$root/proc" && mount --rbind /sys "$root/sys" && ' \
            f'mount -t tmpfs none "$root/tmp" && exec chroot --userspec={USER} "$root" "$@"'


class ImageTrains(fleet.FleetTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not shutil.which("dpkg-query"):
            raise unittest.SkipTest("SKIPPED: the image's root is made of Debian's packages")
        cls.made = pathlib.Path(tempfile.mkdtemp(prefix="zerofleet-image-"))
        cls.addClassCleanup(shutil.rmtree, cls.made, ignore_errors=True)
        subprocess.run(["cmake", "--install", str(BUILD), "--component", "zerofleet", "--prefix", str(cls.made / "bundle")], check=True,
                       stdout=subprocess.DEVNULL)
        cls.root = cls.made / "root"
        subprocess.run([str(fleet.ROOT / "docker" / "rootfs.py"), str(cls.made / "bundle"), str(cls.root), "--revision", "abc"],
                       check=True)

    def document(self, root=None):
        return json.loads(((root or self.root) / "usr" / "share" / "sbom" / "zerofleet.spdx.json").read_text())

    def test_nothing_but_the_product_can_be_started(self):
        programs = [path for path in self.root.rglob("*") if path.is_file() and not path.is_symlink() and os.access(path, os.X_OK)]
        names = {str(path.relative_to(self.root)) for path in programs if ".so" not in path.name}
        self.assertEqual(names, {"opt/zerofleet/bin/zerofleet"})
        self.assertFalse([path for path in self.root.rglob("*") if path.is_file() and path.stat().st_mode & 0o6000])

    def test_it_is_small(self):
        size = sum(path.stat().st_size for path in self.root.rglob("*") if path.is_file() and not path.is_symlink())
        self.assertLess(size, LARGEST_IMAGE_BYTES)

    def test_every_library_is_in_the_list_of_packages(self):
        document = self.document()
        self.assertEqual(document["spdxVersion"], "SPDX-2.3")
        packages = {package["SPDXID"]: package for package in document["packages"]}
        self.assertEqual(len(packages), len(document["packages"]), "an identifier is used twice")
        for identifier, package in packages.items():
            self.assertRegex(identifier, r"^SPDXRef-[A-Za-z0-9.-]+$")
            self.assertLessEqual({"name", "versionInfo", "downloadLocation", "licenseConcluded"}, package.keys())
        related = {}
        for each in document["relationships"]:
            related.setdefault(each["relationshipType"], set()).update((each["spdxElementId"], each["relatedSpdxElement"]))
        self.assertLessEqual(set().union(*related.values()), packages.keys() | {"SPDXRef-DOCUMENT"})
        self.assertIn("SPDXRef-nlohmann-json3-dev", related["BUILD_DEPENDENCY_OF"])  # it consists of headers only
        libraries = {path.name for folder in ("usr/lib", "opt/zerofleet/lib") for path in (self.root / folder).rglob("*.so*")}
        # Their packages according to dpkg, found by name.
        found = subprocess.run(["dpkg-query", "--search", *(f"*/{name}" for name in libraries)], capture_output=True, text=True, check=True)
        contained = {packages[identifier]["name"] for identifier in related["CONTAINS"]}
        listed = {pathlib.Path(file).name for owner, file in re.findall(r"(?m)^([^:, ]+).*: (/.*)$", found.stdout) if owner in contained}
        self.assertFalse(libraries - listed, "libraries of packages that are not listed")
        for name in contained - {"zerofleet"}:
            self.assertRegex((self.root / "var/lib/dpkg/status.d" / name).read_text(), rf"(?m)^Package: {re.escape(name)}$")
            self.assertTrue((self.root / "usr/share/doc" / name / "copyright").stat().st_size > 0)

    def test_of_cuda_it_lists_what_is_in_it_and_what_it_was_built_with(self):
        """Uses a toolkit that scripts/cuda_toolkit.py unpacks from made-up wheels: a library that is in the bundle, and a compiler."""
        scratch = self.made / "cuda"
        toolkit, bundle, root = scratch / "toolkit", scratch / "bundle", scratch / "root"
        toolkit.mkdir(parents=True)
        shutil.copytree(self.made / "bundle", bundle, symlinks=True)
        for name, file in (("nvidia_blas", "lib/libblas.so.13"), ("nvidia_nvcc", "bin/nvcc")):
            wheel = scratch / f"{name}-13.0-py3-none-any.whl"
            with zipfile.ZipFile(wheel, "w") as made:
                made.writestr(f"nvidia/cu13/{file}", "made up")
                made.writestr(f"{name}-13.0.dist-info/licenses/License.txt", f"license of {name}")
            cuda_toolkit.unpack(wheel, toolkit, libraries=True)
        (toolkit / cuda_toolkit.STAMP).write_text(cuda_toolkit.stamp({"nvidia-blas": "13.0", "nvidia-nvcc": "13.0"}, True))
        shutil.copy(toolkit / "lib" / "libblas.so.13", bundle / "lib")
        subprocess.run([str(fleet.ROOT / "docker" / "rootfs.py"), str(bundle), str(root), "--cuda", str(toolkit)], check=True)
        related = {(each["relationshipType"], each["spdxElementId"], each["relatedSpdxElement"])
                   for each in self.document(root)["relationships"] if "nvidia" in str(each)}
        self.assertEqual(related, {("CONTAINS", "SPDXRef-zerofleet", "SPDXRef-nvidia-blas"),
                                   ("BUILD_DEPENDENCY_OF", "SPDXRef-nvidia-nvcc", "SPDXRef-zerofleet")})
        self.assertEqual((root / "usr/share/doc/nvidia-blas/copyright").read_text(), "license of nvidia_blas")

    def test_a_run_trains_in_it(self):
        if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"],
                                               capture_output=True).returncode != 0:
            self.skipTest("SKIPPED: running in another root needs root, and mounts")
        work = self.root / FOLDER.removeprefix("/")
        (work / "README.md").write_text(fleet.english_like_text(20_000))
        shutil.copy(fleet.ROOT / "examples" / "tiny.yaml", work)
        ran = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", CONTAINED, "sh", str(self.root),
                              "/opt/zerofleet/bin/zerofleet", "train", f"{FOLDER}/tiny.yaml", "--set", "steps=5", "--set",
                              f"data.train=[{FOLDER}/README.md]", "--set", f"checkpoint.dir={FOLDER}/checkpoints", "--report",
                              f"{FOLDER}/report.jsonl"],
                             capture_output=True, text=True, timeout=fleet.RUN_SECONDS, env={"HOME": FOLDER})
        self.assertEqual(ran.returncode, 0, ran.stderr[-2000:])
        events = [json.loads(line) for line in (work / "report.jsonl").read_text().splitlines()]
        self.assertEqual(sum(event["event"] == "step" for event in events), 5)
        saved = work / "checkpoints" / "step-00000005" / "manifest.json"
        self.assertEqual(saved.stat().st_uid, int(USER.split(":")[0]))


if __name__ == "__main__":
    fleet.main()
