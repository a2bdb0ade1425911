#!/usr/bin/env python3
"""Faults on the processes of real runs, from a seed: whatever happens, what was acknowledged stays, and no bit changes.

    tests/chaos/run.py [--rounds N] [--seed S] [--kind NAME]... [--workers N]      `make chaos SEED=... ROUNDS=...`
    tests/chaos/run.py --list

One round is one fault of a kind drawn from the seed, at a moment drawn from it, on a run of `zerofleet train` that trains as long
as faults come. After each round the run must go on by itself: a step that was not done before is reported in time. Only where
chance killed one rank three times after one step, which is the rule for a poison step, is it started again. At the end:

  I1  every checkpoint that was reported as committed and is kept verifies, byte for byte
  I2  nothing else is listed as committed
  I3  generations strictly grow
  I6  the last loss reported for each step is, to the bit, that of a run that nothing happened to
  I7  no recovery loses more steps than lie between two commits

ZEROFLEET names the binary. Standard library only. Exit code 1: an invariant is broken; the seed, the kinds and the logs are told.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import fleet  # noqa: E402

SAVE_EVERY = 25
HEARTBEAT_TIMEOUT = 2
LOST = 4  # exit code: the run was ended for its losses
PATIENCE = 60  # seconds, from a fault to the next new step
KEEP = 4


class Broken(Exception):
    """An invariant does not hold."""


class Chaos:
    """One run and what is done to it."""

    def __init__(self, folder, seed, workers):
        self.folder, self.draw, self.workers_wanted = pathlib.Path(folder), random.Random(seed), workers
        (self.folder / "text.txt").write_text(fleet.english_like_text(60_000))
        self.report = self.folder / "report.jsonl"
        self.checkpoints = self.folder / "checkpoints"
        self.log = self.folder / "train.log"
        self.process = None
        self.begun = self.poisoned = 0

    # --- the run

    def config(self, directory, steps):
        stage = self.draw.randint(0, 3)
        compares = self.workers_wanted > 1  # ranks that do find no difference, whatever happens to processes
        return {
            "model": {"family": "gpt2", "layers": 2, "hidden": 32, "heads": 2, "context": 32},
            "data": {"train": [str(self.folder / "text.txt")]},
            "parallel": {"zero_stage": stage, "workers": self.workers_wanted},
            "precision": "fp32",
            "batch": {"global_sequences": 12, "micro_sequences": 12 // self.workers_wanted},
            "optimizer": {"learning_rate": 3e-3},
            "schedule": {"decay": "constant", "warmup_steps": 0},
            "steps": steps,
            "checkpoint": {"dir": str(directory), "every_steps": SAVE_EVERY, "keep": KEEP},
            "device": "cpu",
            "integrity": {"every_steps": 3 if compares and stage < 3 else 0, "replay_every_steps": 7 if compares else 0},
            "restart": {"max_per_rank": 1_000_000, "window_steps": 1_000_000, "spares": self.draw.randint(0, 1),
                        "heartbeat_timeout_seconds": HEARTBEAT_TIMEOUT, "hang_timeout_seconds": 5},
        }

    def start(self):
        path = self.folder / "run.yaml"
        if not path.exists():
            path.write_text(json.dumps(self.config(self.checkpoints, 100_000_000)))
        self.begun += 1
        self.log = self.folder / f"train-{self.begun:04}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([fleet.BINARY, "train", str(path), "--report", str(self.report)],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)

    def events(self):
        if not self.report.exists():
            return []
        return [json.loads(line) for line in self.report.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def children(self, role):
        found = []
        for entry in os.listdir("/proc"):
            try:
                stat = pathlib.Path("/proc", entry, "stat").read_text().rsplit(")", 1)[1].split()
                words = pathlib.Path("/proc", entry, "cmdline").read_bytes().decode().split("\0")
            except (OSError, IndexError):
                continue
            if int(stat[1]) == self.process.pid and stat[0] != "Z" and words[1:2] == [role]:
                found.append(int(entry))
        return sorted(found)

    def await_progress(self):
        """Until a step is reported that was not before; a run that ended is no progress."""
        before = sum(each["event"] == "step" for each in self.events())
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if sum(each["event"] == "step" for each in self.events()) >= before + 2:
                return
            if self.process.poll() == LOST and b" is poison to it" in self.log.read_bytes():
                self.poisoned += 1
                self.start()
            elif self.process.poll() is not None:
                raise Broken(f"the run ended with {self.process.returncode}")
            time.sleep(0.02)
        raise Broken(f"no new step within {PATIENCE} s")

    # --- the faults

    @staticmethod
    def send(pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass  # it has just ended by itself

    def signal_some(self, role, number, count=1):
        pids = self.children(role)
        for pid in self.draw.sample(pids, min(count, len(pids))):
            self.send(pid, number)

    def kill_a_worker(self):
        self.signal_some("worker", signal.SIGKILL)

    def kill_two_workers(self):
        self.signal_some("worker", signal.SIGKILL, 2)

    def kill_all_workers(self):
        self.signal_some("worker", signal.SIGKILL, 100)

    def kill_one_after_another(self):
        for _ in range(3):
            self.signal_some("worker", signal.SIGKILL)
            time.sleep(self.draw.uniform(0, 0.2))  # in the middle of the recovery

    def kill_in_a_save(self):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not list(self.checkpoints.glob("*partial*")):
            time.sleep(0.0005)
        time.sleep(self.draw.uniform(0, 0.01))
        self.signal_some("worker", signal.SIGKILL)

    def kill_the_coordinator(self):
        self.signal_some("coordinator", signal.SIGKILL)

    def kill_the_coordinator_again(self):
        for _ in range(3):
            self.signal_some("coordinator", signal.SIGKILL)
            time.sleep(self.draw.uniform(0, 0.5))  # before, while and after it adopts the fleet

    def kill_a_worker_and_the_coordinator(self):
        for role in self.draw.sample(["worker", "coordinator"], 2):
            self.signal_some(role, signal.SIGKILL)
            time.sleep(self.draw.choice([0, self.draw.uniform(0, 0.3)]))  # also in the recovery

    def stop_a_worker(self):
        self.signal_some("worker", signal.SIGSTOP)
        time.sleep(HEARTBEAT_TIMEOUT)  # what is late is the point

    def pause_a_worker(self):
        pids = self.children("worker")
        if pids:
            self.pause([self.draw.choice(pids)], self.draw.uniform(0.1, HEARTBEAT_TIMEOUT / 2))

    def pause_around_the_timeout(self):
        pids = self.children("worker")
        if pids:
            self.pause([self.draw.choice(pids)], HEARTBEAT_TIMEOUT + self.draw.uniform(-0.3, 0.6))

    def pause_everything(self):
        self.pause(self.children("worker") + self.children("coordinator"), HEARTBEAT_TIMEOUT + 1)

    def pause_the_coordinator(self):
        self.pause(self.children("coordinator"), HEARTBEAT_TIMEOUT + self.draw.uniform(0, 1))

    def pause(self, pids, seconds):
        for pid in pids:
            self.send(pid, signal.SIGSTOP)
        time.sleep(seconds)
        for pid in pids:
            self.send(pid, signal.SIGCONT)

    def abort_a_worker(self):
        self.signal_some("worker", self.draw.choice([signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS]))

    def term_and_resume(self):
        self.process.send_signal(self.draw.choice([signal.SIGTERM, signal.SIGINT]))
        self.ended_with(130, 143)
        self.start()

    def kill_the_launcher_and_resume(self):
        self.process.kill()
        self.process.wait()
        self.start()

    def kill_everything_and_resume(self):
        for pid in [self.process.pid] + self.children("coordinator") + self.children("worker"):
            self.send(pid, signal.SIGKILL)
        self.process.wait()
        self.start()

    def ended_with(self, *codes):
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Broken(f"no end within {PATIENCE} s of a signal") from None
        if code not in codes:
            raise Broken(f"exit code {code}, not {codes}")

    # --- the invariants

    def check_generations(self):
        """I3, and I7: by a recovery the run goes back to the newest commit, and each save waits for the one before. No fault
        here changes a bit."""
        last, before = 0, ""
        for event in self.events():
            generation = event.get("generation")
            if event["event"] in ("start", "recovery"):
                # A coordinator that was started again in a recovery tells its start and the end of the recovery.
                one = before == "start" and event["event"] == "recovery" and generation == last
                if generation <= last and not one:
                    raise Broken(f"generation {generation} after {last}")
                last, before = generation, event["event"]
            elif event["event"] == "step" and generation != last:
                raise Broken(f"step {event['step']} of generation {generation} in generation {last}")
            if event["event"] == "recovery" and event["lost_steps"] > 2 * SAVE_EVERY:
                raise Broken(f"{event['lost_steps']} steps lost, saving every {SAVE_EVERY}")
            if event["event"] == "recovery" and "silent data corruption" in event["cause"]:
                raise Broken(f"ranks disagree without a cause: {event['cause']}")

    def check_checkpoints(self):
        """I1 and I2. A commit whose launcher or coordinator was killed may be in no report, but for the run that goes on from it."""
        reported = {each["path"] for each in self.events() if each["event"] == "checkpoint"}
        gone_on_from = {each.get("resumed_from", each.get("resumed_step")) for each in self.events()
                        if each["event"] in ("start", "recovery")}
        there = sorted(str(path.parent) for path in self.checkpoints.glob("step-*/manifest.json"))
        for path in there[:-1]:
            if path not in reported and int(path.rsplit("-", 1)[1]) not in gone_on_from:
                raise Broken(f"{path} is committed and was not reported")
        if reported and (not there or max(reported) > there[-1]):
            raise Broken(f"{max(reported)} was reported as committed and is gone; there are {there}")
        for path in there:
            verified = subprocess.run([fleet.BINARY, "checkpoint", "verify", path], capture_output=True, text=True)
            if verified.returncode != 0:
                raise Broken(f"{path} does not verify: {verified.stderr.strip()}")

    def check_losses(self):
        """I6, against a run of as many steps that nothing happens to. A step whose launcher was killed may be in no report."""
        losses = {each["step"]: each["loss"] for each in self.events() if each["event"] == "step"}
        config = json.loads((self.folder / "run.yaml").read_text())
        config["steps"] = max(losses)
        del config["integrity"]
        config["checkpoint"] = {"dir": str(self.folder / "undisturbed"), "every_steps": 0}
        (self.folder / "undisturbed.yaml").write_text(json.dumps(config))
        report = self.folder / "undisturbed.jsonl"
        subprocess.run([fleet.BINARY, "train", str(self.folder / "undisturbed.yaml"), "--report", str(report)], check=True,
                       capture_output=True)
        wanted = {each["step"]: each["loss"] for each in map(json.loads, report.read_text().splitlines()) if each["event"] == "step"}
        for step in sorted(losses):
            if losses[step] != wanted[step]:
                raise Broken(f"step {step}: loss {losses[step]}, undisturbed {wanted[step]}")
        return len(losses)


KINDS = {name: kind for name, kind in vars(Chaos).items()
         if name.split("_")[0] in ("kill", "stop", "abort", "term", "pause") and name != "pause"}


def torment(chaos, kinds, rounds):
    """Runs the rounds; returns how often each kind was used."""
    used = collections.Counter()
    chaos.start()
    chaos.await_progress()
    for turn in range(rounds):
        name = kinds[turn % len(kinds)] if turn < len(kinds) else chaos.draw.choice(kinds)
        time.sleep(chaos.draw.uniform(0, 0.4))  # any moment of a step
        used[name] += 1
        try:
            KINDS[name](chaos)
            chaos.await_progress()
        except Broken as broken:
            raise Broken(f"round {turn + 1}, {name}: {broken}") from None
    chaos.process.send_signal(signal.SIGTERM)
    chaos.ended_with(143)
    return used


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=len(KINDS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=sorted(KINDS))
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(sorted(KINDS)))
        return
    kinds = options.kind or sorted(KINDS)
    with tempfile.TemporaryDirectory(prefix="zerofleet-chaos-", ignore_cleanup_errors=True) as folder:
        chaos = Chaos(folder, options.seed, options.workers)
        try:
            used = torment(chaos, kinds, options.rounds)
            chaos.check_generations()
            chaos.check_checkpoints()
            steps = chaos.check_losses()
        except Broken as broken:
            sys.exit(f"{chaos.log.read_text(errors='replace')[-4000:]}\nseed {options.seed}: {broken}")
        finally:
            if chaos.process is not None and chaos.process.poll() is None:
                chaos.process.kill()
        recoveries = [each["seconds"] for each in chaos.events() if each["event"] == "recovery"]
        middle = sorted(recoveries)[len(recoveries) // 2] if recoveries else 0
        print(f"seed {options.seed}: {options.rounds} faults of {len(used)} kinds, {len(recoveries)} recoveries (median {middle:.2f} s, "
              f"longest {max(recoveries, default=0):.2f} s), {steps} steps, {chaos.poisoned} times taken for a poison step, 0 violations")


if __name__ == "__main__":
    main()
