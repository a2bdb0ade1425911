#!/usr/bin/env python3
"""Compares predictions with measurements on this machine's CPUs: step times and peaks of processes, for random configurations from a seed.

  bench/plan_accuracy.py [--configs 10] [--seed 1] [--steps 8] [--fit 0] > table.md

Each configuration is planned with `zerofleet plan --measure` between two runs of it, so that a drift of the machine's speed affects both. A
run's step time is the median, without the first two steps, of --steps steps or of as many as take two seconds, and the faster run counts. The
difference between the two runs is the machine's own variation: no prediction can be closer. --fit N draws N more configurations and trains
them under a memory limit equal to their planned peak: none may fail. Prints a Markdown table and the median and worst differences.
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


def drawn(numbers, work, name):
    pick = numbers.choice
    workers = pick([count for count in (1, 2, 4) if count <= CORES])
    micro = pick((1, 2, 4))
    text = work / "text"
    if not text.exists():
        text.write_text("".join(numbers.choice("abcdefgh \n") for _ in range(200_000)))
    return {
        "model": {"layers": pick((4, 6, 8, 12)), "hidden": pick((256, 384, 512, 768)), "heads": 8, "context": pick((64, 128, 256)),
                  "vocab": 256},
        "data": {"train": [str(text)]},
        "parallel": {"zero_stage": pick((0, 1, 2, 3)), "workers": workers},
        "precision": pick(("bf16", "fp32")),
        "activation": {"checkpointing": pick(("none", "selective", "block"))},
        "batch": {"global_sequences": workers * micro * pick((1, 2)), "micro_sequences": micro},
        "checkpoint": {"dir": str(work / name), "every_steps": 0}, "device": "cpu"}


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
    return (f"{model['layers']} x {model['hidden']}, context {model['context']}, {config['precision']}, stage {parallel['zero_stage']}, "
            f"{parallel['workers']} workers, {config['batch']['global_sequences']} by {config['batch']['micro_sequences']}, "
            f"{config['activation']['checkpointing']}")


def told(name, differences):
    print(f"\n{name}: median {100 * statistics.median(differences):.1f}%, worst {100 * max(differences):.1f}%")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--fit", type=int, default=0)
    options = parser.parse_args()
    numbers = random.Random(options.seed)
    times, peaks, apart = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        print("| configuration | step predicted, ms | measured | difference | the other run | peak predicted, MiB | measured | difference | load |")
        print("|---|---|---|---|---|---|---|---|---|")
        for number in range(options.configs):
            path = work / f"config-{number}.json"
            config = drawn(numbers, work, f"run-{number}")
            path.write_text(json.dumps(config))
            planned = json.loads(zerofleet("plan", path, "--json"))["rank_memory"]["process_bytes"]
            steps = max(options.steps, 2 + int(2 / trained(config, path, work, 5)[0]))
            before = trained(config, path, work, steps)
            path.write_text(json.dumps(config))
            step = json.loads(zerofleet("plan", path, "--measure", "--json"))["cluster"]["step"]["seconds"]
            runs = [before, trained(config, path, work, steps)]
            seconds, peak = min(run[0] for run in runs), max(run[1] for run in runs)
            apart.append(max(run[0] for run in runs) / seconds - 1)
            times.append(abs(step / seconds - 1))
            peaks.append(abs(planned / peak - 1))
            print(f"| {settings(config)} | {1e3 * step:.1f} | {1e3 * seconds:.1f} | {100 * (step / seconds - 1):+.1f}% "
                  f"| {100 * apart[-1]:+.1f}% | {planned / 2**20:.0f} | {peak / 2**20:.0f} | {100 * (planned / peak - 1):+.1f}% | {os.getloadavg()[0]:.1f} |", flush=True)
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
