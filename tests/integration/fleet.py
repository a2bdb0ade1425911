"""Runs build/zerofleet for the integration tests: a configuration from a dict, a run, its report, and what it left behind.

ZEROFLEET names the binary (default: build/zerofleet). Every process a test starts carries a mark in its environment,
inherited by its children, so that a test can tell whether any outlived it. Standard library only.
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BINARY = os.path.abspath(os.environ.get("ZEROFLEET", ROOT / "build" / "zerofleet"))
MARK = "ZEROFLEET_TEST_MARK"
# Longer than any run here takes on a loaded machine; a run that hangs fails by this limit.
RUN_SECONDS = 240


def english_like_text(size):
    """The same made-up text every time, of a few thousand words: enough structure for the loss to fall."""
    draw = random.Random(1)
    words = ["".join(draw.choice("aeiou") if i % 2 else draw.choice("bdklmnprst") for i in range(draw.randint(2, 7)))
             for _ in range(200)]
    text = []
    while sum(map(len, text)) < size:
        text.append(" ".join(draw.choice(words) for _ in range(draw.randint(4, 12))).capitalize() + ".\n")
    return "".join(text)


def merged(base, changes):
    """`base` with `changes` merged into it, section by section."""
    result = dict(base)
    for key, value in changes.items():
        result[key] = merged(base.get(key, {}), value) if isinstance(value, dict) else value
    return result


def free_port(count=1):
    """The first of `count` consecutive ports on which nothing listens at the moment."""
    for base in range(random.randint(20000, 31000), 32768 - count, count):  # below the ports that the kernel assigns to clients
        sockets = []
        try:
            for port in range(base, base + count):
                sockets.append(socket.socket())
                sockets[-1].bind(("0.0.0.0", port))
            return base
        except OSError:
            continue
        finally:
            for each in sockets:
                each.close()
    raise RuntimeError("no free port")


def environment_of(pid):
    """The environment that process `pid` was started with, "" of a kernel thread and of one that has ended. OSError if it is gone.

    While a process loads the program that it executes its environment reads as empty, on a busy machine for long: then it is
    read again.
    """
    loaded = False
    while True:
        environment = pathlib.Path("/proc", str(pid), "environ").read_bytes()
        if environment or loaded:
            return environment.decode(errors="replace")
        words = pathlib.Path("/proc", str(pid), "stat").read_text().rsplit(")", 1)[1].split()
        size, start_of_code = int(words[20]), int(words[23])  # vsize and startcode of proc(5); the second is set last
        loaded = size == 0 or start_of_code != 0
        if not loaded:
            time.sleep(0.001)


class Run:
    """A finished command: its exit code, what it printed, and its report."""

    def __init__(self, code, out, err, report_path):
        self.code, self.out, self.err = code, out, err
        self.events = []
        if report_path and os.path.exists(report_path):
            with open(report_path, encoding="utf-8") as lines:
                self.events = [json.loads(line) for line in lines if line.endswith("\n")]

    def of(self, event):
        return [each for each in self.events if each["event"] == event]

    def column(self, field):
        """{step: value} for the steps in this report; for a step repeated after a resume, the last value."""
        return {each["step"]: each[field] for each in self.of("step")}

    def error_lines(self):
        """The command's error messages; progress and warnings on stderr have other prefixes."""
        return [line for line in self.err.splitlines() if line.startswith("zerofleet: ")]


