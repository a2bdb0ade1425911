#!/usr/bin/env python3
"""How long a fleet takes to go on after kill -9 of a rank, part by part, on this machine.

    bench/recovery.py [--kills N] [--stop | --cut] [--workers N] [--spares N] [--snapshots K] [--cold] [--config FILE.json] [--json]
    bench/recovery.py --every SECONDS --seconds SECONDS ...      the share of the time that went into steps that were not lost

Trains on made-up text with the given configuration (default: a small GPT in fp32), kills a rank drawn at random N times, each
time after another commit, and measures from outside: from the signal to the launcher's line that says the rank
is lost, to the `recovery` event, and to the first step that is reported after it. With --stop the rank gets SIGSTOP instead, which only the
heartbeat timeout detects. With --cold the kernel drops its cache of the checkpoints before each kill, so that they are read from the disk,
as by a replacement on another node. With --cut each worker is on a node of its own (network namespaces; root only), and the rank's node is
cut off from the network without notice; it is replaced once the loss has been noticed. ZEROFLEET names the binary.
"""
import argparse
import json
import math
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "integration"), str(ROOT / "tests" / "chaos")]
import fleet  # noqa: E402
import network  # noqa: E402
import nodes  # noqa: E402


def small_config(folder, workers, spares, snapshots):
    return {
        "model": {"family": "gpt2", "layers": 4, "hidden": 128, "heads": 4, "context": 64},
        "data": {"train": [str(folder / "text.txt")]},
        "parallel": {"zero_stage": 2, "workers": workers},
        "precision": "fp32",
        "batch": {"global_sequences": 2 * workers, "micro_sequences": 2},
        "steps": 100_000_000,
        "checkpoint": {"dir": str(folder / "checkpoints"), "every_steps": 10, "snapshot_every_steps": snapshots,
                       "replicate": int(snapshots > 0)},
        "device": "cpu",
        "restart": {"max_per_rank": 1_000_000, "spares": spares},
    }


