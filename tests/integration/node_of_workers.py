#!/usr/bin/env python3
"""`zerofleet worker --local N`: a node's workers under one process, which restarts a worker that dies without disturbing the others,
passes signals on, and leaves no process behind, however it ends.
"""
import os
import pathlib
import signal
import time

import fleet


class NodeOfWorkers(fleet.FleetTest):
    def setUp(self):
        super().setUp()
        self.address = f"127.0.0.1:{fleet.free_port()}"
        self.report = self.work / "hand.jsonl"

    def coordinator(self, config):
        process = self.start("coordinator", "--config", self.write_config(config), "--listen", self.address, "--state-dir",
                             self.work / "state", "--report", self.report, "--quiet")
        self.assertTrue(process.stdout.readline().startswith("listening on "))
        return process

    def node(self, count, *arguments):
        return self.start("worker", "--coordinator", self.address, "--local", count, "--device", "cpu", "--interface", "lo",
                          *arguments)

    def losses(self):
        return fleet.Run(0, "", "", self.report).column("loss")

    def wait_for(self, what, holds):
        deadline = time.monotonic() + fleet.RUN_SECONDS
        while not holds():
            self.assertLess(time.monotonic(), deadline, f"waited in vain for {what}")
            time.sleep(0.05)

    def children(self, process):
        """{process id: arguments} of the children, in the order of the workers' numbers."""
        found = {}
        for pid in self.workers():
            words = pathlib.Path("/proc", str(pid), "cmdline").read_bytes().decode().split("\0")
            if pid != process.pid:
                found[pid] = words
        return dict(sorted(found.items(), key=lambda each: int(each[1][each[1].index("--local-rank") + 1])))

    def test_a_worker_that_dies_is_started_again_and_the_others_stay(self):
        config = self.config(steps=4000, checkpoint={"every_steps": 20}, parallel={"workers": 3})
        coordinator = self.coordinator(config)
        node = self.node(3)
        self.wait_for("a checkpoint", lambda: fleet.Run(0, "", "", self.report).of("checkpoint"))
        before = self.children(node)
        self.assertEqual([words[words.index("--local-rank") + 1] for words in before.values()], ["0", "1", "2"])
        victim = list(before)[1]
        os.kill(victim, signal.SIGKILL)
        self.wait_for("the recovery", lambda: fleet.Run(0, "", "", self.report).of("recovery"))
        after = self.children(node)
        self.assertEqual(list(after)[::2], list(before)[::2], "the others must stay")
        self.assertNotEqual(list(after)[1], victim)
        node.send_signal(signal.SIGTERM)
        _, err = node.communicate(timeout=fleet.RUN_SECONDS)
        self.assertEqual(node.returncode, 143, err[-2000:])
        self.assertIn(f"worker 1 (pid {victim}) was killed by SIGKILL; started again as pid ", err)
        coordinator.communicate(timeout=fleet.RUN_SECONDS)
        self.assertIsNotNone(fleet.latest_checkpoint(self.work / "checkpoints"))
        self.assert_nothing_left()

    def test_it_ends_with_the_run(self):
        undisturbed = self.train(self.config(checkpoint={"dir": str(self.work / "other")})).column("loss")
        coordinator = self.coordinator(self.config())
        node = self.node(2, "--quiet")
        _, err = node.communicate(timeout=fleet.RUN_SECONDS)
        self.assertEqual(node.returncode, 0, err[-2000:])
        self.assertEqual(coordinator.wait(timeout=fleet.RUN_SECONDS), 0)
        coordinator.communicate()
        self.assert_same_bits(undisturbed, self.losses(), "a fleet of one node and the launcher's")
        self.assert_nothing_left()

    def test_none_outlives_it(self):
        coordinator = self.coordinator(self.config(steps=1_000_000))
        node = self.node(2)
        self.wait_for("steps", self.losses)
        node.kill()
        node.communicate(timeout=fleet.RUN_SECONDS)
        self.wait_for("its workers' end", lambda: not self.workers())
        coordinator.kill()
        coordinator.communicate()
        self.assert_nothing_left()

    def refusal(self, *arguments, **environment):
        os.environ.update(environment)
        try:
            run = self.run_command("worker", *arguments)
        finally:
            for name in environment:
                del os.environ[name]
        self.assertEqual(run.code, 2, run.err)
        return run.error_lines()[0]

    def test_other_launchers_are_named(self):
        self.assertIn("(LOCAL_WORLD_SIZE is 8)", self.refusal("--coordinator", self.address, "--local", 8, LOCAL_WORLD_SIZE="8"))
        self.assertIn("(SLURM_STEP_TASKS_PER_NODE is 8)",
                      self.refusal("--coordinator", self.address, "--local", 8, SLURM_STEP_TASKS_PER_NODE="8(x2)"))
        self.assertIn("MASTER_ADDR, head, is where torch.distributed meets", self.refusal("--local", 2, MASTER_ADDR="head"))
        self.assertIn("SLURM_LOCALID: must be 0 to 1023", self.refusal("--coordinator", self.address, SLURM_LOCALID="x"))


if __name__ == "__main__":
    fleet.main()
