#!/usr/bin/env python3
"""kill -9 at each named point of save, commit, join and recovery: whatever that leaves behind, the run ends well.

    tests/chaos/kill_points.py [--runs N] [--only TEXT]...      `make chaos-kill-points RUNS=...`
    tests/chaos/kill_points.py --list

The points are those of the sources (base/kill_point.h); the binary, which ZEROFLEET names, must have been built with
-DZEROFLEET_KILL_POINTS=ON. One run is a small fleet of `zerofleet train` in which the first process that comes to the point is
killed there. Points of a recovery come after a loss: the run's first worker, or its coordinator, is killed before, once two
checkpoints are committed; the points of joining are tried in a recovery as well. The run must end by itself with exit code 0 (if a
worker is killed before the fleet has formed, with 4, and with 0 when it is started again) and:

  I1  every checkpoint that was reported as committed and is kept verifies, byte for byte
  I2  nothing else is listed as committed
  I3  generations strictly grow
  I6  the last loss reported for each step is, to the bit, that of an undisturbed run
  I7  no recovery loses more steps than lie between two commits
  I8  nothing is left of checkpoints that were removed or not committed

Standard library only. Exit code 1: an invariant is broken, or a point was not reached.
"""
import argparse
import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import chaos
from chaos import Broken, fleet

ROOMS = ("base", "worker", "services")
POINT = re.compile(r'ZF_(FILE_)?KILL_POINT\(\s*"([^"]+)"')
FILES = ("manifest.json", "coordinator.json", ".epoch", ".epoch.spare")  # files written by write, fsync, rename, fsync of the directory
STEPS = 5 * chaos.SAVE_EVERY
WORKERS = 3
PATIENCE = 120  # seconds, for one run

# Points that are passed only after the loss of a worker; other points are passed in every run.
AFTER_A_WORKER = {"worker/regroup", "worker/view-left", "coordinator/regroup"}
AFTER_THE_COORDINATOR = {"session/broken", "session/coordinator-is-back", "session/adopted", "coordinator/rejoin-received"}
# Points that are passed once more in a recovery: by the replacement, or by the processes that are left.
AGAIN = ("worker/", "coordinator/")
ONCE = {"worker/finished", "worker/first-step", "worker/last-save-committed", "worker/complete", "coordinator/complete", "coordinator/finished-received", "worker/hello",
        "worker/welcome", "worker/outcome", "coordinator/outcome", "coordinator/shard-received", "coordinator/manifest-due",
        "coordinator/stored", "coordinator/hello-received", "coordinator/welcome"}

# The loss of a worker before the fleet has formed, or of a coordinator before it listens, ends `train`, which has nothing to lose yet;
# the same command starts it again.
BEFORE_THE_FLEET = ("worker/hello", "worker/welcome", "worker/endpoint-made", "worker/ready-told", "prune/leftover-apart", "@.epoch", "@.epoch.spare")
FORM_FAILED = 4

# Points that are passed only where the removal of a checkpoint by an earlier release was interrupted.
AFTER_A_REMOVAL = {"prune/leftover-apart"}

# Points of saves that are written from the live states, and passed in no others. A file's points are tried in both kinds of saves.
STREAM_ALONE = ("stream/", "save/gate")
STREAM_TOO = ("shard/", "save/before-report", "save/reported")
PIECES = 14  # pieces of a rank's file, including the end

# loss: the role that is killed beforehand, or ""; snapshot: the value of checkpoint.snapshot
Trial = collections.namedtuple("Trial", "point passing loss snapshot", defaults=("memory",))


def points():
    """The name of every point in the sources; points of files once per file."""
    found = set()
    for room in ROOMS:
        for path in sorted((fleet.ROOT / room).rglob("*.cc")):
            for of_file, name in POINT.findall(path.read_text()):
                found.update(f"{name}@{each}" for each in FILES) if of_file else found.add(name)
    return sorted(found)


def trials():
    """A trial for each point, and another one in a recovery for points that are passed again there."""
    listed = []
    for point in points():
        if point.startswith(STREAM_ALONE + STREAM_TOO):
            passings = PIECES if point == "stream/piece" else 3 if point == "shard/between-vectors" else 1
            listed += [Trial(point, passing, "", "stream") for passing in range(1, passings + 1)]
            if point.startswith(STREAM_ALONE):
                continue
        if point in AFTER_A_WORKER:
            listed.append(Trial(point, 1, "worker"))
        elif point in AFTER_THE_COORDINATOR:
            listed.append(Trial(point, 1, "coordinator"))
        else:
            listed.append(Trial(point, 1, ""))
            if point.startswith(AGAIN) and point not in ONCE or point.endswith("@coordinator.json"):
                listed.append(Trial(point, 2 if point.startswith("worker/") else WORKERS + 1, "worker"))
    return listed


def named(trial):
    streamed = ", streamed" if trial.snapshot == "stream" else ""
    return f"{trial.point}:{trial.passing}{streamed}" + (f" after the loss of a {trial.loss}" if trial.loss else "")