def told(pid):
    """Describes a process: its command, its state, and where in the kernel it waits."""
    try:
        place = pathlib.Path("/proc", str(pid))
        status = re.findall("^(State|PPid|SigPnd|ShdPnd|SigIgn|Threads):\\s*(.*)$", (place / "status").read_text(), re.MULTILINE)
        stack = (place / "stack").read_text() if os.geteuid() == 0 else ""
        return (pid, (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(), dict(status), stack)
    except OSError:
        return (pid, "gone by now", {}, "")


class FleetTest(unittest.TestCase):
    """A test with its own work folder, and a check that it leaves no process behind."""

    def setUp(self):
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="zerofleet-test-"))
        self.addCleanup(shutil.rmtree, self.work, ignore_errors=True)
        self.mark = f"{os.getpid()}-{self.id()}-{time.time_ns()}"
        self.addCleanup(self.end_leftovers)
        text = english_like_text(60_000)
        self.train_file, self.held_file = self.work / "train.txt", self.work / "held.txt"
        self.train_file.write_text(text[:50_000])
        self.held_file.write_text(text[50_000:])

    # --- configurations

    def config(self, **changes):
        """A model of some 30 thousand parameters, 12 sequences per step: trains in a second or two."""
        base = {
            "model": {"family": "gpt2", "layers": 2, "hidden": 24, "heads": 3, "context": 32},
            "data": {"train": [str(self.train_file)]},
            "parallel": {"zero_stage": 2, "workers": 2},
            "precision": "fp32",
            "batch": {"global_sequences": 12},
            "optimizer": {"learning_rate": 3e-3},
            "schedule": {"warmup_steps": 4},
            "steps": 12,
            "checkpoint": {"dir": str(self.work / "checkpoints"), "every_steps": 0},
            "device": "cpu",
            # A machine that is busy with other tests may delay a worker for longer than the default of 2 seconds.
            "restart": {"heartbeat_timeout_seconds": 20},
        }
        return merged(base, changes)

    def write_config(self, config, name="config.yaml"):
        path = self.work / name
        path.write_text(json.dumps(config, indent=1))  # JSON is YAML
        return path

    def small_disk(self, size):
        """A file system of this size, which only root can mount; skips the test elsewhere."""
        if os.geteuid() != 0:
            self.skipTest("SKIPPED: mounting a small file system needs root")
        disk = self.work / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)], capture_output=True).returncode != 0:
            self.skipTest("SKIPPED: this machine lets no one mount a file system")
        self.addCleanup(subprocess.run, ["umount", str(disk)])
        return disk

    # --- commands

    def environment(self):
        return {**os.environ, MARK: self.mark, "OMP_NUM_THREADS": "1"}

    def start(self, *arguments, env=None, **options):
        """Starts the binary. `env`: variables besides those that every process gets."""
        return subprocess.Popen([BINARY, *map(str, arguments)], env={**self.environment(), **(env or {})}, cwd=self.work, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

    def run_command(self, *arguments, report=None, timeout=RUN_SECONDS):
        process = self.start(*arguments)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            self.fail(f"zerofleet {' '.join(map(str, arguments))} did not end in {timeout} s:\n{err[-3000:]}")
        return Run(process.returncode, out, err, report)

    def train_anyhow(self, config, *arguments):
        """A training run with a fresh report, whatever its exit code."""
        report = self.work / f"report-{time.time_ns()}.jsonl"
        return self.run_command("train", self.write_config(config), "--report", report, *arguments, report=report)

    def train(self, config, *arguments):
        run = self.train_anyhow(config, *arguments)
        self.assertEqual(run.code, 0, f"train ended with {run.code}:\n{run.err[-3000:]}")
        self.assertEqual(run.events[-1]["event"], "end", "the report does not end with `end`")
        return run

    def train_until(self, config, step, send, *arguments):
        """Trains until the report shows `step`, then sends the signal and waits for the end."""
        report = self.work / f"report-{time.time_ns()}.jsonl"
        process = self.start("train", self.write_config(config), "--report", report, *arguments)
        deadline = time.monotonic() + RUN_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            if report.exists() and any(f'"step":{step},' in line.replace(" ", "") for line in report.read_text().splitlines()):
                process.send_signal(send)
                break
            time.sleep(0.005)  # polls a real process at intervals
        out, err = process.communicate(timeout=RUN_SECONDS)
        return Run(process.returncode, out, err, report)

    # --- leftovers

    def leftovers(self):
        """Processes still alive that this test started, directly or not."""
        alive = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                environment = environment_of(entry)
                state = pathlib.Path("/proc", entry, "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if f"{MARK}={self.mark}" in environment and state != "Z":
                alive.append(int(entry))
        return alive

    def workers(self):
        """Process ids of this test's workers, in the order in which they were started."""
        pids = []
        for pid in self.leftovers():
            try:
                words = pathlib.Path("/proc", str(pid), "cmdline").read_bytes().decode().split("\0")
            except FileNotFoundError:
                continue  # it has just ended
            if len(words) > 1 and words[1] == "worker":
                pids.append(pid)
        return sorted(pids)

    def assert_nothing_left(self):
        # A process that was started just before its parent died ends in its first turn, for which it may wait long where others compute.
        deadline = time.monotonic() + 300
        while self.leftovers() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual([told(pid) for pid in self.leftovers()], [], "processes outlived the command")

    def end_leftovers(self):
        for pid in self.leftovers():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    # --- comparisons

    def assert_same_bits(self, wanted, got, what):
        """Two columns, equal to the last bit: the report prints floats so that they read back exactly."""
        self.assertEqual(sorted(wanted), sorted(got), f"{what}: different steps")
        for step in sorted(wanted):
            self.assertEqual(wanted[step], got[step], f"{what}: step {step} differs in its bits")

    def assert_close(self, wanted, got, tolerance, what):
        self.assertEqual(sorted(wanted), sorted(got), f"{what}: different steps")
        for step in sorted(wanted):
            difference = abs(wanted[step] - got[step]) / abs(wanted[step])
            self.assertLessEqual(difference, tolerance, f"{what}: step {step}: {wanted[step]} against {got[step]}")


def checkpoint_states(step_dir):
    """The whole fp32 state of a checkpoint, {"master": bytes, ...} by the name of each vector, assembled from its shards."""
    step_dir = pathlib.Path(step_dir)
    manifest = json.loads((step_dir / "manifest.json").read_text())
    elements = max(int(tensor["flat_end"]) for tensor in manifest["tensors"])
    states = {}
    for shard in manifest["files"]:
        data = (step_dir / shard["name"]).read_bytes()
        header_bytes = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + header_bytes])
        for name in header.keys() - {"__metadata__"}:
            state = states.setdefault(name, bytearray(4 * elements))
            vector = data[8 + header_bytes + header[name]["data_offsets"][0]:8 + header_bytes + header[name]["data_offsets"][1]]
            for piece in shard.get("ranges", []):
                begin, end, offset = (int(piece.get(key, 0)) for key in ("flat_begin", "flat_end", "offset"))
                state[4 * begin:4 * end] = vector[4 * offset:4 * (offset + end - begin)]
    return states


def latest_checkpoint(directory):
    committed = sorted(path.parent for path in pathlib.Path(directory).glob("step-*/manifest.json"))
    return committed[-1] if committed else None


def full_size():
    """ZEROFLEET_FULL=1 asks for the long form of a test, with all the steps that its claim covers."""
    return os.environ.get("ZEROFLEET_FULL") == "1"


def main():
    if not os.access(BINARY, os.X_OK):
        raise SystemExit(f"{BINARY} is not there; build it, or name it in ZEROFLEET")
    unittest.main(verbosity=2)
