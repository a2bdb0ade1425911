#!/usr/bin/env python3
"""The disk of tests/chaos/bad_disk.cc intercepts every file call that the program and libstdc++ make, so that no call escapes its faults."""
import errno
import subprocess
import sys

import fleet

sys.path.insert(0, str(fleet.ROOT / "tests" / "chaos"))
import disk  # noqa: E402

# What libstdc++ and the program call, by a name that the shim must stand before, on PATH.
CALLS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.opendir.restype = libc.fopen.restype = libc.readdir.restype = ctypes.c_void_p
libc.readdir.argtypes = [ctypes.c_void_p]
buffer = ctypes.create_string_buffer(4096)
folder = os.fsencode(sys.argv[1])
path = folder + b"/file"
at = os.open(folder, os.O_RDONLY)
file = os.open(path, os.O_RDWR | os.O_CREAT)
listing = libc.opendir(folder)
zero = ctypes.c_long(0)
calls = {
    "write": lambda: libc.write(file, buffer, 1), "pwrite": lambda: libc.pwrite(file, buffer, 1, zero), "ftruncate": lambda: libc.ftruncate(file, zero),
    "truncate": lambda: libc.truncate(path, zero), "read": lambda: libc.read(file, buffer, 1), "pread": lambda: libc.pread(file, buffer, 1, zero),
    "readdir": lambda: libc.readdir(listing) or -1, "fsync": lambda: libc.fsync(file), "flock": lambda: libc.flock(file, 6),
    "rename": lambda: libc.rename(path, path), "renameat": lambda: libc.renameat(at, b"file", at, b"file"),
    "renameat2": lambda: libc.renameat2(at, b"file", at, b"file", 0), "mkdir": lambda: libc.mkdir(folder + b"/new", 0o700),
    "stat": lambda: libc.stat(path, buffer), "lstat": lambda: libc.lstat(path, buffer), "fstat": lambda: libc.fstat(file, buffer),
    "fstat64": lambda: libc.fstat64(file, buffer), "fstatat": lambda: libc.fstatat(at, b"file", buffer, 0), "access": lambda: libc.access(path, 0),
    "open": lambda: libc.open(path, 0), "openat": lambda: libc.openat(at, b"file", 0), "fopen": lambda: libc.fopen(path, b"r") or -1,
    "fopen64": lambda: libc.fopen64(path, b"r") or -1,
    "rmdir": lambda: libc.rmdir(folder + b"/new"), "unlink": lambda: libc.unlink(path),
    "unlinkat": lambda: (libc.close(libc.creat(path, 0o600)), libc.unlinkat(at, b"file", 0))[1], "remove": lambda: (libc.close(libc.creat(path, 0o600)), libc.remove(path))[1],
}
for name, call in calls.items():
    print(name, ctypes.get_errno() if call() == -1 else 0)
"""
EVERY_CALL = disk.MAKE * 2 - 1


class BadDiskReachesEveryCall(fleet.FleetTest):
    def setUp(self):
        super().setUp()
        if disk.why_not():
            self.skipTest(f"SKIPPED: {disk.why_not()}")

    def answers(self, bad, where):
        """{name of a call: its errno} for calls in a folder."""
        folder = self.work / where
        folder.mkdir(exist_ok=True)
        done = subprocess.run([sys.executable, "-c", CALLS, str(folder)], env={**self.environment(), **bad.environment},
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {name: int(number) for name, number in (line.split() for line in done.stdout.splitlines())}

    def test_every_call_of_the_program_can_fail(self):
        bad = disk.BadDisk(self.work, 1)
        sound = self.answers(bad, "bad-folder")
        self.assertEqual(sound, dict.fromkeys(sound, 0))
        bad.fail(disk.ERROR, "/bad-folder", EVERY_CALL, error=errno.EXDEV)
        self.assertEqual(self.answers(bad, "bad-folder"), dict.fromkeys(sound, errno.EXDEV))
        self.assertEqual(self.answers(bad, "another"), sound, "calls elsewhere were touched")

    def test_a_tree_is_not_removed(self):
        """std::filesystem::remove_all removes names in open directories."""
        bad = disk.BadDisk(self.work, 1)
        folder = self.work / "tree" / "deep"
        folder.mkdir(parents=True)
        (folder / "file").write_text("")
        bad.fail(disk.ERROR, "/tree/deep/file", disk.UNLINK, error=errno.EIO)
        code = "import ctypes, os, sys; at = os.open(sys.argv[1], os.O_RDONLY); sys.exit(ctypes.CDLL(None).unlinkat(at, b'file', 0) != -1)"
        done = subprocess.run([sys.executable, "-c", code, str(folder)], env={**self.environment(), **bad.environment})
        self.assertEqual(done.returncode, 0)
        self.assertTrue((folder / "file").exists())
        self.assertEqual(bad.hits(), 1)



if __name__ == "__main__":
    fleet.main()