class Killed(chaos.OnOneMachine):
    """A run that is killed at one point."""

    def __init__(self, folder, trial):
        super().__init__(folder, 1, WORKERS)
        self.trial = trial
        self.mark = self.folder / "killed"

    def run(self):
        config = self.config(self.checkpoints, STEPS)
        config["checkpoint"].update(keep=2, snapshot=self.trial.snapshot)
        config["restart"].update(spares=0, max_per_rank=5, window_steps=0)
        (self.folder / "run.yaml").write_text(json.dumps(config))
        if self.trial.point in AFTER_A_REMOVAL:
            self.leave_shards()
        wanted = f"{self.trial.point}:{self.trial.passing}"
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "ZEROFLEET_KILL_AT": wanted, "ZEROFLEET_KILL_MARK": str(self.mark)}
        self.launch(environment)
        if self.trial.loss:
            self.lose()
        code = self.end()
        if code == FORM_FAILED and self.trial.point.endswith(BEFORE_THE_FLEET):
            self.launch(environment)
            code = self.end()
        if not self.mark.exists():
            raise Broken("the point was not reached")
        if code != 0:
            raise Broken(f"the run ended with {code}")

    def leave_shards(self):
        left = self.checkpoints / "step-00000001"
        left.mkdir(parents=True)
        (left / "rank-00000.safetensors").write_bytes(bytes(100))
        for path in (left / "rank-00000.safetensors", left):
            os.utime(path, (1_000_000, 1_000_000))

    def end(self):
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Broken(f"no end within {PATIENCE} s") from None

    def launch(self, environment):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([fleet.BINARY, "train", str(self.folder / "run.yaml"), "--report", str(self.report)],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, env=environment)

    def lose(self):
        deadline = time.monotonic() + PATIENCE
        while sum(each["event"] == "checkpoint" for each in self.events()) < 2:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Broken("no two checkpoints before the loss")
            time.sleep(0.002)
        self.send(self.children(self.trial.loss)[0], signal.SIGKILL)

    def check_leftovers(self):
        """Checks I8."""
        steps = {path for path in self.checkpoints.glob("step-*") if not (path / "manifest.json").exists()}
        left = sorted(str(path) for path in steps | set(self.checkpoints.glob(".step-*")) | set(self.checkpoints.glob(".epoch.*.tmp")))
        if left:
            raise Broken(f"left behind: {left}")

    def check(self, wanted):
        self.check_generations()
        self.check_checkpoints()
        self.check_leftovers()
        losses = {each["step"]: each["loss"] for each in self.events() if each["event"] == "step"}
        if losses != wanted:
            different = sorted(step for step in wanted.keys() | losses.keys() if wanted.get(step) != losses.get(step))
            raise Broken(f"the losses of steps {different[:5]} differ from an undisturbed run's")
        if not (self.checkpoints / f"step-{STEPS:08}" / "manifest.json").exists():
            raise Broken("the end is not committed")


def undisturbed(folder):
    """{step: loss} of an undisturbed run."""
    run = chaos.OnOneMachine(folder, 1, WORKERS)
    config = run.config(run.checkpoints, STEPS)
    (run.folder / "run.yaml").write_text(json.dumps(config))
    subprocess.run([fleet.BINARY, "train", str(run.folder / "run.yaml"), "--report", str(run.report)], check=True, capture_output=True)
    return {each["step"]: each["loss"] for each in run.events() if each["event"] == "step"}


def one(trial, wanted):
    """Runs a trial; returns why it failed, or nothing."""
    with tempfile.TemporaryDirectory(prefix="zerofleet-kill-", ignore_cleanup_errors=True) as folder:
        run = Killed(folder, trial)
        try:
            run.run()
            run.check(wanted)
        except Broken as broken:
            return f"{broken}\n{run.log.read_text(errors='replace')[-2500:]}"
        finally:
            if run.process is not None and run.process.poll() is None:
                run.process.kill()
                run.process.wait()
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1, help="of each trial")
    parser.add_argument("--only", action="append", help="trials whose point has this in its name")
    parser.add_argument("--streamed", action="store_true", help="trials whose saves are written from the live states alone")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    chosen = [each for each in trials() if not options.only or any(text in each.point for text in options.only)]
    chosen = [each for each in chosen if not options.streamed or each.snapshot == "stream"]
    if options.list:
        print("\n".join(map(named, chosen)))
        return
    with tempfile.TemporaryDirectory(prefix="zerofleet-kill-") as folder:
        wanted = undisturbed(folder)
    failed = []
    for trial in chosen:
        for _ in range(options.runs):
            began = time.monotonic()
            why = one(trial, wanted)
            if why is not None:
                failed.append(trial)
            print(f"{named(trial)}: {why or 'ok'} ({time.monotonic() - began:.1f} s)", flush=True)
    runs = len(chosen) * options.runs
    print(f"{len({each.point for each in chosen})} points, {len(chosen)} trials, {runs} runs, {len(failed)} violations")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