class Watched:
    """A run whose report and progress are read as they grow."""

    def __init__(self, folder, config):
        (folder / "run.yaml").write_text(json.dumps(config))
        self.report, self.log = folder / "report.jsonl", folder / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([fleet.BINARY, "train", str(folder / "run.yaml"), "--report", str(self.report)],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def count(self, path, text):
        return path.read_text(errors="replace").count(text) if path.exists() else 0

    def await_count(self, path, text, count, seconds=120):
        """Waits until the text has occurred `count` times; returns the time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.count(path, text) >= count:
                return time.monotonic()
            if self.has_ended():
                break
            time.sleep(0.002)
        sys.exit(f"no {count} x {text!r}:\n{self.log.read_text()[-2000:]}")

    def has_ended(self):
        return self.process.poll() is not None

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def workers(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(pid) for pid in children
                if b"\0worker\0" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()]


class WatchedNodes(Watched):
    """A watched run whose workers are on nodes of their own."""

    def __init__(self, folder, config):
        self.report, self.log = folder / "report.jsonl", folder / "coordinator.log"
        # Network namespaces of one machine could otherwise reach each other through shared memory.
        self.fleet = nodes.NodeFleet(folder, config, self.report, config["parallel"]["workers"], {**os.environ, "UCX_TLS": "tcp"})
        self.fleet.open()

    def has_ended(self):
        return any(node == self.fleet.coordinator for node, _, _ in self.fleet.ended)

    def end(self):
        self.fleet.close()


def forget_cached(folder):
    """Makes the kernel drop its cache of the committed files, which it can since they have reached the disk."""
    for path in folder.glob("step-*/*"):
        try:
            file = os.open(path, os.O_RDONLY)
        except FileNotFoundError:  # an old checkpoint was deleted meanwhile
            continue
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def cut_a_rank(run, draw, lost):
    """Cuts a node off until its rank is lost, and lets another worker start there. Returns the times of the cut and of the notice."""
    node = draw.choice(run.fleet.workers())
    began = time.monotonic()
    run.fleet.network.cut(node)
    noticed = run.await_count(run.log, "; recovering", lost + 1)
    run.fleet.end(node)
    run.fleet.network.heal(node)
    return began, noticed


def kill_a_rank(run, draw, lost, number):
    """Kills (or stops) workers until one of them was a rank, not a spare, so that more than `lost` recoveries have begun.
    Returns the time of that kill."""
    def spares_lost():
        return run.count(run.log, "lost spare") + run.count(run.log, "ended before it had joined")

    while True:
        spares = spares_lost()
        began = time.monotonic()
        os.kill(draw.choice(run.workers()), number)
        while spares_lost() == spares:
            if run.count(run.log, "; recovering") > lost:
                return began
            if run.process.poll() is not None:
                sys.exit(f"the run ended:\n{run.log.read_text()[-2000:]}")
            time.sleep(0.002)


def measure(run, draw, number, cold=None):
    """Seconds from one kill (one cut if `number` is None) to the log's line, to the recovery and to the first step.
    `cold` is the checkpoints' folder if its cache is to be dropped before, otherwise None."""
    recoveries, lost = run.count(run.report, '"event":"recovery"'), run.count(run.log, "; recovering")
    # A rank that is lost again and again after a single step would end the run.
    run.await_count(run.report, '"event":"checkpoint"', run.count(run.report, '"event":"checkpoint"') + 1)
    run.await_count(run.report, '"event":"step"', run.count(run.report, '"event":"step"') + draw.randint(1, 8))
    if cold:
        forget_cached(cold)
    if number is None:
        began, noticed = cut_a_rank(run, draw, lost)
    else:
        began = kill_a_rank(run, draw, lost, number)
        noticed = run.await_count(run.log, "; recovering", lost + 1)
    recovered = run.await_count(run.report, '"event":"recovery"', recoveries + 1)
    steps = run.count(run.report, '"event":"step"')
    stepped = run.await_count(run.report, '"event":"step"', steps + 1)
    told = [json.loads(line) for line in run.report.read_text().splitlines() if '"event":"recovery"' in line][recoveries]
    return {"lost": noticed - began, "recovery": recovered - began, "first_step": stepped - began,
            "lost_steps": told["lost_steps"]}


def goodput(run, draw, every, seconds):
    """The fraction of the time that went into steps, each counted by its last report, with a kill every `every` seconds;
    and the number of kills."""
    lines = run.count(run.report, "\n")
    began = time.monotonic()
    kills = 0
    while time.monotonic() - began < seconds:
        time.sleep(max(0.0, min(every * (kills + 1), seconds) - (time.monotonic() - began)))
        if time.monotonic() - began < seconds:
            os.kill(draw.choice(run.workers()), signal.SIGKILL)
            kills += 1
    elapsed = time.monotonic() - began
    events = map(json.loads, run.report.read_text().splitlines()[lines:])
    steps = {each["step"]: each["seconds"] for each in events if each["event"] == "step"}
    return sum(steps.values()) / elapsed, kills


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--stop", action="store_true", help="SIGSTOP instead of SIGKILL")
    parser.add_argument("--cut", action="store_true", help="cut the rank's node off instead")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--spares", type=int, default=0)
    parser.add_argument("--snapshots", type=int, default=0, metavar="K",
                        help="keep snapshots every K steps and copies of them, so that a recovery reads a peer's memory")
    parser.add_argument("--cold", action="store_true", help="read checkpoints from the disk, not from the page cache")
    parser.add_argument("--config", help="sections and keys that replace the default's")
    parser.add_argument("--every", type=float, help="seconds between two kills")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    draw = random.Random(1)
    if options.cut and network.why_not():
        sys.exit(network.why_not())
    with tempfile.TemporaryDirectory(prefix="zerofleet-recovery-", ignore_cleanup_errors=True) as name:
        folder = pathlib.Path(name)
        (folder / "text.txt").write_text(fleet.english_like_text(200_000))
        config = small_config(folder, options.workers, options.spares, options.snapshots)
        if options.config:
            config = fleet.merged(config, json.loads(pathlib.Path(options.config).read_text()))
        run = (WatchedNodes if options.cut else Watched)(folder, config)
        try:
            run.await_count(run.report, '"event":"checkpoint"', 1, 600)
            if options.every:
                alone, _ = goodput(run, draw, math.inf, options.seconds / 4)
                share, kills = goodput(run, draw, options.every, options.seconds)
                print(f"{kills} kills in {options.seconds:.0f} s, one each {options.every:g} s: goodput {100 * share:.1f}%, "
                      f"{100 * alone:.1f}% in {options.seconds / 4:.0f} s without one before")
                return
            number = None if options.cut else signal.SIGSTOP if options.stop else signal.SIGKILL
            cold = folder / "checkpoints" if options.cold else None
            figures = [measure(run, draw, number, cold) for _ in range(options.kills)]
        finally:
            run.end()
    if options.json:
        print(json.dumps(figures))
        return
    what = f"{number.name} to" if number else "a cut around"
    print(f"{what} one of {config['parallel']['workers']} ranks, {options.kills} times, seconds from it to:")
    for part, title in (("lost", "the line that names the rank"), ("recovery", "training again"), ("first_step", "a finished step")):
        values = sorted(each[part] for each in figures)
        print(f"  {title:30} median {statistics.median(values):6.3f}   p99 {values[min(len(values) - 1, int(0.99 * len(values)))]:6.3f}   "
              f"longest {values[-1]:6.3f}")
    print(f"steps done again: {statistics.mean(each['lost_steps'] for each in figures):.1f} in the mean")


if __name__ == "__main__":
    main()
