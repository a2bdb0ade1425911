#!/usr/bin/env python3
"""The largest model that trains under a device limit, with and without offload, shown by training it for 3 steps.

  bench/largest_model.py [--limit 4] [--host 14] [--dir DIRECTORY] [--only none,cpu,nvme] > table.md

One worker, bf16, micro-batch 1 of 64 tokens, every block checkpointed, hidden size 1536. The number of layers is the largest for which
`zerofleet plan` puts the device within --limit GiB and the host within --host GiB; the configuration limits both, so a run that needed
more would be refused or fail. Prints a Markdown table. ZEROFLEET names the binary.
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
KINDS = {"none": ("stage 0, no offload", 0, {}),
         "cpu": ("stage 2, states on the host", 2, {"optimizer": "cpu"}),
         "nvme": ("stage 2, states on disk", 2, {"optimizer": "nvme"})}


def zerofleet(*arguments):
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"zerofleet {' '.join(map(str, arguments))} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


class Search:
    def __init__(self, work, options, stage, offload):
        self.work, self.options = work, options
        if offload.get("optimizer") == "nvme":
            offload = {**offload, "dir": str(options.dir)}
        self.config = {"model": {"hidden": 1536, "heads": 12, "context": 64, "vocab": 256}, "data": {"train": [str(work / "text")]},
                       "parallel": {"zero_stage": stage, "workers": 1}, "precision": "bf16", "batch": {"global_sequences": 1},
                       "activation": {"checkpointing": "block"}, "offload": offload, "steps": 3,
                       "memory": {"device_limit": f"{options.limit}GiB", "host_limit": f"{options.host:g}GiB"},
                       "checkpoint": {"dir": str(work / "run"), "every_steps": 0, "snapshot": "auto"}, "device": "cpu"}

    def path(self, layers):
        self.config["model"]["layers"] = layers
        path = self.work / "config.json"
        path.write_text(json.dumps(self.config))
        return path

    def plan(self, layers):
        memory = json.loads(zerofleet("plan", self.path(layers), "--json"))
        sums = [sum(memory["rank_memory"][space].values()) for space in ("device", "host")]
        return memory["parameters"], sums

    def fits(self, layers):
        _, (device, host) = self.plan(layers)
        return device <= self.options.limit * 2**30 and host <= self.options.host * 2**30

    def most_layers(self):
        low, high = 1, 256
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.fits(middle) else (low, middle)
        return low


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=4)
    parser.add_argument("--host", type=float, default=14)
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()))
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--plan-only", action="store_true")
    options = parser.parse_args()
    smallest = None
    print("| | layers | parameters | of the first's | device, GiB | host, GiB | resident, GiB | step, s | losses of 3 steps |\n|---|---|---|---|---|---|---|---|---|")
    for kind in options.only.split(","):
        name, stage, offload = KINDS[kind]
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder)
            numbers = random.Random(1)
            (work / "text").write_text("".join(numbers.choice("abcdefgh \n") for _ in range(10_000)))
            search = Search(work, options, stage, offload)
            layers = search.most_layers()
            parameters, (device, host) = search.plan(layers)
            smallest = smallest or parameters
            row = f"| {name} | {layers} | {parameters / 1e6:.0f}M | {parameters / smallest:.2f} | {device / 2**30:.2f} | {host / 2**30:.2f} "
            if options.plan_only:
                print(row + "| | | |", flush=True)
                continue
            report = work / "report.jsonl"
            zerofleet("train", search.path(layers), "--set", "checkpoint.keep=1", "--report", report)
            events = [json.loads(line) for line in report.read_text().splitlines()]
            steps = [event for event in events if event["event"] == "step"]
            resident = max(rank["rss_peak_bytes"] for rank in events[-1]["ranks"])
            print(row + f"| {resident / 2**30:.2f} | {statistics.median(event['seconds'] for event in steps):.1f} "
                  f"| {', '.join(format(event['loss'], '.3f') for event in steps)} |", flush=True)


if __name__ == "__main__":
    main()
