#!/usr/bin/env python3
"""The host's AdamW, copy of parameters to the device included, against memory bandwidth and PyTorch's AdamW, for ZeRO-Offload's table of sizes.

  bench/host_adamw.py [--presets gpt2-124m,gpt2-355m,gpt2-774m,zero-offload-1b] [--torch PYTHON] > table.md

--torch names a Python that can import torch; without it those columns are empty. Each size is measured by `zerofleet bench optimizer
--offload` and by bench/peers/torch_adamw.py in turn, one process at a time: the largest needs 16 bytes per parameter. The best of
--rounds turns counts, for both. Prints a Markdown table. ZEROFLEET names the binary.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.environ.get("ZEROFLEET", str(ROOT / "build" / "zerofleet"))
SHAPES = {"gpt2-124m": (12, 768), "gpt2-355m": (24, 1024), "gpt2-774m": (36, 1280), "zero-offload-1b": (20, 2048)}
THREADS = str(len(os.sched_getaffinity(0)))


def said(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def ours(preset):
    rows = said(BINARY, "bench", "optimizer", "--offload", "--preset", preset, "--device", "cpu", "--threads", THREADS, "--json")["results"]
    return next(row for row in rows if row["optimizer"].startswith("adamw"))


def peers(python, preset, *flags):
    layers, hidden = SHAPES[preset]
    return said(python, ROOT / "bench" / "peers" / "torch_adamw.py", "--layers", layers, "--hidden", hidden, "--threads", THREADS, *flags)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--presets", default=",".join(SHAPES))
    parser.add_argument("--torch", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    name = "PyTorch"
    print("| model | parameters | seconds | ns per parameter | GB/s | of triad | PyTorch's AdamW, s | times ours | fused, s | times ours |\n"
          "|---|---|---|---|---|---|---|---|---|---|")
    for preset in options.presets.split(","):
        mine, plain, fused = [], [], []
        for _ in range(options.rounds):
            mine.append(ours(preset))
            if options.torch:
                plain.append(peers(options.torch, preset))
                fused.append(peers(options.torch, preset, "--fused"))
        best = min(mine, key=lambda row: row["seconds"])
        triad = max(row["memory_bytes_per_second"] for row in mine)
        row = f"| {preset} | {best['parameters'] / 1e6:.0f}M | {best['seconds']:.4f} | {1e9 * best['seconds'] / best['parameters']:.2f} " \
              f"| {best['bytes_per_second'] / 1e9:.1f} | {best['bytes_per_second'] / triad:.2f} "
        for each in (plain, fused):
            seconds = min((one["seconds"] for one in each), default=None)
            row += f"| {seconds:.4f} | {seconds / best['seconds']:.1f} " if seconds else "| | "
        print(row + "|", flush=True)
        name = plain[0]["peer"] if plain else name
    print(f"\n{name}; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
