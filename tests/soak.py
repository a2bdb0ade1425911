#!/usr/bin/env python3
"""A long run of a tiny model, to see that nothing grows with it: memory, threads, descriptors and logs of every process.

    tests/soak.py [--steps 150000 | --minutes 120] [--workers 3] [--interval 10] [--json FILE]

Trains one layer of width 16 with the metrics of every process scraped at each interval, samples /proc of the launcher and of its
children, and compares the largest values after the warm-up (a minute and two checkpoints, half of the run at most) with those
before, and the medians of the last quarter with those of the third: allocators keep pages for a while, a leak goes on. The bytes
that are allocated (heap_in_use.cc, preloaded) distinguish a leak from pages and stacks that are kept. Prints a table
and a verdict; the exit code is 1 if something grew. ZEROFLEET names the binary (default:
build/zerofleet; its build has the target heap_in_use). Standard library only. Not part of `make test`.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "integration"))
import fleet  # noqa: E402

# The growth that a process is allowed after the warm-up: pages that allocators keep, threads that gRPC adds while a machine is busy and
# keeps for a while, a connection of a scrape under way.
ALLOWED = {"rss_kb": 4096, "heap_kb": 512, "threads": 6, "descriptors": 4}
# The growth that it is allowed from the third quarter to the last.
ALLOWED_LATE = {"rss_kb": 1024, "heap_kb": 32, "threads": 2, "descriptors": 4}
MOST_CHECKPOINT_STEPS = 10_000  # between two checkpoints; the coordinator keeps the steps that no checkpoint has yet
MOST_LOG_BYTES = 17 << 20  # a log and its predecessor
COLUMNS = ("rss_kb", "heap_kb", "threads", "descriptors")
LIBRARY = pathlib.Path(fleet.BINARY).resolve().parent / "tests" / "libheap_in_use.so"


def sample(pid, heaps):
    """The process's current figures; None if it is gone."""
    try:
        fields = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
        return {"rss_kb": int(fields["VmRSS"].split()[0]), "threads": int(fields["Threads"]),
                "heap_kb": int((heaps / str(pid)).read_text()) >> 10,
                "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}
    except (OSError, KeyError, ValueError):
        return None


def role_of(pid):
    try:
        arguments = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    role = arguments[1].decode() if len(arguments) > 1 else None
    if role == "worker":
        return "worker " + arguments[arguments.index(b"--local-rank") + 1].decode()
    return role


def children_of(pid):
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {role_of(int(child)): int(child) for child in children}


def scrape(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return answer.read().decode()
    except OSError:
        return ""


def step_of(page):
    for line in page.splitlines():
        if line.startswith("zerofleet_worker_step "):
            return int(float(line.split()[1]))
    return 0


def log_bytes(logs):
    return sum(path.stat().st_size for path in logs.glob("*")) if logs.exists() else 0


def write_config(work, steps, workers):
    text = work / "train.txt"
    text.write_text(fleet.english_like_text(50_000))
    config = {
        "model": {"family": "gpt2", "layers": 1, "hidden": 16, "heads": 1, "context": 8},
        "data": {"train": [str(text)]}, "parallel": {"zero_stage": 2, "workers": workers}, "precision": "fp32",
        "batch": {"global_sequences": workers}, "steps": steps, "device": "cpu",
        "checkpoint": {"dir": str(work / "checkpoints"), "every_steps": min(MOST_CHECKPOINT_STEPS, max(100, steps // 20)), "keep": 2,
                       "snapshot_every_steps": 50, "replicate": 1},
        "integrity": {"every_steps": 100, "replay_every_steps": 100},
        "restart": {"heartbeat_timeout_seconds": 20},
    }
    path = work / "soak.yaml"
    path.write_text(json.dumps(config))
    return path


def watch(launcher, port, workers, interval, work, until):
    """Samples every process until the launcher has ended; asks it to end after `until` seconds. Returns
    [{seconds, step, log_bytes, processes: {role: figures}}]."""
    samples, began = [], time.monotonic()
    while launcher.poll() is None:
        if time.monotonic() - began > until:
            launcher.terminate()
            launcher.wait()
            break
        pages = [scrape(port + i) for i in range(workers + 1)]
        processes = {"train": launcher.pid, **children_of(launcher.pid)}
        figures = {role: sample(pid, work / "heaps") for role, pid in processes.items() if role}
        samples.append({"seconds": time.monotonic() - began, "step": max(map(step_of, pages)),
                        "log_bytes": log_bytes(work / "checkpoints" / "logs"),
                        "processes": {role: each for role, each in figures.items() if each}})
        print(f"  {samples[-1]['seconds']:7.0f} s  step {samples[-1]['step']}", file=sys.stderr, flush=True)
        try:
            launcher.wait(interval)
        except subprocess.TimeoutExpired:
            pass
    return samples


def judge(samples):
    """The rows of the table, and what grew."""
    warm = min(samples[-1]["seconds"] / 2, next((each["seconds"] for each in samples if each["seconds"] > 60 and
                                                 each["step"] > 2 * MOST_CHECKPOINT_STEPS), float("inf")))
    before = [each for each in samples if each["seconds"] <= warm and each["step"] > 0] or samples[:2]
    after = [each for each in samples if each["seconds"] > warm and each["step"] > 0] or samples[-1:]
    rows, grown = [], []
    for role in sorted({role for each in samples for role in each["processes"]}):
        for column in COLUMNS:
            first = max((each["processes"][role][column] for each in before if role in each["processes"]), default=0)
            most = max((each["processes"][role][column] for each in after if role in each["processes"]), default=0)
            rows.append((role, column, first, most))
            if first and most > first + ALLOWED[column]:
                grown.append(f"{role}: {column} grew from {first} to {most}")
    quarter = samples[-1]["seconds"] / 4
    for role in sorted(samples[-1]["processes"]):
        for column in COLUMNS:
            third, last = (int(statistics.median([each["processes"][role][column] for each in samples
                                                  if begin * quarter < each["seconds"] <= (begin + 1) * quarter and
                                                  role in each["processes"]] or [0])) for begin in (2, 3))
            rows.append((role, f"{column}, medians", third, last))
            if third and last > third + ALLOWED_LATE[column]:
                grown.append(f"{role}: {column} grew from {third} in the third quarter to {last} in the last")
    most_log = max(each["log_bytes"] for each in samples)
    rows.append(("all", "log_bytes", before[-1]["log_bytes"], most_log))
    if most_log > MOST_LOG_BYTES * max(len(each["processes"]) for each in samples):
        grown.append(f"the logs grew to {most_log} bytes")
    return rows, grown


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150_000)
    parser.add_argument("--minutes", type=float, help="stop the run, in order, after so long instead")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--interval", type=float, default=10, help="seconds between samples and scrapes")
    parser.add_argument("--json", help="write all samples to this file")
    flags = parser.parse_args()
    if not LIBRARY.exists():
        sys.exit(f"{LIBRARY} is not there; build the target heap_in_use")
    work = pathlib.Path(tempfile.mkdtemp(prefix="zerofleet-soak-"))
    (work / "heaps").mkdir()
    if flags.minutes:
        flags.steps = 1_000_000_000
    port = fleet.free_port(flags.workers + 1)
    report = work / "report.jsonl"
    launcher = subprocess.Popen(
        [fleet.BINARY, "train", str(write_config(work, flags.steps, flags.workers)), "--metrics-port", str(port), "--report",
         str(report)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "LD_PRELOAD": str(LIBRARY), "ZEROFLEET_HEAP_DIR": str(work / "heaps")})
    with open(work / "progress.txt", "w", encoding="utf-8") as progress:
        drain = subprocess.Popen(["cat"], stdin=launcher.stderr, stdout=progress)
        samples = watch(launcher, port, flags.workers, flags.interval, work,
                        60 * flags.minutes if flags.minutes else float("inf"))
        drain.wait()
    if flags.json:
        pathlib.Path(flags.json).write_text(json.dumps(samples, indent=1))
    if launcher.returncode != (128 + signal.SIGTERM if flags.minutes else 0) or len(samples) < 3:
        print((work / "progress.txt").read_text()[-2000:])
        sys.exit(f"train ended with {launcher.returncode} after {len(samples)} samples; see {work}")
    with open(report, encoding="utf-8") as lines:
        steps = sum(1 for line in lines if '"event":"step"' in line.replace(" ", ""))
    rows, grown = judge(samples)
    if not flags.minutes and steps != flags.steps:
        grown.append(f"the report has {steps} of {flags.steps} steps")
    print(f"{steps} steps, {flags.workers} workers, {samples[-1]['seconds']:.0f} s, {len(samples)} samples")
    print(f"{'process':<14}{'figure':<22}{'before':>12}{'after':>12}")
    for role, column, first, most in rows:
        print(f"{role:<14}{column:<22}{first:>12}{most:>12}")
    print("level" if not grown else "GREW: " + "; ".join(grown))
    shutil.rmtree(work, ignore_errors=True)
    sys.exit(1 if grown else 0)


if __name__ == "__main__":
    main()
