#!/usr/bin/env python3
"""The coordinator's own network fails for a while: the ranks train on and come back with their steps, none is lost, and every loss
has its usual value.

Needs root and `ip netns`; skipped, with the reason, where that is not permitted.
"""
import subprocess
import time

import fleet
from network import Network, why_not

WORKERS = 2
STEPS = 400
HEARTBEAT_TIMEOUT = 2


class CoordinatorIsCutOff(fleet.FleetTest):
    def setUp(self):
        super().setUp()
        reason = why_not()
        if reason:
            self.skipTest(f"SKIPPED: {reason}")

    def run_config(self, name):
        # The loss of a rank ends this run. A second save waits for the commit of the first, so that training ends after every cut.
        return self.config(steps=STEPS, parallel={"workers": WORKERS}, batch={"micro_sequences": 2},
                           checkpoint={"dir": str(self.work / name), "every_steps": 20},
                           restart={"max_per_rank": 0, "heartbeat_timeout_seconds": HEARTBEAT_TIMEOUT})

    def cut_for(self, cuts):
        """Exit codes, errors and the report of a fleet by hand whose coordinator is cut off once for each number of seconds in `cuts`."""
        network = Network(WORKERS + 1)
        self.addCleanup(network.close)
        network.open()
        environment = {**self.environment(), "UCX_TLS": "tcp"}
        report = self.work / "cut.jsonl"

        def start(node, *arguments):
            process = subprocess.Popen([*network.inside(node), fleet.BINARY, *map(str, arguments)], cwd=self.work, env=environment,
                                       text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for stream in (process.stdout, process.stderr):
                self.addCleanup(stream.close)
            return process

        address = f"{network.address(WORKERS)}:7070"
        coordinator = start(WORKERS, "coordinator", "--config", self.write_config(self.run_config("cut")), "--listen", address,
                            "--state-dir", self.work / "state", "--report", report)
        self.assertIn("listening on", coordinator.stdout.readline())
        workers = [start(node, "worker", "--coordinator", address, "--device", "cpu", "--threads", 1, "--interface", "eth0",
                         "--advertise", f"node-{node}") for node in range(WORKERS)]
        for number, seconds in enumerate(cuts, start=1):
            self.wait_for(coordinator, report, number)
            network.cut(WORKERS)
            time.sleep(seconds)  # the test is about this length
            network.heal(WORKERS)
        ended = [process.communicate(timeout=fleet.RUN_SECONDS) for process in (coordinator, *workers)]
        codes = [process.returncode for process in (coordinator, *workers)]
        return codes, [err for _, err in ended], fleet.Run(0, "", "", report)

    def wait_for(self, coordinator, report, commits):
        """Waits until `commits` commits have been reported since the last cut."""
        before = report.read_text().count('"event":"checkpoint"') if report.exists() else 0
        deadline = time.monotonic() + fleet.RUN_SECONDS
        while time.monotonic() < deadline and coordinator.poll() is None:
            if report.exists() and report.read_text().count('"event":"checkpoint"') >= max(commits, before + 1):
                return
            time.sleep(0.01)  # polls a real process at intervals
        self.fail(f"no commit before the cut: {coordinator.communicate()}")

    def test_nobody_is_lost(self):
        undisturbed = self.train(self.run_config("undisturbed")).column("loss")
        codes, errors, run = self.cut_for([3, 12])
        self.assertEqual(codes, [0] * (WORKERS + 1), "\n".join(errors)[-3000:])
        told = errors[0]
        self.assertEqual(told.count("this coordinator takes itself to be cut off"), 2, told)
        self.assertEqual(told.count(f"all {WORKERS} ranks are back"), 2, told)
        self.assertEqual(run.of("recovery"), [])
        self.assert_same_bits(undisturbed, run.column("loss"), "behind the cuts")
        self.assertEqual(sorted(run.column("loss")), list(range(1, STEPS + 1)))


if __name__ == "__main__":
    fleet.main()
