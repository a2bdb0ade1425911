#!/usr/bin/env python3
"""Every kernel file in an executable holds machine code for sm_80 and sm_90, and PTX for what comes later.

    tests/gpu_code_check.py EXECUTABLE

Reads the fat binaries that nvcc puts into objects, one per source file, since cuobjdump is not on every machine: a header (magic, version,
header bytes, bytes that follow), then an entry for each architecture (kind, attributes, header bytes, bytes that follow, ...,
architecture at byte 28). It needs no GPU and says nothing about whether the code runs.
"""
import collections
import pathlib
import struct
import sys

MAGIC = struct.pack("<I", 0xBA55ED50)
PTX, MACHINE_CODE = 1, 2
WANTED = {(MACHINE_CODE, 80), (MACHINE_CODE, 90), (PTX, 90)}


Entry = collections.namedtuple("Entry", "kind architecture data")


def fat_binaries(data):
    """The entries of each fat binary in `data`; an entry's contents are compressed, unless nvcc was told not to."""
    at = data.find(MAGIC)
    while at >= 0:
        header, size = struct.unpack_from("<HQ", data, at + 6)
        entry, end = at + header, at + header + size
        if end > len(data):
            sys.exit(f"a fat binary at byte {at} ends past the file's end")
        entries = []
        while entry < end:
            kind, header, size = struct.unpack_from("<HxxIQ", data, entry)
            held = data[entry + header:entry + header + size]
            entries.append(Entry(kind, struct.unpack_from("<I", data, entry + 28)[0], held))
            entry += header + size
        yield entries
        at = data.find(MAGIC, end)


def main():
    found = list(fat_binaries(pathlib.Path(sys.argv[1]).read_bytes()))
    for entries in found:
        held = {(entry.kind, entry.architecture) for entry in entries}
        if not WANTED <= held:
            sys.exit(f"a kernel file holds {sorted(held)} and lacks {sorted(WANTED - held)} (1: PTX, 2: machine code)")
    if not found:
        sys.exit(f"{sys.argv[1]} holds no GPU code")
    print(f"{len(found)} kernel files, each with sm_80 and sm_90 code and PTX")


if __name__ == "__main__":
    main()
