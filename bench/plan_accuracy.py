#!/usr/bin/env python3
"""Compares predictions with measurements on this machine's CPUs: step times and peaks of processes, for random configurations from a seed.

  bench/plan_accuracy.py [--configs 10] [--seed 1] [--steps 8] [--fit 0] > table.md
  bench/plan_accuracy.py --scaling > table.md

Each configuration is planned with `zerofleet plan --measure` between two runs of it, so that a drift of the machine's speed affects both. A
run's step time is the median, without the first two steps, of --steps steps or of as many as take two seconds, and the faster run counts. The
difference between the two runs is the machine's own variation: no prediction can be closer. --fit N draws N more configurations and trains
them under a memory limit equal to their planned peak: none may fail. Prints a Markdown table and the median and worst differences.

--scaling takes one configuration and others that differ from it in one size each, in place of those drawn: what a token costs against layers,
hidden size, context, vocabulary and workers.
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
CORES = len(os.sched_getaffinity(0))


def configuration(work, name, model, workers, stage, sequences, micro, precision, checkpointing):
    text = work / "text"
    if not text.exists():
        letters = random.Random(0)
        text.write_text("".join(letters.choice("abcdefgh \n") for _ in range(200_000)))
    return {
        "model": {"heads": 8, "vocab": 256, **model},
        "data": {"train": [str(text)]},
        "parallel": {"zero_stage": stage, "workers": workers},
        "precision": precision,
        "activation": {"checkpointing": checkpointing},
        "batch": {"global_sequences": sequences, "micro_sequences": micro},
        "checkpoint": {"dir": str(work / name), "every_steps": 0}, "device": "cpu"}


def drawn(numbers, work, name):
    pick = numbers.choice
    workers = pick([count for count in (1, 2, 4) if count <= CORES])
    micro = pick((1, 2, 4))
    model = {"layers": pick((4, 6, 8, 12)), "hidden": pick((256, 384, 512, 768)), "context": pick((64, 128, 256))}
    stage, precision, checkpointing = pick((0, 1, 2, 3)), pick(("bf16", "fp32")), pick(("none", "selective", "block"))
    return configuration(work, name, model, workers, stage, workers * micro * pick((1, 2)), micro, precision, checkpointing)


def scaled(work):
    base = {"layers": 4, "hidden": 384, "context": 128, "vocab": 1024}
    sizes = [{}, {"layers": 2}, {"layers": 8}, {"hidden": 192}, {"hidden": 768}, {"context": 64}, {"context": 512}, {"vocab": 8192}, {"vocab": 32768}]
    workers = [count for count in (1, 2, 4) if count <= CORES]
    every = [({**base, **size}, 1) for size in sizes] + [(base, count) for count in workers[1:]]
    for number, (model, count) in enumerate(every):
        sequences = 8 * base["context"] // model["context"]
        yield configuration(work, f"run-{number}", model, count, 2, sequences, sequences // count, "bf16", "none")


def zerofleet(*arguments):
    done = subprocess.run([BINARY, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"zerofleet {' '.join(map(str, arguments))} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def trained(config, path, work, steps):
    config = {**config, "steps": steps}
    path.write_text(json.dumps(config))
    report = work / f"{path.stem}.jsonl"
    report.unlink(missing_ok=True)
    zerofleet("train", path, "--resume", "none", "--set", f"checkpoint.dir={tempfile.mkdtemp(dir=work)}", "--report", report)
    events = [json.loads(line) for line in report.read_text().splitlines()]
    seconds = [event["seconds"] for event in events if event["event"] == "step"][2:]
    peak = max(rank["rss_peak_bytes"] for rank in events[-1]["ranks"])
    return statistics.median(seconds), peak


def settings(config):
    model, parallel = config["model"], config["parallel"]
    return (f"{model['layers']} x {model['hidden']}, context {model['context']}, vocabulary {model['vocab']}, {config['precision']}, stage {parallel['zero_stage']}, "
            f"{parallel['workers']} workers, {config['batch']['global_sequences']} by {config['batch']['micro_sequences']}, "
            f"{config['activation']['checkpointing']}")


def told(name, differences):
    print(f"\n{name}: median {100 * statistics.median(differences):.1f}%, worst {100 * max(differences):.1f}%")


def compared(config, path, work, least_steps):
    """The planned and the measured step time, how much longer the other run's steps were, and the planned and the measured peak."""
    path.write_text(json.dumps(config))
    planned = json.loads(zerofleet("plan", path, "--json"))["rank_memory"]["process_bytes"]
    steps = max(least_steps, 2 + int(2 / trained(config, path, work, 5)[0]))
    before = trained(config, path, work, steps)
    path.write_text(json.dumps(config))
    step = json.loads(zerofleet("plan", path, "--measure", "--json"))["cluster"]["step"]["seconds"]
    runs = [before, trained(config, path, work, steps)]
    seconds, peak = min(run[0] for run in runs), max(run[1] for run in runs)
    return step, seconds, max(run[0] for run in runs) / seconds - 1, planned, peak


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--fit", type=int, default=0)
    parser.add_argument("--scaling", action="store_true")
    options = parser.parse_args()
    numbers = random.Random(options.seed)
    times, peaks, apart = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        configs = scaled(work) if options.scaling else (drawn(numbers, work, f"run-{number}") for number in range(options.configs))
        print("| configuration | step predicted, ms | measured | difference | the other run | us a token | peak predicted, MiB | measured | difference | load |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for number, config in enumerate(configs):
            step, seconds, other, planned, peak = compared(config, work / f"config-{number}.json", work, options.steps)
            apart.append(other)
            times.append(abs(step / seconds - 1))
            peaks.append(abs(planned / peak - 1))
            tokens = config["batch"]["global_sequences"] * config["model"]["context"]
            print(f"| {settings(config)} | {1e3 * step:.1f} | {1e3 * seconds:.1f} | {100 * (step / seconds - 1):+.1f}% "
                  f"| {100 * other:+.1f}% | {1e6 * seconds / tokens:.1f} | {planned / 2**20:.0f} | {peak / 2**20:.0f} "
                  f"| {100 * (planned / peak - 1):+.1f}% | {os.getloadavg()[0]:.1f} |", flush=True)
        told("Step", times)
        told("The machine, two runs of the same", apart)
        told("Peak", peaks)
        for number in range(options.fit):
            path = work / f"fit-{number}.json"
            config = drawn(numbers, work, f"fit-run-{number}")
            path.write_text(json.dumps(config))
            memory = json.loads(zerofleet("plan", path, "--json"))["rank_memory"]
            device = sum(memory["device"].values())
            trained({**config, "memory": {"device_limit": f"{(device + 1023) // 1024}KiB"}}, path, work, 3)
        if options.fit:
            print(f"\nTrained under a limit of the plan's own device memory: {options.fit} of {options.fit}")


if __name__ == "__main__":
    main()
