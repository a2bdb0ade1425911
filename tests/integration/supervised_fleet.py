#!/usr/bin/env python3
"""A fleet under a supervisor (`--supervised`), as Kubernetes runs it: a worker that gets SIGTERM leaves alone, another takes its
place, and no loss changes; the coordinator outlives its run, and one that starts after the end knows that. A last scrape can still
see that a run has failed.
"""
import json
import pathlib
import re
import signal
import time
import urllib.request

import fleet


class SupervisedFleet(fleet.FleetTest):
    def setUp(self):
        super().setUp()
        self.port = fleet.free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.report = self.work / "hand.jsonl"

    def coordinator(self, config, *arguments):
        process = self.start("coordinator", "--config", self.write_config(config), "--listen", self.address, "--state-dir",
                             self.work / "state", "--report", self.report, "--supervised", "--quiet", *arguments)
        line = process.stdout.readline()
        self.assertTrue(line.startswith("listening on "), line + (process.stderr.read() if not line else ""))
        return process

    def worker(self):
        return self.start("worker", "--coordinator", self.address, "--device", "cpu", "--threads", 1, "--supervised", "--quiet",
                          "--interface", "lo")

    def status(self):
        run = self.run_command("status", "--coordinator", self.address, "--json")
        return json.loads(run.out) if run.code == 0 else {}

    def events(self):
        return fleet.Run(0, "", "", self.report)

    def wait_for(self, what, holds):
        deadline = time.monotonic() + fleet.RUN_SECONDS
        while not holds():
            self.assertLess(time.monotonic(), deadline, f"waited in vain for {what}")
            time.sleep(0.05)

    def end(self, process, send=signal.SIGTERM):
        if send:
            process.send_signal(send)
        out, err = process.communicate(timeout=fleet.RUN_SECONDS)
        return process.returncode, out, err

    def test_who_is_told_to_go_leaves_alone_and_no_loss_changes(self):
        # The run saves only on request, so that the recovery goes back to the checkpoint for the leaving worker. There are so many steps
        # that none is the last when a worker is told to leave, even on a busy machine.
        steps = 600
        config = self.config(steps=steps, checkpoint={"every_steps": 0, "keep": 100})
        undisturbed = self.train(self.config(steps=steps, checkpoint={"dir": str(self.work / "other")})).column("loss")
        coordinator = self.coordinator(config)
        workers = [self.worker(), self.worker()]
        self.wait_for("step 5", lambda: 5 in self.events().column("loss"))

        code, _, err = self.end(workers[1])
        self.assertEqual(code, 143, err)
        left = [line for line in err.splitlines() if "left the fleet on a signal" in line]
        self.assertEqual(len(left), 1, err)
        self.assertIn(" is committed", left[0])
        self.assertIsNone(workers[0].poll(), "the other worker must go on")
        workers[1] = self.worker()
        self.wait_for("the recovery", lambda: self.events().of("recovery"))
        resumed = self.events().of("recovery")[0]["resumed_step"]
        self.assertGreater(resumed, 0)
        self.assertEqual([each["step"] for each in self.events().of("checkpoint")], [resumed])

        before = max(self.events().column("loss"))
        code, _, err = self.end(coordinator)
        self.assertEqual(code, 143, err)
        self.assertIn("leaves the run to the next one", err)
        self.assertEqual([worker.poll() for worker in workers], [None, None], "the workers must go on")
        coordinator = self.coordinator(config)
        self.wait_for("later steps", lambda: max(self.events().column("loss")) > before + 1)

        for worker in workers:
            self.assertEqual(self.end(worker, send=None)[0], 0)
        self.assert_same_bits(undisturbed, self.events().column("loss"), "two losses and a run that nothing happened to")
        self.over(coordinator, config)

    def over(self, coordinator, config):
        """After the end of the run its coordinator still answers, and so does the next."""
        self.wait_for("the end", lambda: self.status().get("phase") == "done")
        for _ in range(2):
            late = self.end(self.worker(), send=None)
            self.assertEqual(late[0], 0, late)
            status = self.status()
            self.assertEqual((status["phase"], status["step"]), ("done", status["steps"]))
            code, _, err = self.end(coordinator)
            self.assertEqual(code, 0, err)
            coordinator = self.coordinator(config)
        self.end(coordinator)
        waiting = self.worker()
        self.wait_for("a worker without a coordinator", lambda: self.reads_signals(waiting.pid))
        self.assertEqual(self.end(waiting)[0], 143)
        self.assert_nothing_left()

    def reads_signals(self, pid):
        """Whether the process blocks SIGTERM, which it does once it reads signals itself."""
        blocked = re.search("^SigBlk:\\s*([0-9a-f]+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        return int(blocked.group(1), 16) >> (signal.SIGTERM - 1) & 1

    def test_a_scrape_sees_that_a_run_has_failed(self):
        port = fleet.free_port()
        coordinator = self.coordinator(self.config(steps=1_000_000, restart={"max_per_rank": 0}), "--metrics-port", port,
                                       "--metrics-listen", "127.0.0.1", "--metrics-linger", fleet.RUN_SECONDS)
        workers = [self.worker(), self.worker()]
        self.wait_for("step 5", lambda: 5 in self.events().column("loss"))
        self.end(workers[1], send=signal.SIGKILL)

        def has_failed():
            self.assertIsNone(coordinator.poll(), "it was gone before it was scraped")
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
                return 'zerofleet_coordinator_phase{phase="failed"} 1' in answer.read().decode()
        self.wait_for("the failure", has_failed)
        # Still so when all others have heard of it and gone.
        self.assertEqual(self.end(workers[0], send=None)[0], 4)
        self.assertTrue(has_failed())
        code, _, err = self.end(coordinator)
        self.assertEqual(code, 4, err)
        self.assert_nothing_left()

    def test_all_may_leave_before_training_and_come_back(self):
        config = self.config(parallel={"workers": 3})
        coordinator = self.coordinator(config)
        first = self.worker()
        self.wait_for("the first worker", lambda: len(self.status().get("members", [])) == 1)
        self.assertEqual(self.end(first)[0], 143)
        self.wait_for("its place to be free", lambda: not self.status()["members"])
        workers = [self.worker() for _ in range(3)]
        for worker in workers:
            code, _, err = self.end(worker, send=None)
            self.assertEqual(code, 0, err)
        self.over(coordinator, config)


if __name__ == "__main__":
    fleet.main()
