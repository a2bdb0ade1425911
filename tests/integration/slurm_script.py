#!/usr/bin/env python3
"""deploy/slurm/zerofleet.sbatch, with an `srun` that starts the tasks on this machine: it trains to the end, and before its
time limit it saves and stops.
"""
import os
import signal
import subprocess
import time

import fleet

SCRIPT = fleet.ROOT / "deploy" / "slurm" / "zerofleet.sbatch"
# Like srun: runs the command once per node; the exit code is that of the first task that fails.
SRUN = """#!/bin/sh
shift  # --kill-on-bad-exit=0
SLURMD_NODENAME=n1 SLURM_LOCALID=0 SLURM_STEP_TASKS_PER_NODE='1(x2)' "$@" --device cpu --threads 1 --interface lo & one=$!
SLURMD_NODENAME=n2 SLURM_LOCALID=0 SLURM_STEP_TASKS_PER_NODE='1(x2)' "$@" --device cpu --threads 1 --interface lo & two=$!
wait $one; code=$?
wait $two && exit $code
"""


class SlurmScript(fleet.FleetTest):
    def setUp(self):
        super().setUp()
        tools = self.work / "tools"
        tools.mkdir()
        (tools / "srun").write_text(SRUN)
        (tools / "hostname").write_text("#!/bin/sh\necho 127.0.0.1\n")
        for tool in tools.iterdir():
            tool.chmod(0o755)
        self.slurm = {"PATH": f"{tools}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", "ZEROFLEET": fleet.BINARY,
                      "ZEROFLEET_STATE": str(self.work / "state"), "ZEROFLEET_PORT": str(fleet.free_port()), "SLURM_GPUS_ON_NODE": "2"}
        self.report = self.work / "state" / "report.jsonl"

    def submit(self, config):
        return subprocess.Popen(["bash", str(SCRIPT), str(self.write_config(config))], env={**self.environment(), **self.slurm},
                                cwd=self.work, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_it_trains_to_the_end(self):
        job = self.submit(self.config(parallel={"workers": 4}))
        _, err = job.communicate(timeout=fleet.RUN_SECONDS)
        self.assertEqual(job.returncode, 0, err)
        self.assertEqual(len(fleet.Run(0, "", "", self.report).column("loss")), 12)
        self.assert_nothing_left()

    def test_at_its_time_limit_it_saves_and_stops(self):
        job = self.submit(self.config(steps=1_000_000, parallel={"workers": 4}))
        deadline = time.monotonic() + fleet.RUN_SECONDS
        while not fleet.Run(0, "", "", self.report).column("loss"):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        job.send_signal(signal.SIGTERM)
        _, err = job.communicate(timeout=fleet.RUN_SECONDS)
        self.assertEqual(job.returncode, 143, err)
        self.assertIsNotNone(fleet.latest_checkpoint(self.work / "checkpoints"))
        self.assert_nothing_left()


if __name__ == "__main__":
    fleet.main()
