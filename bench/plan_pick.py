#!/usr/bin/env python3
"""The planner's pick against an exhaustive search over its choices, for small models on this machine's CPUs.

  bench/plan_pick.py [--models 0,1,2,3,4] [--rounds 6] > table.md

Every combination of stage, tensor degree, micro-batch, checkpointing and offload that the planner may pick is trained for a few steps.
The fastest six, what `train --auto` picks and what `plan --measure` picks are then trained again in turn, every second round in the opposite
order. The time of a run is its median step, that of a combination the median of its rounds. The first half of the rounds determines the best
combination, the second half its time, since the minimum of several noisy times is too low. Prints a Markdown table: how much slower each pick is than the
best. ZEROFLEET names the binary.
"""
import argparse
import itertools
import json
import math
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.environ.get("ZEROFLEET", str(ROOT / "build" / "zerofleet"))
FASTEST = 6
# layers, hidden, context, workers, sequences per worker and step, precision
MODELS = [(4, 192, 128, 1, 2, "bf16"), (6, 256, 64, 2, 2, "bf16"), (4, 384, 64, 2, 1, "bf16"), (4, 256, 128, 2, 1, "fp32"),
          (9, 128, 128, 1, 4, "fp32")]
PICKED = ("parallel.zero_stage", "parallel.tensor", "batch.micro_sequences", "activation.checkpointing", "offload.optimizer")


def zerofleet(*arguments):
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"zerofleet {' '.join(map(str, arguments))} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done


class Model:
    def __init__(self, work, shape):
        self.work, self.shape, self.runs = work, shape, 0
        layers, hidden, context, workers, sequences, precision = shape
        self.config = {"model": {"layers": layers, "hidden": hidden, "heads": 4, "context": context, "vocab": 256},
                       "data": {"train": [str(work / "text")]}, "parallel": {"workers": workers}, "precision": precision,
                       "batch": {"global_sequences": workers * sequences}, "checkpoint": {"dir": str(work / "run"), "every_steps": 0},
                       "device": "cpu"}
        self.path = work / "run.json"
        self.path.write_text(json.dumps(self.config))

    def choices(self):
        """The choices of cli/planner/pick.cc, but with every micro-batch."""
        layers, _, _, workers, sequences, _ = self.shape
        root = round(math.sqrt(layers))
        kinds = ["none", "selective", "block"] + ([f"{{every: {root}}}"] if root > 1 else [])
        for tensor, stage, kind, offload in itertools.product((1, 2), range(4), kinds, ("none", "cpu")):
            if tensor > workers or (stage == 0 and offload != "none"):
                continue
            rank = sequences * tensor
            for micro in (each for each in range(1, rank + 1) if rank % each == 0):
                yield dict(zip(PICKED, (stage, tensor, micro, kind, offload)))

    def seconds(self, choice, steps):
        """The median step of a separate run, without its first two steps."""
        self.runs += 1
        report = self.work / f"report-{self.runs}.jsonl"
        sets = [word for key, value in choice.items() for word in ("--set", f"{key}={value}")]
        zerofleet("train", self.path, *sets, "--set", f"steps={steps}", "--set", f"checkpoint.dir={self.work}/run-{self.runs}",
                  "--report", report)
        events = [json.loads(line) for line in report.read_text().splitlines()]
        return statistics.median([event["seconds"] for event in events if event["event"] == "step"][2:])

    def auto_pick(self):
        said = zerofleet("train", self.path, "--auto", "--set", "steps=1", "--set", f"checkpoint.dir={self.work}/auto").stderr
        pairs = dict(re.findall(r"(\S+)=(\{every: \d+\}|\S+)", re.search(r"^auto: (.*)$", said, re.M)[1]))
        return {key: type(0)(pairs[key]) if pairs[key].isdigit() else pairs[key] for key in PICKED}

    def measured_pick(self):
        first = json.loads(zerofleet("plan", self.path, "--measure", "--json").stdout)["cluster"]["pick"]["first"]
        return dict(zip(PICKED, (first[key] for key in ("zero_stage", "tensor", "micro_sequences", "checkpointing", "offload"))))


def name(choice):
    stage, tensor, micro, kind, offload = (choice[key] for key in PICKED)
    return (f"stage {stage}" + (f", tensor {tensor}" if tensor > 1 else "") + f", micro-batch {micro}" +
            (f", {kind}" if kind != "none" else "") + (f", offload {offload}" if offload != "none" else ""))


def searched(model, rounds):
    once = {name(choice): (model.seconds(choice, 7), choice) for choice in model.choices()}
    ranked = sorted(once, key=lambda each: once[each][0])
    picks = {"train --auto": model.auto_pick(), "plan --measure": model.measured_pick()}
    again = {each: once[each][1] for each in ranked[:FASTEST]} | {name(choice): choice for choice in picks.values()}
    times = {each: [] for each in again}
    for number in range(rounds):
        for each in list(again) if number % 2 == 0 else list(again)[::-1]:
            times[each].append(model.seconds(again[each], 22))
    best = min(times, key=lambda each: statistics.median(times[each][:rounds // 2]))
    median = {each: statistics.median(values[rounds // 2:]) for each, values in times.items()}
    layers, hidden, context, workers, sequences, precision = model.shape
    row = f"| {layers} x {hidden}, context {context}, {precision}, {workers} workers, {sequences} sequences each | {len(once)} " \
          f"| {1e3 * once[ranked[-1]][0]:.1f} | {best}: {1e3 * median[best]:.1f} "
    for choice in picks.values():
        row += f"| {name(choice)}: {1e3 * median[name(choice)]:.1f} | {median[name(choice)] / median[best]:.3f} "
    print(row + f"| {os.getloadavg()[0]:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(map(str, range(len(MODELS)))))
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error(f"--rounds: must be >= 2, got {options.rounds}")
    print("| model | choices | slowest, ms | best, ms | `train --auto`, ms | of the best | `plan --measure`, ms | of the best | load |\n"
          "|---|---|---|---|---|---|---|---|---|")
    for number in map(int, options.models.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder)
            numbers = random.Random(1)
            (work / "text").write_text("".join(numbers.choice("abcdefgh \n") for _ in range(100_000)))
            searched(Model(work, MODELS[number]), options.rounds)


if __name__ == "__main__":
    main()
