#!/usr/bin/env python3
"""Processes of a run without restarts are killed, or cannot start: one line says which and when, the exit code is right, none is left."""
import os
import pathlib
import signal
import socket
import time

import fleet

USAGE, FLEET, INTERRUPTED, TERMINATED = 2, 4, 130, 143


class ProcessesDie(fleet.FleetTest):
    def has_committed(self, report):
        return report.exists() and '"event":"checkpoint"' in report.read_text().replace(" ", "")

    def running(self, **changes):
        """A run in the middle of training: its process, and its children's ids by role."""
        report = self.work / "report.jsonl"
        process = self.start("train", self.write_config(self.config(steps=1_000_000, checkpoint={"every_steps": 50},
                                                                   **changes)), "--report", report)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not self.has_committed(report):
            self.assertIsNone(process.poll(), "the run ended by itself")
            time.sleep(0.02)  # polls a real process at intervals
        children = {}
        for pid in self.leftovers():
            words = pathlib.Path("/proc", str(pid), "cmdline").read_bytes().decode().split("\0")
            children.setdefault(words[1], []).append(pid)
        self.assertEqual({role: len(pids) for role, pids in children.items()}, {"train": 1, "coordinator": 1, "worker": 2})
        return process, children

    def assert_ends(self, process, code, pattern, seconds=60):
        _, err = process.communicate(timeout=seconds)
        self.assertEqual(process.returncode, code, err[-2000:])
        errors = [line for line in err.splitlines() if line.startswith("zerofleet: ")]
        self.assertEqual(len(errors), 1, err[-2000:])
        self.assertRegex(errors[0], pattern)
        self.assert_nothing_left()

    def test_a_worker_is_killed(self):
        process, children = self.running(restart={"max_per_rank": 0})
        os.kill(children["worker"][1], signal.SIGKILL)
        self.assert_ends(process, FLEET, r"rank \d.*SIGKILL.*step \d+.*checkpoint.*step \d+")

    def test_a_worker_hangs(self):
        process, children = self.running(restart={"heartbeat_timeout_seconds": 4, "max_per_rank": 0})
        os.kill(children["worker"][0], signal.SIGSTOP)
        self.assert_ends(process, FLEET, r"rank \d.*step \d+.*nothing heard for \d.*checkpoint: step \d+")

    def test_the_coordinator_is_killed(self):
        process, children = self.running(restart={"max_per_rank": 0})
        os.kill(children["coordinator"][0], signal.SIGKILL)
        self.assert_ends(process, FLEET, r"coordinator.*SIGKILL.*step \d+")

    def test_the_launcher_is_killed(self):
        process, _ = self.running()
        process.kill()
        process.communicate(timeout=60)
        self.assert_nothing_left()

    def timed(self):
        """A run of `bench step`, whose processes nobody restarts as `train` does: its process, and the worker started last."""
        process = self.start("bench", "step", "--preset", "gpt2-tiny", "--steps", 1000, "--set", "restart.max_per_rank=3")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and len(self.workers()) < 2:
            time.sleep(0.002)  # polls a real process at intervals
        return process, self.workers()[-1]

    def test_a_worker_of_a_timed_run_is_killed(self):
        for seconds in (0, 0.4):  # before the worker has joined, and later
            process, worker = self.timed()
            time.sleep(seconds)
            os.kill(worker, signal.SIGKILL)
            self.assert_ends(process, FLEET, rf"pid {worker}\)(?!.*its log)", seconds=30)  # the log is gone with the run

    def test_a_worker_of_a_timed_run_hangs(self):
        process, worker = self.timed()
        time.sleep(0.4)
        os.kill(worker, signal.SIGSTOP)
        self.assert_ends(process, FLEET, rf"pid {worker}\) at step \d+: nothing heard for \d", seconds=30)

    def test_a_timed_run_that_waits_for_a_worker_can_be_stopped(self):
        for sent, code in ((signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED)):
            process, worker = self.timed()
            os.kill(worker, signal.SIGSTOP)
            process.send_signal(sent)
            self.assert_ends(process, code, f"stopped by {sent.name}", seconds=30)

    def test_a_metrics_port_in_use(self):
        port = fleet.free_port(4) + 1
        with socket.socket() as taken:
            taken.bind(("0.0.0.0", port))
            taken.listen()
            for first in (port, port - 1):  # the coordinator's, rank 0's
                process = self.start("train", self.write_config(self.config()), "--metrics-port", first)
                self.assert_ends(process, USAGE, str(port))

    def test_a_worker_finds_no_coordinator(self):
        port = fleet.free_port()
        process = self.start("worker", "--coordinator", f"127.0.0.1:{port}", "--device", "cpu")
        self.assert_ends(process, FLEET, str(port), seconds=90)  # a worker waits a minute for a coordinator that is still starting


if __name__ == "__main__":
    fleet.main()
