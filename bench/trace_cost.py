#!/usr/bin/env python3
"""What a trace of every step costs: runs of `zerofleet train` with and without --trace, in turn.

  bench/trace_cost.py [--rounds 8] [--steps 30] [KEY=VALUE ...]

  bench/trace_cost.py model.hidden=256 model.layers=4 batch.global_sequences=4

Every second round has the opposite order, so that a machine that slows down does so for both. A ratio is of the two runs of one round: of
processor seconds of all the run's processes, start and the writing of the file included, and of the median step. Prints a Markdown table of
medians with quartiles. ZEROFLEET names the binary.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = os.environ.get("ZEROFLEET", str(ROOT / "build" / "zerofleet"))
WARM_UP = 3  # steps that are left out of the median


def measure(work, config, sets, steps, trace):
    run = pathlib.Path(tempfile.mkdtemp(dir=work))
    command = [BINARY, "train", str(config), "--report", str(run / "report.jsonl"),
               *(word for each in (f"checkpoint.dir={run}/checkpoints", *sets) for word in ("--set", each))]
    if trace:
        command += ["--trace", str(run / "trace.json"), "--trace-steps", f"1-{steps}"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    events = [json.loads(line) for line in (run / "report.jsonl").read_text().splitlines()]
    seconds = [event["seconds"] for event in events if event["event"] == "step"][WARM_UP:]
    spans = (run / "trace.json").read_text().count('"ph":"X"') if trace else 0
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, statistics.median(seconds), spans


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("sets", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        text = pathlib.Path(work) / "text.txt"
        text.write_text("".join(chr(97 + i * i % 23) for i in range(400_000)))
        config = pathlib.Path(work) / "run.yaml"
        sets = [f"steps={options.steps}", "evaluate.every_steps=0", "checkpoint.every_steps=0", *options.sets]
        base = {"model": {"preset": "gpt2-124m", "layers": 4, "hidden": 256, "heads": 4, "intermediate": 1024, "context": 128, "vocab": 512},
                "data": {"train": [str(text)], "format": "text", "tokenizer": "bytes"}, "batch": {"global_sequences": 4}, "device": "cpu"}
        config.write_text(json.dumps(base))
        plain, traced = [], []
        for number in range(options.rounds):
            for trace in (False, True) if number % 2 == 0 else (True, False):
                (traced if trace else plain).append(measure(work, config, sets, options.steps, trace))
        print("| | without | with | ratio | quartiles |\n|---|---|---|---|---|")
        for column, name in ((0, "processor seconds"), (1, "median step, s")):
            ratios = [b[column] / a[column] for a, b in zip(plain, traced)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            print(f"| {name} | {statistics.median(a[column] for a in plain):.4f} | {statistics.median(b[column] for b in traced):.4f} "
                  f"| {middle:.4f} | {low:.4f} to {high:.4f} |")
        print(f"\n{traced[0][2] / options.steps:.0f} spans a step")


if __name__ == "__main__":
    main()
