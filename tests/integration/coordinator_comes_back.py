#!/usr/bin/env python3
"""A run's coordinator is killed, also during saves, or stands still: the workers go on, another coordinator adopts them, no step is lost."""
import os
import pathlib
import random
import signal
import socket
import time

import fleet

STEPS = 600
EVERY = 20  # steps from one save to the next
KILLS = 12 if fleet.full_size() else 4
# A new coordinator serves after some 0.2 s; the limit is for a machine that is busy with other tests.
SERVING_SECONDS = 15


class CoordinatorComesBack(fleet.FleetTest):
    def setUp(self):
        super().setUp()
        self.draw = random.Random(int(os.environ.get("ZEROFLEET_SEED", "1")))

    def run_config(self, name, **changes):
        base = {"steps": STEPS, "parallel": {"workers": 3}, "batch": {"micro_sequences": 2},
                "evaluate": {"every_steps": 50, "batches": 1}, "data": {"validation": [str(self.held_file)]},
                "checkpoint": {"dir": str(self.work / name), "every_steps": EVERY},
                "restart": {"max_per_rank": 2 * KILLS, "heartbeat_timeout_seconds": 3}}
        return self.config(**fleet.merged(base, changes))

    wanted = None  # what undisturbed() returns, once it has run

    def undisturbed(self):
        """The run that nothing happens to, and the states of its last checkpoint."""
        cls = type(self)
        if cls.wanted is None:
            run = self.train(self.run_config("undisturbed"))
            cls.wanted = run, fleet.checkpoint_states(fleet.latest_checkpoint(self.work / "undisturbed"))
        return cls.wanted

    def children(self):
        """{role: {process id: its arguments}}."""
        found = {"coordinator": {}, "worker": {}}
        for pid in self.leftovers():
            try:
                words = pathlib.Path("/proc", str(pid), "cmdline").read_bytes().decode().split("\0")
            except FileNotFoundError:
                continue  # it has just ended
            if len(words) > 1 and words[1] in found:
                found[words[1]][pid] = words
        return found

    def wait_until(self, process, what, condition):
        deadline = time.monotonic() + fleet.RUN_SECONDS
        while not condition():
            self.assertIsNone(process.poll(), f"the run ended before {what}")
            self.assertLess(time.monotonic(), deadline, f"{what}: not in {fleet.RUN_SECONDS} s")
            time.sleep(0.005)  # polls a real process at intervals

    def started(self, config):
        report = self.work / f"report-{time.time_ns()}.jsonl"
        process = self.start("train", self.write_config(config), "--report", report)
        self.wait_until(process, "a checkpoint", lambda: report.exists() and '"event":"checkpoint"' in report.read_text())
        return process, report

    def kill_coordinator(self, process):
        """Kills it; returns the seconds until its successor accepts connections."""
        (pid, _), = self.children()["coordinator"].items()
        host, port = next(iter(self.children()["worker"].values()))[3].rsplit(":", 1)
        killed = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        self.wait_until(process, "its successor", lambda: self.children()["coordinator"].keys() - {pid})

        def serves():
            try:
                socket.create_connection((host, int(port)), timeout=1).close()
                return True
            except OSError:
                return False
        self.wait_until(process, "another coordinator", serves)
        return time.monotonic() - killed

    def assert_undisturbed(self, process, report, workers, times):
        out, err = process.communicate(timeout=fleet.RUN_SECONDS)
        run = fleet.Run(process.returncode, out, err, report)
        self.assertEqual(run.code, 0, err[-3000:])
        self.assertEqual(err.count("the coordinator was killed; starting it again"), len(times))
        self.assertEqual([each["step"] for each in run.of("step")], list(range(1, STEPS + 1)), "not every step once")
        self.assertEqual(run.of("recovery"), [], "a rank was lost")
        wanted, wanted_states = self.undisturbed()
        self.assert_same_bits(wanted.column("loss"), run.column("loss"), "without the coordinator")
        for event in ("evaluate", "checkpoint"):
            self.assertEqual([each["step"] for each in run.of(event)], [each["step"] for each in wanted.of(event)], event)
        self.assertEqual(len(run.of("start")), 1)
        saved = fleet.checkpoint_states(fleet.latest_checkpoint(self.work / "killed"))
        self.assertEqual(saved, wanted_states, "the last checkpoint differs")
        self.assertEqual([path.name for path in (self.work / "killed").glob(".step-*")], [], "an unfinished save is left")
        if times:
            print(f"serving again after {', '.join(f'{each:.2f}' for each in times)} s")
        self.assertLess(max(times, default=0), SERVING_SECONDS)
        self.assert_nothing_left()

    def test_killed_at_random_moments(self):
        process, report = self.started(self.run_config("killed"))
        workers = sorted(self.children()["worker"])
        times = []
        while len(times) < KILLS and process.poll() is None:
            times.append(self.kill_coordinator(process))
            self.assertEqual(sorted(self.children()["worker"]), workers, "a worker was replaced")
            time.sleep(self.draw.uniform(0, 0.4))  # another moment each time, also while the fleet is adopted
        self.assertGreaterEqual(len(times), 2)
        self.assert_undisturbed(process, report, workers, times)

    def test_killed_in_saves(self):
        process, report = self.started(self.run_config("killed"))
        workers = sorted(self.children()["worker"])
        times = []
        directory = self.work / "killed"
        while len(times) < KILLS and process.poll() is None:
            self.wait_until(process, "the end of the last save", lambda: not list(directory.glob(".step-*")))
            self.wait_until(process, "a save", lambda: list(directory.glob(".step-*")))
            time.sleep(self.draw.uniform(0, 0.01))
            times.append(self.kill_coordinator(process))
            self.assertEqual(sorted(self.children()["worker"]), workers, "a worker was replaced")
        self.assert_undisturbed(process, report, workers, times)

    def test_stands_still_for_longer_than_its_connections_last(self):
        """20 s without an answer break every gRPC connection (services/rpc/grpc_common.h), but not the run."""
        process, report = self.started(self.run_config("killed", steps=STEPS))
        workers = sorted(self.children()["worker"])
        (pid, _), = self.children()["coordinator"].items()
        os.kill(pid, signal.SIGSTOP)
        time.sleep(25)
        os.kill(pid, signal.SIGCONT)
        self.assert_undisturbed(process, report, workers, [])

    def test_a_worker_is_lost_with_it(self):
        process, report = self.started(self.run_config("both"))
        os.kill(min(self.children()["worker"]), signal.SIGKILL)
        self.kill_coordinator(process)
        out, err = process.communicate(timeout=fleet.RUN_SECONDS)
        run = fleet.Run(process.returncode, out, err, report)
        self.assertEqual(run.code, 0, err[-3000:])
        # Which of the two coordinators noticed the loss is a matter of milliseconds; another generation began in any case.
        self.assertGreater(len({each["generation"] for each in run.of("step")}), 1)
        self.assert_same_bits(self.undisturbed()[0].column("loss"), run.column("loss"), "after the recovery")
        self.assert_nothing_left()

    def test_a_stop_while_it_is_away(self):
        process, report = self.started(self.run_config("stopped", steps=1_000_000))
        (pid, _), = self.children()["coordinator"].items()
        os.kill(pid, signal.SIGKILL)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=fleet.RUN_SECONDS)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, err[-3000:])
        run = fleet.Run(process.returncode, out, err, report)
        self.assertEqual(run.of("checkpoint")[-1]["step"], run.of("step")[-1]["step"], "it stopped without its checkpoint")
        self.assert_nothing_left()


if __name__ == "__main__":
    fleet.main()
