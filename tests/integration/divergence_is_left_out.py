#!/usr/bin/env python3
"""A loss that spikes: the run goes back, leaves out the data that led there, and keeps doing so whatever is killed."""
import json
import os
import pathlib
import signal
import time

import fleet

STEPS, BAD_STEP, EVERY = 60, 34, 20
BATCH, CONTEXT, SEED = 12, 32, 1
MASK = (1 << 64) - 1


def mix(value):
    value = (value + 0x9e3779b97f4a7c15) & MASK
    value = ((value ^ (value >> 30)) * 0xbf58476d1ce4e5b9) & MASK
    value = ((value ^ (value >> 27)) * 0x94d049bb133111eb) & MASK
    return value ^ (value >> 31)


def sample_at(place, samples):
    """The sample at this place of the first epoch, as in worker/data/sampler.cc."""
    key, half = mix(mix(SEED)), 1
    while half < 32 and 1 << (2 * half) < samples:
        half += 1
    while True:
        left, right = place >> half, place & ((1 << half) - 1)
        for number in range(6):
            left, right = right, left ^ (mix(mix((key + number) & MASK) ^ right) & ((1 << half) - 1))
        place = (left << half) | right
        if place < samples:
            return place


class DivergenceIsLeftOut(fleet.FleetTest):
    def setUp(self):
        super().setUp()
        text = bytearray(self.train_file.read_bytes())
        samples = (len(text) - 1) // CONTEXT
        for place in range((BAD_STEP - 1) * BATCH, BAD_STEP * BATCH):
            start = sample_at(place, samples) * CONTEXT
            text[start:start + CONTEXT] = bytes(range(160, 160 + CONTEXT))
        self.train_file.write_bytes(text)

    def run_config(self, name, **changes):
        base = {"steps": STEPS, "parallel": {"workers": 3}, "optimizer": {"learning_rate": 1e-2}, "seed": SEED,
                "checkpoint": {"dir": str(self.work / name), "every_steps": EVERY}, "on_divergence": "rollback",
                "divergence": {"spike_factor": 1.3, "window_steps": 8},
                # A worker that is lost together with the coordinator is awaited three times as long.
                "restart": {"heartbeat_timeout_seconds": 4}}
        return self.config(**fleet.merged(base, changes))

    def told_from_the_start(self, rollback):
        """A run from the start whose coordinator's state already says that these samples are left out."""
        state = self.work / "told" / ".coordinator"
        state.mkdir(parents=True)
        entry = {"step": 0, "resumed_step": 0, "first_sample": rollback["first_sample"],
                 "end_sample": rollback["first_sample"] + rollback["skipped_samples"], "cause": "told"}
        (state / "coordinator.json").write_text(json.dumps(
            {"format_version": 2, "generation": 2, "last_committed_step": -1, "rollbacks": [entry]}))
        run = self.train(self.run_config("told"))
        self.assertEqual(run.of("rollback"), [])
        return run

    def test_as_if_it_had_been_from_the_start(self):
        run = self.train(self.run_config("back"))
        (rollback,) = run.of("rollback")
        loaded = rollback["resumed_step"]
        self.assertEqual(rollback["step"], BAD_STEP)
        self.assertIn(loaded, (0, EVERY))  # 0 if the disk was too slow to commit the save by then
        self.assertEqual((rollback["first_sample"], rollback["skipped_samples"]), (loaded * BATCH, (BAD_STEP - loaded) * BATCH))
        self.assertIn(f"step {BAD_STEP} had diverged", run.err)
        self.assertEqual(len(run.of("recovery")), 1)
        told = self.told_from_the_start(rollback)
        self.assert_same_bits(told.column("loss"), run.column("loss"), "after going back")

    def children(self, role):
        found = []
        for pid in self.leftovers():
            try:
                words = pathlib.Path("/proc", str(pid), "cmdline").read_bytes().decode().split("\0")
            except FileNotFoundError:
                continue  # it has just ended
            if len(words) > 1 and words[1] == role:
                found.append(pid)
        return found

    def test_whatever_is_killed_after_it(self):
        report = self.work / "report.jsonl"
        process = self.start("train", self.write_config(self.run_config("killed")), "--report", report)
        deadline = time.monotonic() + fleet.RUN_SECONDS
        while not (report.exists() and '"event":"rollback"' in report.read_text()):
            self.assertIsNone(process.poll(), "the run ended before it went back")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)  # polls a real process at intervals
        # This is before the next commit if the machine is fast enough; the same must hold after it.
        os.kill(self.children("coordinator")[0], signal.SIGKILL)
        os.kill(min(self.children("worker")), signal.SIGKILL)
        out, err = process.communicate(timeout=fleet.RUN_SECONDS)
        run = fleet.Run(process.returncode, out, err, report)
        self.assertEqual(run.code, 0, err[-3000:])
        told = self.told_from_the_start(run.of("rollback")[0])
        self.assert_same_bits(told.column("loss"), run.column("loss"), "after a coordinator and a worker were killed")
        self.assert_nothing_left()

    def test_what_diverges_with_any_data_ends_the_run(self):
        run = self.train_anyhow(
            self.run_config("hopeless", optimizer={"learning_rate": 1e30}, divergence={"max_rollbacks": 2}))
        self.assertEqual(run.code, 2, run.err[-3000:])
        self.assertEqual(len(run.of("rollback")), 2)
        (line,) = [each for each in run.error_lines() if "has not helped" in each]
        self.assertIn("going back 2 times has not helped (divergence.max_rollbacks): step", line)


if __name__ == "__main__":
    fleet.main()
