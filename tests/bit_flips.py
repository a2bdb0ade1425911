#!/usr/bin/env python3
"""Flips single bits of a checkpoint's files, each file in turn, and expects `zerofleet checkpoint verify` to notice every one.

    tests/bit_flips.py [--flips 10000] [--seed 1] [--workers 2]

Trains a tiny model first. The place of a flip is drawn from the seed, so that a missed flip can be reproduced. Exit
code 1: a flip was missed, or the checkpoint does not verify without one. ZEROFLEET names the binary (default:
build/zerofleet). Standard library only. Not part of `make test`.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "integration"))
import fleet  # noqa: E402

CORRUPT = 3  # the exit code for damaged data


def checkpoint_of(work, workers):
    text = work / "train.txt"
    text.write_text(fleet.english_like_text(20_000))
    config = {
        "model": {"family": "gpt2", "layers": 1, "hidden": 16, "heads": 1, "context": 8},
        "data": {"train": [str(text)]}, "parallel": {"zero_stage": 2, "workers": workers}, "precision": "fp32",
        "batch": {"global_sequences": workers}, "steps": 2, "device": "cpu", "checkpoint": {"dir": str(work / "checkpoints")},
    }
    (work / "run.yaml").write_text(json.dumps(config))
    subprocess.run([fleet.BINARY, "train", str(work / "run.yaml")], check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return fleet.latest_checkpoint(work / "checkpoints")


def verify(checkpoint):
    return subprocess.run([fleet.BINARY, "checkpoint", "verify", str(checkpoint)], stdin=subprocess.DEVNULL,
                          capture_output=True).returncode


def flip(path, byte, bit):
    with open(path, "r+b") as file:
        file.seek(byte)
        value = file.read(1)[0]
        file.seek(byte)
        file.write(bytes([value ^ (1 << bit)]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    flags = parser.parse_args()
    draw = random.Random(flags.seed)
    missed = []
    with tempfile.TemporaryDirectory(prefix="zerofleet-flips-") as folder:
        checkpoint = checkpoint_of(pathlib.Path(folder), flags.workers)
        files = sorted(path for path in checkpoint.iterdir() if path.is_file())
        if verify(checkpoint) != 0:
            sys.exit("the checkpoint does not verify as it is")
        for each in range(flags.flips):
            path = files[each % len(files)]
            byte, bit = draw.randrange(path.stat().st_size), draw.randrange(8)
            flip(path, byte, bit)
            code = verify(checkpoint)
            flip(path, byte, bit)
            if code != CORRUPT:
                missed.append(f"{path.name}, byte {byte}, bit {bit}: exit code {code}")
        if verify(checkpoint) != 0:
            sys.exit("the checkpoint does not verify once all flips are taken back")
    print("\n".join(missed))
    print(f"{flags.flips} flips in {', '.join(path.name for path in files)}: {len(missed)} missed")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
