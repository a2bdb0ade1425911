"""A real run, the faults of its processes and its disk, and what must hold afterwards; run.py draws from the faults.

A method marked `@kind` is one kind of fault, and draws its moment itself. A kind ends what it starts: a disk is mended, a stopped process
goes on, unless the fault is that it does not. To add a kind, write such a method. Standard library only.
"""
import errno
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import disk  # noqa: E402
import features  # noqa: E402
import fleet  # noqa: E402

SAVE_EVERY = 25
EVALUATE_EVERY = 20
HEARTBEAT_TIMEOUT = 2
LOST = 4  # exit code of a run that ended because of lost ranks
PATIENCE = 60  # seconds, from a fault to the next new step
KEEP = 4
CANNOT_STORE = 3  # exit code
STALL_TIMEOUT = 8  # seconds
MAX_PER_RANK = 3  # the default
MOST_HISTORY = 12  # the most losses in the last line of a run
READS = (disk.READ, disk.STAT, disk.OPEN, disk.READ | disk.STAT | disk.OPEN)
READ_ERRORS = (errno.EIO, errno.ESTALE, errno.ENOENT)
WAITS = re.compile(rb"\(checkpoint\.stall_timeout_seconds|hangs: the others have waited")
SPENT = re.compile(rb"^zerofleet: [^\n]*?rank (\d+) (?:has used its (\d+) restarts?|was lost (\d+) times after step (-?\d+))"
                   rb"[^\n]*?; (\d+) loss(?:es)?: ([^\n]*)", re.MULTILINE)
STATE = "/.coordinator/"  # the coordinator's state, within the checkpoint directory of `train`


class Broken(Exception):
    """An invariant does not hold."""


def kind(method):
    """Marks a kind of fault."""
    method.is_kind = True
    return method


def kinds_of(chaos):
    """{name: method} of the kinds that are possible for such a run on this machine."""
    kinds = {name: getattr(chaos, name) for name in dir(chaos) if getattr(getattr(chaos, name), "is_kind", False)}
    impossible = chaos.impossible()
    return {name: each for name, each in kinds.items() if name not in impossible}


def losses_of(events, kind_of_loss):
    """{step: the loss of its training or evaluation that was reported last}."""
    return {each["step"]: each["loss"] for each in events if each["event"] == kind_of_loss}


def check_restarts_are_spent(log, times):
    """A run that ends because of lost ranks must list the losses, as many as the rule requires. `times`: how often it has ended so."""
    if re.search(rb"^zerofleet: coordinator \(pid \d+\) was killed", log, re.MULTILINE):  # allowed as often as for a rank
        if log.count(b"the coordinator was killed; starting it again") < MAX_PER_RANK:
            raise Broken("the run gave up its coordinator too early")
        return
    ends = list(SPENT.finditer(log))
    if len(ends) < times:
        raise Broken("the run gave up without a reason")
    said = ends[-1]
    rank, most, poison, step, losses, history = said.groups()
    of_rank = [each for each in history.split(b"; ") if each.startswith((b"rank " + rank + b" (", b"rank " + rank + b": "))]
    at_step = [each for each in of_rank if poison and b" at step " + step + b": " in each]
    if int(losses) <= MOST_HISTORY and (len(at_step) < int(poison) if poison else len(of_rank) <= int(most)):
        raise Broken(f"the run gave up too early: {said.group(0).decode(errors='replace')}")


