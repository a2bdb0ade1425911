"""Rounds of faults: a run of a PyTorch module whose processes are killed must give the bits of an undisturbed run.

    python chaos.py --rounds 100 --seed 1

Each round draws a stage, a number of workers and faults: a worker is killed or held up for a moment, the coordinator or the
launcher is killed, the run is stopped and resumed. Exits with 1 at the first difference and prints the round's seed and
folder. Not a pytest test: it runs as many rounds as --rounds says.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch

import fleet

STEPS = 30


def settings(folder, stage, workers, name="dropped"):  # without transformers, which takes seconds to import
    return fleet.config(name, folder, steps=STEPS, reduce={"order": "samples"},
                        parallel={"zero_stage": stage, "workers": workers},
                        checkpoint={"dir": str(folder / "checkpoints"), "every_steps": 4},
                        restart={"max_per_rank": 20, "heartbeat_timeout_seconds": 2})


def children(pid):
    """{pid: words of its command line} of the living children of a process."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found[int(entry.name)] = (entry / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            pass
    return found


def role(process, name):
    return sorted(pid for pid, words in children(process.pid).items() if name in words)


def last_step(folder):
    return max((e["step"] for e in fleet.events(folder) if e["event"] == "step"), default=0)


class Round:
    def __init__(self, folder, draw, stage, workers):
        self.folder, self.draw = folder, draw
        self.settings = settings(folder, stage, workers)
        folder.mkdir(parents=True)
        self.process = fleet.start(folder, self.settings)
        self.done = []

    def kill_worker(self):
        pids = role(self.process, "worker")
        if pids:
            os.kill(self.draw.choice(pids), signal.SIGKILL)

    def hold_worker_up(self):
        pids = role(self.process, "worker")
        if pids:
            pid = self.draw.choice(pids)
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self.draw.choice([0.3, 3]))  # 3 s are longer than the heartbeat timeout
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass

    def kill_coordinator(self):
        for pid in role(self.process, "coordinator"):
            os.kill(pid, signal.SIGKILL)

    def kill_launcher(self):
        self.process.kill()
        self.process.communicate(timeout=600)
        self.process = fleet.start(self.folder, self.settings)

    def stop(self):
        self.process.send_signal(self.draw.choice([signal.SIGINT, signal.SIGTERM]))
        _, err = self.process.communicate(timeout=900)
        if self.process.returncode not in (0, 130, 143):
            raise AssertionError(f"stopped with {self.process.returncode}: {err[-2000:]}")
        self.process = fleet.start(self.folder, self.settings)

    def run(self, faults):
        for _ in range(faults):
            before, deadline = last_step(self.folder), time.monotonic() + 900
            while last_step(self.folder) == before and self.process.poll() is None:
                if time.monotonic() > deadline:
                    raise AssertionError("no new step within 900 s")
                time.sleep(0.05)
            time.sleep(self.draw.uniform(0, 0.4))
            if self.process.poll() is not None:
                break
            fault = self.draw.choice([self.kill_worker, self.kill_worker, self.hold_worker_up, self.kill_coordinator,
                                      self.kill_launcher, self.stop])
            self.done.append(fault.__name__)
            fault()
        _, err = self.process.communicate(timeout=1500)
        if self.process.returncode != 0:
            raise AssertionError(f"ended with {self.process.returncode}: {err[-2000:]}")


def differences(folder, want, values, launcher_killed):
    """How a run differs from the undisturbed one. Its launcher writes the report: with it, steps that it was not yet told may be lost."""
    got = {event["step"]: event for event in fleet.events(folder) if event["event"] == "step"}
    for step, (loss, norm) in enumerate(want, 1):
        if step not in got:
            if not launcher_killed:
                return f"step {step} is not in the report"
        elif (got[step]["loss"], got[step]["grad_norm"]) != (loss, norm):
            return f"step {step} has {got[step]['loss']} and {got[step]['grad_norm']}, undisturbed {loss} and {norm}"
    now = fleet.weights(folder)
    other = [name for name in values if not torch.equal(now[name], values[name])]
    return f"other weights: {', '.join(other)}" if other else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no round after so long")
    parser.add_argument("--faults", type=int, default=3, help="most of a round")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="zf-chaos-"))
    want = fleet.steps(fleet.train(work / "calm", settings(work / "calm", 0, 2)))
    values = fleet.weights(work / "calm")
    assert len(want) == STEPS
    begun, count = time.monotonic(), 0
    while count < options.rounds and time.monotonic() - begun < options.seconds:
        seed = options.seed + count
        draw = random.Random(seed)
        stage, workers = draw.randrange(4), draw.choice([2, 3])
        one = Round(work / f"round-{seed}", draw, stage, workers)
        try:
            one.run(draw.randint(1, options.faults))
            problem = differences(one.folder, want, values, "kill_launcher" in one.done)
        except AssertionError as error:
            problem = str(error)
        finally:
            if one.process.poll() is None:
                one.process.kill()
                one.process.communicate()
        print(f"seed {seed}: stage {stage}, {workers} workers: {', '.join(one.done) or 'nothing'}: "
              f"{problem or 'the same bits'}", flush=True)
        if problem:
            print(f"see {one.folder}")
            sys.exit(1)
        shutil.rmtree(one.folder)
        count += 1
    print(f"{count} rounds in {time.monotonic() - begun:.0f} s")
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
