#!/usr/bin/env python3
"""A save that is written from the live states has the same bytes as one from a copy, needs no memory, and no kill tears it."""
import os
import pathlib
import signal
import time

import fleet


class SavesAreStreamed(fleet.FleetTest):
    def run_config(self, snapshot, **changes):
        base = {"steps": 8, "checkpoint": {"dir": str(self.work / f"{snapshot}-{time.time_ns()}"), "every_steps": 3, "snapshot": snapshot}}
        return self.config(**fleet.merged(base, changes))

    def assert_same_files(self, one, other):
        names = [sorted(path.relative_to(directory) for path in directory.glob("step-*/rank-*")) for directory in (one, other)]
        self.assertEqual(*names)
        self.assertTrue(names[0])
        for name in names[0]:
            self.assertEqual((one / name).read_bytes(), (other / name).read_bytes(), name)

    def test_the_same_bytes_without_the_memory(self):
        for parallel, offload in (({"zero_stage": 0, "workers": 2}, "none"), ({"zero_stage": 3, "workers": 3}, "cpu"),
                                  ({"zero_stage": 2, "workers": 2, "tensor": 2}, "cpu")):
            with self.subTest(**parallel, offload=offload):
                runs = {}
                for snapshot in ("memory", "stream"):
                    config = self.run_config(snapshot, model={"heads": 2}, parallel=parallel, offload={"optimizer": offload})
                    runs[snapshot] = (config, self.train(config))
                (copied, from_copy), (streamed, from_states) = runs["memory"], runs["stream"]
                self.assert_same_bits(from_copy.column("loss"), from_states.column("loss"), "losses")
                directories = [pathlib.Path(config["checkpoint"]["dir"]) for config in (copied, streamed)]
                self.assert_same_files(*directories)
                self.assertEqual([each["step"] for each in from_states.of("checkpoint")], [3, 6, 8])
                for copy, live in zip(*(run.of("end")[0]["ranks"] for run in (from_copy, from_states))):
                    stored = (directories[0] / "step-00000008" / f"rank-{copy.get('rank', 0):05}.safetensors").stat().st_size
                    saving = copy["memory"]["host"]["buffers"]["peak"] - live["memory"]["host"]["buffers"]["peak"]
                    self.assertLess(stored - saving, 1024, "the difference is a copy of the states: the file without its header")
                    self.assertGreater(stored - saving, 0)

    def test_killed_in_mid_save(self):
        """Every step saves, so that most kills interrupt a save: survivors go back, and no committed checkpoint is torn."""
        changes = {"steps": 120, "parallel": {"workers": 3, "zero_stage": 1},
                   "checkpoint": {"every_steps": 1, "keep": 5}, "restart": {"max_per_rank": 10}}
        undisturbed = self.train(self.run_config("memory", **changes))
        config = self.run_config("stream", **changes)
        report = self.work / "killed.jsonl"
        process = self.start("train", self.write_config(config), "--report", report)
        for wanted in (20, 50, 80):
            deadline = time.monotonic() + fleet.RUN_SECONDS
            while not (report.exists() and f'"step":{wanted},' in report.read_text().replace(" ", "")):
                self.assertIsNone(process.poll(), "the run ended too early")
                self.assertLess(time.monotonic(), deadline, f"no step {wanted}")
                time.sleep(0.002)  # polls a real process at intervals
            os.kill(self.workers()[0], signal.SIGKILL)
        out, err = process.communicate(timeout=fleet.RUN_SECONDS)
        run = fleet.Run(process.returncode, out, err, report)
        self.assertEqual(run.code, 0, err[-3000:])
        self.assertEqual(len(run.of("recovery")), 3)
        self.assert_same_bits(undisturbed.column("loss"), run.column("loss"), "losses")
        kept = sorted(path.parent for path in pathlib.Path(config["checkpoint"]["dir"]).glob("step-*/manifest.json"))
        self.assertEqual(kept[-1].name, "step-00000120")
        for step_dir in kept:
            verified = self.run_command("checkpoint", "verify", step_dir)
            self.assertEqual(verified.code, 0, verified.err)


if __name__ == "__main__":
    fleet.main()