class Chaos:
    """One run and its faults, however it is started; faults of the disk need bad_disk.cc."""

    def __init__(self, folder, seed, workers, wanted=()):
        self.folder, self.draw, self.workers_wanted = pathlib.Path(folder), random.Random(seed), workers
        self.disk = disk.BadDisk(self.folder, seed)
        (self.folder / "text.txt").write_text(fleet.english_like_text(60_000))
        self.report = self.folder / "report.jsonl"
        self.checkpoints = self.folder / "checkpoints"
        self.log = self.folder / "train.log"
        self.process = None
        self.begun = self.spent = 0  # number of starts, and of ends because restarts were used up
        self.wanted, self.features = wanted, []  # names of features (features.py)
        self.swaps = []  # (events before it, step) of each checkpoint that was replaced by another

    without = ()  # features that such a run cannot have
    may_end = ()  # exit codes that this round's fault may have
    starts_are_told_again = False  # whether an adopted view's start is reported again; `train` reports it once

    @staticmethod
    def impossible():
        """{name: reason} of the kinds that are impossible on this machine."""
        reason = disk.why_not()
        return {name: reason for name in dir(Chaos) if name.startswith("disk_")} if reason else {}

    def environment(self):
        return {**os.environ, **self.disk.environment, "OMP_NUM_THREADS": "1"}

    # --- the run

    def config(self, directory, steps):
        return {
            "model": {"family": "gpt2", "layers": 2, "hidden": 32, "heads": 2, "context": 32},
            "data": {"train": [str(self.folder / "text.txt")], "validation": [str(self.folder / "text.txt")]},
            "parallel": {"zero_stage": 2, "workers": self.workers_wanted},
            "precision": "fp32",
            "batch": {"global_sequences": 12},
            "optimizer": {"learning_rate": 3e-3},
            "schedule": {"decay": "constant", "warmup_steps": 0},
            "steps": steps,
            "evaluate": {"every_steps": EVALUATE_EVERY, "batches": 1},
            "checkpoint": {"dir": str(directory), "every_steps": SAVE_EVERY, "keep": KEEP, "stall_timeout_seconds": STALL_TIMEOUT},
            "device": "cpu",
            "restart": {"heartbeat_timeout_seconds": HEARTBEAT_TIMEOUT, "hang_timeout_seconds": 5},
        }

    def drawn_config(self):
        """The configuration of a run that trains as long as faults come, with the default restarts."""
        base = self.config(self.checkpoints, 100_000_000)
        self.features, config = features.drawn(self.draw, base, self.folder / "run.yaml", self.without, self.wanted)
        self.workers_wanted = config["parallel"]["workers"]
        return config

    def events(self):
        if not self.report.exists():
            return []
        return [json.loads(line) for line in self.report.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def await_progress(self):
        """Waits until new steps are reported; a run that has ended makes no progress."""
        before = sum(each["event"] == "step" for each in self.events())
        deadline = time.monotonic() + PATIENCE
        while sum(each["event"] == "step" for each in self.events()) < before + 2:
            self.go_on()
            if time.monotonic() > deadline:
                raise Broken(f"no new step within {PATIENCE} s")
            time.sleep(0.02)

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

    @kind
    def kill_a_worker(self):
        self.signal_some("worker", signal.SIGKILL)

    @kind
    def kill_two_workers(self):
        self.signal_some("worker", signal.SIGKILL, 2)

    @kind
    def kill_all_workers(self):
        self.signal_some("worker", signal.SIGKILL, 100)

    @kind
    def kill_one_after_another(self):
        for _ in range(3):
            self.signal_some("worker", signal.SIGKILL)
            time.sleep(self.draw.uniform(0, 0.2))  # in the middle of the recovery

    @kind
    def kill_in_a_save(self):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not list(self.checkpoints.glob("*partial*")):
            time.sleep(0.0005)
        time.sleep(self.draw.uniform(0, 0.01))
        self.signal_some("worker", signal.SIGKILL)

    @kind
    def kill_the_coordinator(self):
        self.signal_some("coordinator", signal.SIGKILL)

    @kind
    def kill_the_coordinator_again(self):
        for _ in range(3):
            self.signal_some("coordinator", signal.SIGKILL)
            time.sleep(self.draw.uniform(0, 0.5))  # before, while and after it adopts the fleet

    @kind
    def kill_a_worker_and_the_coordinator(self):
        for role in self.draw.sample(["worker", "coordinator"], 2):
            self.signal_some(role, signal.SIGKILL)
            time.sleep(self.draw.choice([0, self.draw.uniform(0, 0.3)]))  # also in the recovery

    @kind
    def stop_a_worker(self):
        self.signal_some("worker", signal.SIGSTOP)
        time.sleep(HEARTBEAT_TIMEOUT)  # the fault is a late answer

    @kind
    def pause_a_worker(self):
        pids = self.children("worker")
        if pids:
            self.pause([self.draw.choice(pids)], self.draw.uniform(0.1, HEARTBEAT_TIMEOUT / 2))

    @kind
    def pause_around_the_timeout(self):
        pids = self.children("worker")
        if pids:
            self.pause([self.draw.choice(pids)], HEARTBEAT_TIMEOUT + self.draw.uniform(-0.3, 0.6))

    @kind
    def pause_everything(self):
        self.pause(self.children("worker") + self.children("coordinator"), HEARTBEAT_TIMEOUT + 1)

    @kind
    def pause_the_coordinator(self):
        self.pause(self.children("coordinator"), HEARTBEAT_TIMEOUT + self.draw.uniform(0, 1))

    def pause(self, pids, seconds):
        for pid in pids:
            self.send(pid, signal.SIGSTOP)
        time.sleep(seconds)
        for pid in pids:
            self.send(pid, signal.SIGCONT)

    @kind
    def abort_a_worker(self):
        self.signal_some("worker", self.draw.choice([signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS]))

    # --- a disk that fails

    def disk_fails(self, fault, calls, seconds=(0, 0), **how):
        """Lets calls fail until one was hit, and then for a drawn time: calls under the checkpoint directory, except the coordinator's state."""
        self.disk.fail(fault, str(self.checkpoints), calls, but=STATE, **how)
        self.await_hit()
        time.sleep(self.draw.uniform(*seconds))
        self.disk.mend()

    def await_hit(self):
        self.may_end = (CANNOT_STORE,)  # a coordinator that starts meanwhile is refused
        deadline = time.monotonic() + PATIENCE
        while not self.disk.hits():
            if time.monotonic() > deadline:
                raise Broken(f"nothing was written within {PATIENCE} s")
            self.go_on()
            time.sleep(0.001)

    @kind
    def disk_is_full(self):
        self.disk_fails(disk.ERROR, disk.WRITE, (0, 2), error=errno.ENOSPC)

    @kind
    def disk_has_errors(self):
        self.disk_fails(disk.ERROR, disk.WRITE | disk.SYNC | disk.RENAME, (0, 3), error=errno.EIO, chance=self.draw.choice([0.05, 0.3, 1]))

    @kind
    def disk_cannot_sync(self):
        self.disk_fails(disk.ERROR, disk.SYNC, (0, 2), error=errno.EIO, chance=self.draw.choice([0.3, 1]))

    @kind
    def disk_cannot_rename(self):
        self.disk_fails(disk.ERROR, disk.RENAME, (0, 2), error=self.draw.choice([errno.EIO, errno.ENOSPC]), chance=self.draw.choice([0.5, 1]))

    @kind
    def disk_is_slow(self):
        self.disk_fails(disk.SLOW, disk.WRITE | disk.SYNC | disk.RENAME, (0, 3), milliseconds=self.draw.choice([20, 200, 1500]))

    @kind
    def disk_writes_less(self):
        self.disk_fails(disk.SHORT, disk.WRITE, (0, 2), chance=0.7)  # as write(2) may at any time

    @kind
    def disk_tears_a_call(self):
        """The process ends in the middle of a write, or before an fsync or a rename; which of the calls it is depends on chance."""
        self.disk_fails(disk.TORN, self.draw.choice([disk.WRITE, disk.SYNC, disk.RENAME]), chance=self.draw.choice([0.1, 0.5, 1]))

    @kind
    def disk_has_errors_in_a_recovery(self):
        self.disk.fail(disk.ERROR, str(self.checkpoints), disk.WRITE | disk.SYNC | disk.RENAME, but=STATE, error=errno.EIO, chance=0.5)
        self.kill_one_after_another()
        self.await_hit()
        self.disk.mend()

    @kind
    def disk_is_slow_in_a_recovery(self):
        self.disk.fail(disk.SLOW, str(self.checkpoints), disk.WRITE | disk.SYNC | disk.RENAME, milliseconds=300)
        self.kill_a_worker_and_the_coordinator()
        self.await_hit()
        self.disk.mend()

    # --- one reader's disk

    def fails_to_read(self, pid):
        """Reads of committed files fail; only those of one process if `pid` is given."""
        if self.draw.random() < 0.25:
            self.disk.fail(self.draw.choice([disk.FLIP, disk.SHORT]), "/step-", disk.READ, pid=pid)
        else:
            self.disk.fail(disk.ERROR, "/step-", self.draw.choice(READS), error=self.draw.choice(READ_ERRORS), pid=pid)

    @kind
    def disk_is_bad_for_a_reader(self):
        """A surviving rank cannot read while another is replaced. The rank may be lost, but not the checkpoint."""
        pids = self.children("worker")
        if len(pids) < 2:
            return
        reader, other = self.draw.sample(pids, 2)
        self.fails_to_read(reader)
        self.send(other, signal.SIGKILL)
        self.await_progress()  # with snapshots there may be no read
        self.disk.mend()

    @kind
    def disk_is_bad_for_the_coordinator(self):
        """Commits fail; in a recovery the coordinator may have to judge a checkpoint that it cannot read."""
        for pid in self.children("coordinator"):
            self.disk.fail(disk.ERROR, "step-", self.draw.choice(READS), error=self.draw.choice(READ_ERRORS), pid=pid)
        time.sleep(self.draw.uniform(0, 2))
        if self.draw.random() < 0.5:
            self.kill_a_worker()
        time.sleep(self.draw.uniform(0, 2))
        self.disk.mend()

    @kind
    def disk_is_bad_as_the_coordinator_starts(self):
        """A checkpoint that cannot be read is not damaged: the coordinator refuses to start, or continues with it."""
        self.may_end = (CANNOT_STORE,)
        self.disk.fail(disk.ERROR, "/step-", self.draw.choice(READS), error=self.draw.choice(READ_ERRORS[:2]))
        self.signal_some("coordinator", signal.SIGKILL)
        time.sleep(self.draw.uniform(0.5, 3))
        self.disk.mend()

    @kind
    def disk_hides_the_state_as_the_coordinator_starts(self):
        """A state that cannot be examined must not count as absent: generations would begin again."""
        self.may_end = (CANNOT_STORE,)
        self.disk.fail(disk.ERROR, STATE + "coordinator.json", self.draw.choice(READS), error=self.draw.choice(READ_ERRORS[:2]))
        self.signal_some("coordinator", signal.SIGKILL)
        time.sleep(self.draw.uniform(0.5, 3))
        self.disk.mend()

    @kind
    def disk_loses_an_answer(self):
        """A rename or removal is carried out, but the caller gets an error."""
        calls = self.draw.choice([disk.RENAME, disk.RENAME | disk.UNLINK])
        self.disk_fails(disk.LOST, calls, (0, 2), error=self.draw.choice([errno.EIO, errno.ENOENT]))

    def disk_hangs(self, role, calls):
        """One process's calls do not return until it was reported who waits for the save, or for a rank that writes live states."""
        told = len(WAITS.findall(self.logged()))
        pids = self.children(role)
        for pid in self.draw.sample(pids, len(pids)):  # a spare writes nothing
            self.disk.fail(disk.HUNG, "step-", calls, pid=pid)
            deadline = time.monotonic() + PATIENCE / len(pids)
            while not self.disk.hits() and time.monotonic() < deadline:
                time.sleep(0.01)
            if self.disk.hits():
                break
        deadline = time.monotonic() + PATIENCE
        while len(WAITS.findall(self.logged())) == told:
            if time.monotonic() > deadline:
                raise Broken(f"nobody has told of a {role} that hangs in a call to storage within {PATIENCE} s")
            time.sleep(0.05)
        self.disk.mend()

    @kind
    def disk_hangs_for_a_worker(self):
        self.disk_hangs("worker", disk.WRITE | disk.SYNC)

    @kind
    def disk_hangs_for_the_coordinator(self):
        self.disk_hangs("coordinator", self.draw.choice([disk.READ, disk.SYNC, disk.RENAME]))

    def logged(self):
        return self.log.read_bytes()

    # --- mistakes of operators

    def committed(self):
        return sorted(path.parent for path in self.checkpoints.glob("step-????????/manifest.json"))

    @kind
    def checkpoint_is_swapped(self):
        """The newest checkpoint is replaced by a copy of an older one, and no rank with it in memory is left: no run continues from it."""
        deadline = time.monotonic() + PATIENCE
        while len(self.committed()) < 3:  # these two, and one to go back to
            if time.monotonic() > deadline:
                raise Broken(f"no three checkpoints within {PATIENCE} s")
            time.sleep(0.05)
        pids = self.children("coordinator") + self.children("worker")
        for pid in pids:
            self.send(pid, signal.SIGSTOP)
        *older, newest = self.committed()
        shutil.rmtree(newest)
        shutil.copytree(self.draw.choice(older), newest)
        self.swaps.append((len(self.events()), int(newest.name.rsplit("-", 1)[1])))
        self.kill_all_of_it()
        self.await_progress()
        began = next(each for each in self.events()[self.swaps[-1][0]:] if each["event"] in ("start", "recovery"))
        if began.get("resumed_from", began.get("resumed_step")) == self.swaps[-1][1]:
            raise Broken(f"the run has gone on from {newest}, which is a copy of another")

    # --- the invariants

    def check_generations(self):
        """I3 and I7: a recovery goes back to the newest commit, and each save waits for the one before. No fault here changes
        a bit."""
        last, before = 0, ""
        committed = failed = 0  # the newest commit that was reported, and the saves that failed since
        swapped = [before_it for before_it, _ in self.swaps]
        for index, event in enumerate(self.events()):
            generation = event.get("generation")
            if swapped and index >= swapped[0] and event["event"] in ("start", "recovery"):
                committed, failed = 0, 1_000_000  # until the next commit it has a reason to go back further
                swapped.pop(0)
            if event["event"] in ("start", "recovery"):
                # A coordinator that was restarted in a recovery reports its start and the end of the recovery.
                one = generation == last and (before == "start" and event["event"] == "recovery" or
                                              self.starts_are_told_again and event["event"] == "start")
                if generation <= last and not one:
                    raise Broken(f"generation {generation} after {last}")
                last, before = generation, event["event"]
            elif event["event"] == "step" and generation != last:
                raise Broken(f"step {event['step']} of generation {generation} in generation {last}")
            if event["event"] == "checkpoint":
                committed, failed = event["step"], 0
            failed += event["event"] == "save_failed"
            if event["event"] == "recovery" and event["resumed_step"] < committed:
                raise Broken(f"back at step {event['resumed_step']}, although step {committed} is committed")
            if event["event"] == "recovery" and event["lost_steps"] > (2 + failed) * SAVE_EVERY:
                raise Broken(f"{event['lost_steps']} steps lost, saving every {SAVE_EVERY}, after {failed} saves that failed")
            if event["event"] == "recovery" and "silent data corruption" in event["cause"]:
                raise Broken(f"ranks disagree without a cause: {event['cause']}")

    def check_checkpoints(self):
        """I1 and I2. A commit whose launcher or coordinator was killed may be in no report, except that a run resumes from it."""
        reported = {each["path"] for each in self.events() if each["event"] == "checkpoint"}
        gone_on_from = {each.get("resumed_from", each.get("resumed_step")) for each in self.events() if each["event"] in ("start", "recovery")}
        there = sorted(str(path.parent) for path in self.checkpoints.glob("step-????????/manifest.json"))
        for path in there[:-1]:
            if path not in reported and int(path.rsplit("-", 1)[1]) not in gone_on_from:
                raise Broken(f"{path} is committed and was not reported")
        # A swap takes the newest checkpoint away, and the run goes back behind it.
        kept = [each["path"] for each in self.events()[self.swaps[-1][0] if self.swaps else 0:] if each["event"] == "checkpoint"]
        if kept and (not there or max(kept) > there[-1]):
            raise Broken(f"{max(kept)} was reported as committed and is gone; there are {there}")
        aside = sorted(path.name for path in self.checkpoints.glob("*.damaged*"))
        if len(aside) > len(self.swaps):
            raise Broken(f"{aside} are set aside, and {len(self.swaps)} were damaged")
        for path in there:
            verified = subprocess.run([fleet.BINARY, "checkpoint", "verify", path], capture_output=True, text=True)
            if verified.returncode != 0:
                raise Broken(f"{path} does not verify: {verified.stderr.strip()}")

    def check_losses(self):
        """I6, for steps and evaluations, compared with an undisturbed run of as many steps. A step whose launcher was killed may be in no
        report. Steps of another number of ranks, and all that follow, differ in rounding, except in the order of samples."""
        events = self.events()
        losses = losses_of(events, "step")
        config = json.loads((self.folder / "run.yaml").read_text())
        config["steps"] = max(losses)
        config.pop("integrity", None)
        config["checkpoint"] = {"dir": str(self.folder / "undisturbed"), "every_steps": 0}
        (self.folder / "undisturbed.yaml").write_text(json.dumps(config))
        report = self.folder / "undisturbed.jsonl"
        subprocess.run([fleet.BINARY, "train", str(self.folder / "undisturbed.yaml"), "--report", str(report)], check=True, capture_output=True)
        undisturbed = [json.loads(line) for line in report.read_text().splitlines()]
        shrank = any(b"nobody came within" in log.read_bytes() for log in self.folder.glob("*.log"))
        inexact = 0.05 if shrank and config.get("reduce", {}).get("order") != "samples" else 0
        for kind_of_loss in ("step", "evaluate"):
            got, wanted = losses_of(events, kind_of_loss), losses_of(undisturbed, kind_of_loss)
            for step in sorted(got):
                if abs(got[step] - wanted[step]) > inexact * wanted[step]:
                    raise Broken(f"{kind_of_loss} {step}: loss {got[step]}, undisturbed {wanted[step]}")
        return len(losses)


class OnOneMachine(Chaos):
    """A run of `zerofleet train`."""

    def start(self):
        path = self.folder / "run.yaml"
        if not self.features:
            self.drawn_config()
        self.begun += 1
        self.log = self.folder / f"train-{self.begun:04}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([fleet.BINARY, "train", str(path), "--report", str(self.report)],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                                            env=self.environment())

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

    def go_on(self):
        code = self.process.poll()
        if code == LOST:
            check_restarts_are_spent(self.log.read_bytes(), 1)
            self.spent += 1
            self.start()
        elif code in self.may_end:
            self.start()
        elif code is not None:
            raise Broken(f"the run ended with {code}")

    def settle(self):
        """Waits until the effects of the last round are known: once `train` stops, it replaces no process."""
        time.sleep(1.5 * HEARTBEAT_TIMEOUT)
        self.await_progress()

    def end(self):
        self.settle()
        self.process.send_signal(signal.SIGTERM)
        self.ended_with(143)

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def ended_with(self, *codes):
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Broken(f"no end within {PATIENCE} s of a signal") from None
        if code not in codes:
            raise Broken(f"exit code {code}, not {codes}")

    # --- faults of a run that has a launcher

    @kind
    def term_and_resume(self):
        self.settle()
        self.process.send_signal(self.draw.choice([signal.SIGTERM, signal.SIGINT]))
        self.ended_with(130, 143)
        self.start()

    @kind
    def kill_the_launcher_and_resume(self):
        self.process.kill()
        self.process.wait()
        self.start()

    @kind
    def kill_everything_and_resume(self):
        for pid in [self.process.pid] + self.children("coordinator") + self.children("worker"):
            self.send(pid, signal.SIGKILL)
        self.process.wait()
        self.start()

    def kill_all_of_it(self):
        self.kill_everything_and_resume() if self.draw.random() < 0.5 else self.resume_workers()

    def resume_workers(self):
        """All workers end at once, and the coordinator goes on."""
        for role, number in (("worker", signal.SIGKILL), ("coordinator", signal.SIGCONT)):
            self.signal_some(role, number, 100)

    @kind
    def disk_is_bad_as_everything_starts(self):
        """Files that cannot be read for a while are not damaged."""
        self.may_end = (CANNOT_STORE,)
        self.disk.fail(disk.ERROR, "/step-", self.draw.choice(READS), error=self.draw.choice(READ_ERRORS[:2]))
        self.kill_everything_and_resume()
        time.sleep(self.draw.uniform(0.5, 3))
        self.disk.mend()

    @kind
    def logs_are_removed(self):
        shutil.rmtree(self.checkpoints / "logs", ignore_errors=True)
        if self.draw.random() < 0.7:
            self.signal_some(self.draw.choice(["worker", "coordinator"]), signal.SIGKILL)

    @kind
    def disk_loses_the_state(self):
        """A generation that is not durable must not be used: the coordinator ends, and so does the run unless it is restarted."""
        self.disk.fail(disk.ERROR, STATE + "coordinator.json", self.draw.choice([disk.WRITE, disk.SYNC, disk.RENAME]), error=errno.EIO)
        self.kill_a_worker()
        self.await_hit()
        time.sleep(self.draw.uniform(0, 1))
        self.disk.mend()
        time.sleep(0.5)
