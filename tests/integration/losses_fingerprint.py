#!/usr/bin/env python3
"""The losses and gradient norms of 12 small runs, as bits, so that two builds can be compared.

    tests/integration/losses_fingerprint.py [--binary A]                  prints every step and a digest per configuration
    tests/integration/losses_fingerprint.py --binary A --against B        says whether B gives the same bits; exit code 1 if not

The configurations cover stages 0 to 3, bf16, fp16 and fp32, world sizes 1 to 3, one and several micro-batches, UCX and the
in-process backend. Use this to show that a change leaves results unchanged, or which results it affects.
"""
import argparse
import collections
import hashlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import fleet

STEPS = 8
RUN_SECONDS = 300

Case = collections.namedtuple("Case", "stage precision workers micro_sequences collectives")
CASES = [
    Case(0, "fp32", 1, 12, "in_process"),
    Case(1, "bf16", 1, 12, "ucx"),
    Case(2, "fp16", 1, 4, "in_process"),
    Case(3, "bf16", 1, 12, "in_process"),
    Case(0, "bf16", 2, 6, "ucx"),
    Case(1, "fp32", 2, 6, "ucx"),
    Case(2, "bf16", 2, 6, "ucx"),
    Case(3, "fp16", 2, 6, "ucx"),
    Case(0, "fp16", 3, 4, "ucx"),
    Case(1, "bf16", 3, 2, "ucx"),
    Case(2, "fp32", 3, 4, "ucx"),
    Case(3, "bf16", 3, 2, "ucx"),
]


def name_of(case):
    return (f"stage {case.stage}, {case.precision}, {case.workers} workers, {case.micro_sequences} sequences per micro-batch, "
            f"{case.collectives}")


def config_of(case, folder):
    return {
        "model": {"family": "gpt2", "layers": 3, "hidden": 24, "heads": 3, "context": 32},
        "data": {"train": [str(folder / "train.txt")]},
        "parallel": {"zero_stage": case.stage, "workers": case.workers},
        "precision": case.precision,
        "batch": {"global_sequences": 12, "micro_sequences": case.micro_sequences},
        "optimizer": {"learning_rate": 3e-3},
        "schedule": {"warmup_steps": 4},
        "steps": STEPS,
        "checkpoint": {"dir": str(folder / "checkpoints"), "every_steps": 0},
        "device": "cpu",
        "collectives": case.collectives,
        "restart": {"heartbeat_timeout_seconds": 60},
    }


def steps_of(binary, case):
    """Runs one case; returns [(step, loss, gradient norm)]."""
    with tempfile.TemporaryDirectory(prefix="zerofleet-fingerprint-") as name:
        folder = pathlib.Path(name)
        (folder / "train.txt").write_text(fleet.english_like_text(50_000))
        (folder / "config.yaml").write_text(json.dumps(config_of(case, folder)))  # JSON is YAML
        report = folder / "report.jsonl"
        run = subprocess.run([binary, "train", str(folder / "config.yaml"), "--report", str(report)], cwd=folder,
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
        if run.returncode != 0:
            sys.exit(f"{binary}: {name_of(case)}: exit code {run.returncode}\n{run.stderr[-2000:]}")
        events = [json.loads(line) for line in report.read_text().splitlines()]
    steps = [(event["step"], event["loss"], event["grad_norm"]) for event in events if event["event"] == "step"]
    if [step for step, _, _ in steps] != list(range(1, STEPS + 1)):
        sys.exit(f"{binary}: {name_of(case)}: steps {[step for step, _, _ in steps]} in the report")
    return steps


def bits(value):
    """A number as hexadecimal; for one that isn't finite, the report's replacement, unchanged."""
    return float(value).hex() if isinstance(value, (int, float)) else str(value)


def digest(steps):
    digested = hashlib.sha256()
    for step, loss, norm in steps:
        for value in (loss, norm):
            digested.update(struct.pack("<q", step) + bits(value).encode() + b"\n")
    return digested.hexdigest()[:16]


def print_case(case, steps):
    print(f"{name_of(case)}: {digest(steps)}")
    for step, loss, norm in steps:
        print(f"  step {step}  loss {bits(loss)}  grad_norm {bits(norm)}")


def compare(case, ours, theirs):
    """Whether all bits are equal; prints the first step that differs."""
    if ours == theirs:
        print(f"same      {digest(ours)}  {name_of(case)}", flush=True)
        return True
    step = next(mine[0] for mine, other in zip(ours, theirs) if mine != other)
    print(f"DIFFERENT {digest(ours)} {digest(theirs)}  {name_of(case)}, from step {step}:", flush=True)
    for who, steps in (("binary ", ours), ("against", theirs)):
        print(f"  {who} loss {bits(steps[step - 1][1])}  grad_norm {bits(steps[step - 1][2])}")
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=fleet.BINARY, help="the executable to run (default: %(default)s)")
    parser.add_argument("--against", help="another executable, whose bits must be the same")
    arguments = parser.parse_args()
    binaries = [os.path.abspath(path) for path in (arguments.binary, arguments.against) if path]
    for path in binaries:
        if not os.access(path, os.X_OK):
            sys.exit(f"{path} is not an executable")
    same = 0
    for case in CASES:
        results = [steps_of(path, case) for path in binaries]
        if len(results) == 1:
            print_case(case, results[0])
        else:
            same += compare(case, *results)
    if arguments.against:
        print(f"{same} of {len(CASES)} configurations: the same bits in {STEPS} steps")
        sys.exit(0 if same == len(CASES) else 1)


if __name__ == "__main__":
    main()
