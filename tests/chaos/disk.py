"""A disk that fails: what bad_disk.cc, preloaded into the processes of a run, does to their calls. Standard library only."""
import mmap
import os
import pathlib
import struct

import fleet

LIBRARY = pathlib.Path(fleet.BINARY).resolve().parent / "tests" / "chaos" / "libbad_disk.so"
WRITE, SYNC, RENAME, READ, STAT, OPEN, UNLINK, LOCK, MAKE = (1 << bit for bit in range(9))
ERROR, SLOW, SHORT, TORN, FLIP, LOST, HUNG, FEIGNED = range(1, 9)
# bad_disk.cc's Control: fault, calls, error, milliseconds, chance out of 65,536, seed, pid, calls seen, calls hit, where, but
CONTROL = struct.Struct("=9I188s32s")
HIT_AT = 8 * 4


def why_not():
    """Why disks cannot fail on this machine, or None."""
    return None if LIBRARY.exists() else f"{LIBRARY} is not there; build the target bad_disk"


class BadDisk:
    """The disk of one run's processes: sound until told otherwise."""

    def __init__(self, folder, seed):
        self.seed = seed
        path = pathlib.Path(folder) / "bad-disk"
        path.write_bytes(bytes(CONTROL.size))
        self.environment = {"LD_PRELOAD": str(LIBRARY), "ZEROFLEET_BAD_DISK": str(path)} if why_not() is None else {}
        with open(path, "r+b") as file:
            self.control = mmap.mmap(file.fileno(), CONTROL.size)

    def fail(self, fault, where, calls, but="", chance=1.0, error=0, milliseconds=0, pid=0):
        """From now on this share (`chance`) of the calls on paths with `where` and without `but` in them has the fault; only calls of one
        process if `pid` is given."""
        self.mend()
        self.seed += 1
        self.control[:] = CONTROL.pack(0, calls, error, milliseconds, round(65536 * chance), self.seed & 0xffffffff, pid, 0, 0,
                                       os.fsencode(where), os.fsencode(but))
        self.control[:4] = struct.pack("=I", fault)

    def mend(self):
        self.control[:4] = bytes(4)

    def hits(self):
        return struct.unpack_from("=I", self.control, HIT_AT)[0]
