#!/usr/bin/env python3
"""How long a save delays training: written from a copy of the states (checkpoint.snapshot: memory), and from the states themselves (stream).

  bench/save_stalls.py [--saves 6] [--every 4] [--offload] > table.md

One run for each kind on 2 workers: a model of 25 million parameters, stage 2, bf16, a save every few steps. The stall is the
checkpoint event's figure, which counts the copy or the time that updates waited; the host's peak is rank 0's. Prints a Markdown table. ZEROFLEET
names the binary.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.environ.get("ZEROFLEET", str(ROOT / "build" / "zerofleet"))


def trained(work, kind, options):
    config = {"model": {"layers": 8, "hidden": 512, "heads": 8, "context": 128, "vocab": 256}, "data": {"train": [str(work / "text")]},
              "parallel": {"zero_stage": 2, "workers": 2}, "precision": "bf16", "batch": {"global_sequences": 8},
              "offload": {"optimizer": "cpu" if options.offload else "none"}, "steps": options.saves * options.every,
              "checkpoint": {"dir": str(work / kind), "every_steps": options.every, "snapshot": kind, "keep": 2}, "device": "cpu"}
    path, report = work / f"{kind}.json", work / f"{kind}.jsonl"
    path.write_text(json.dumps(config))
    done = subprocess.run([BINARY, "train", str(path), "--report", str(report)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"train ended with {done.returncode}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in report.read_text().splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--saves", type=int, default=6)
    parser.add_argument("--every", type=int, default=4)
    parser.add_argument("--offload", action="store_true")
    options = parser.parse_args()
    print("| checkpoint.snapshot | saves | MB each | step, ms | stall per save, ms | most | written in, ms | host memory, peak, MiB |\n"
          "|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        numbers = random.Random(1)
        (work / "text").write_text("".join(numbers.choice("abcdefgh \n") for _ in range(200_000)))
        for kind in ("memory", "stream"):
            events = trained(work, kind, options)
            # The last save is at the end of the run, so no update waits for it.
            saves = [event for event in events if event["event"] == "checkpoint"][:-1]
            stalls = [1e3 * event["stall_seconds"] for event in saves]
            steps = [event["seconds"] for event in events if event["event"] == "step"]
            host = sum(category["peak"] for category in events[-1]["ranks"][0]["memory"]["host"].values())
            print(f"| {kind} | {len(saves)} | {int(saves[0]['bytes']) / 1e6:.0f} | {1e3 * statistics.median(steps):.0f} "
                  f"| {statistics.median(stalls):.1f} | {max(stalls):.1f} "
                  f"| {1e3 * statistics.median(event['write_seconds'] for event in saves):.0f} | {host / 2**20:.0f} |", flush=True)
    print(f"\nLoad {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
