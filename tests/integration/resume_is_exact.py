#!/usr/bin/env python3
"""A run stopped by a signal and resumed equals an uninterrupted one to the last bit; a checkpoint written by any world size and
stage is the same state in any other.
"""
import json
import os
import signal

import fleet


class ResumeIsExact(fleet.FleetTest):
    STEPS = 600  # a second or so: a signal must arrive before the last

    def named(self, name, **changes):
        return self.config(steps=self.STEPS, checkpoint={"dir": str(self.work / name)}, **changes)

    def test_stopped_by_a_signal(self):
        whole = self.train(self.named("whole"))
        for number, (send, code) in enumerate(((signal.SIGINT, 130), (signal.SIGTERM, 143))):
            for attempt in range(5):  # on a busy machine a run may be over before it receives the signal
                config = self.named(f"stopped-{number}-{attempt}")
                stopped = self.train_until(config, 4 + 7 * number, send)
                if max(stopped.column("loss"), default=0) < self.STEPS:
                    break
            self.assertEqual(stopped.code, code, stopped.err[-2000:])
            self.assert_nothing_left()
            done = max(stopped.column("loss"))
            self.assertLess(done, self.STEPS, "the signal came too late to stop anything")
            resumed = self.train(config, "--resume", "auto")
            self.assertEqual(resumed.of("start")[0]["resumed_from"], done)
            for field in ("loss", "grad_norm", "learning_rate"):
                joined = {**stopped.column(field), **resumed.column(field)}
                self.assert_same_bits(whole.column(field), joined, f"{field} of a run stopped at step {done}")

    def test_twenty_thousand_files_are_saved_and_resumed(self):
        """The configuration has half a megabyte: only the message that distributes it holds it."""
        data = self.work / "data"
        data.mkdir()
        names = [data / f"part-{number:05}.txt" for number in range(20_000)]
        names[0].write_text(self.train_file.read_text())
        for name in names[1:]:
            os.link(names[0], name)
        settings = {"data": {"train": [os.path.relpath(name, self.work) for name in names]}, "steps": 4,
                    "checkpoint": {"dir": str(self.work / "many"), "every_steps": 2}}
        run = self.train(self.config(**settings))
        self.assertEqual([each["step"] for each in run.of("checkpoint")], [2, 4])
        resumed = self.train(self.config(**fleet.merged(settings, {"steps": 6})))
        self.assertEqual(resumed.of("start")[0]["resumed_from"], 4)
        self.assertNotIn("the data are not those", resumed.err)

    def test_other_data_are_told_or_refused(self):
        settings = {"steps": 4, "checkpoint": {"dir": str(self.work / "data-change")}}
        self.train(self.config(**settings))
        settings["steps"] = 6
        other = {"data": {"train": [str(self.held_file)]}}
        refused = self.train_anyhow(self.config(**fleet.merged(settings, {"data": {**other["data"], "on_change": "refuse"}})))
        self.assertEqual(refused.code, 2, refused.err[-2000:])
        self.assertEqual(len(refused.error_lines()), 1, refused.err[-2000:])
        for run, line in ((refused, refused.error_lines()[0]), (self.train(self.config(**fleet.merged(settings, other))), None)):
            self.assertRegex(line or run.err, r"the data are not those of checkpoint .*step-00000004: data.train: .*held.txt "
                                              r"\(\d+ bytes\) is read where .*train.txt \(\d+ bytes\) was")

    def test_sgd_across_world_sizes_and_stages(self):
        """2 workers in stage 1, then 3 in stage 3: the momentum is carried over with the weights; without a change of size no bit differs."""
        settings = {"schedule": {"decay": "constant"}, "optimizer": {"name": "sgd", "learning_rate": 0.05, "momentum": 0.8}}

        def run(name, steps, workers, stage, *arguments):
            return self.train(self.config(steps=steps, parallel={"workers": workers, "zero_stage": stage},
                                          checkpoint={"dir": str(self.work / name)}, **settings), *arguments)

        first = run("first", 6, 2, 1)
        source = fleet.latest_checkpoint(self.work / "first")
        states = fleet.checkpoint_states(source)
        self.assertEqual(sorted(states), ["master", "momentum_buffer"])
        self.assertNotEqual(max(states["momentum_buffer"]), 0, "the momentum is zero")
        whole = run("whole", 12, 2, 1)
        self.assertLess(whole.column("loss")[12], whole.column("loss")[1], "the loss does not fall")
        for workers, stage, tolerance in ((2, 3, 0), (3, 3, 1e-5)):
            with self.subTest(workers=workers, stage=stage):
                name = f"at-{workers}-{stage}"
                run(name, 6, workers, stage, "--resume", source)
                self.assertEqual(states, fleet.checkpoint_states(fleet.latest_checkpoint(self.work / name)), "states changed")
                on = run(f"{name}-on", 12, workers, stage, "--resume", source)
                joined = {**first.column("loss"), **on.column("loss")}
                self.assert_close(whole.column("loss"), joined, tolerance, f"resumed at {workers} workers, stage {stage}")

    def test_any_optimizer_starts_from_an_import(self):
        """An import holds only weights: the first step's loss is the same with each optimizer."""
        self.train(self.config(steps=2, checkpoint={"dir": str(self.work / "source")}))
        step_dir = self.work / "imported" / "step-00000000"
        for arguments in (("export", fleet.latest_checkpoint(self.work / "source"), self.work / "hf"),
                          ("import", self.work / "hf", step_dir)):
            command = self.run_command("checkpoint", *arguments)
            self.assertEqual(command.code, 0, command.err)
        runs = {name: self.train(self.config(steps=3, optimizer={"name": name}, checkpoint={"dir": str(self.work / name)}),
                                 "--resume", step_dir) for name in ("adamw", "sgd")}
        first = {name: run.column("loss")[1] for name, run in runs.items()}
        self.assertEqual(first["adamw"], first["sgd"])
        self.assertEqual(sorted(fleet.checkpoint_states(fleet.latest_checkpoint(self.work / "sgd"))),
                         ["master", "momentum_buffer"])

    def test_across_world_sizes_and_stages(self):
        # A cosine ends at the last step: runs of different lengths would have different learning rates.
        constant = {"decay": "constant"}
        first = self.train(self.config(steps=6, schedule=constant, checkpoint={"dir": str(self.work / "first")},
                                       parallel={"workers": 3, "zero_stage": 3}))
        source = fleet.latest_checkpoint(self.work / "first")
        states = fleet.checkpoint_states(source)
        samples = json.loads((source / "manifest.json").read_text())["data_cursor"]["samples_consumed"]
        self.assertEqual(int(samples), 6 * 12)
        whole = self.train(self.config(steps=12, schedule=constant, checkpoint={"dir": str(self.work / "whole")}))
        for workers, stage in ((1, 0), (2, 2), (3, 1), (4, 3)):
            with self.subTest(workers=workers, stage=stage):
                name = self.work / f"at-{workers}-{stage}"
                parallel = {"workers": workers, "zero_stage": stage}
                # No step left to do: the state passes through this world size and stage, and is saved again.
                self.train(self.config(steps=6, parallel=parallel, checkpoint={"dir": str(name)}), "--resume", source)
                self.assertEqual(states, fleet.checkpoint_states(fleet.latest_checkpoint(name)), "states changed")
                # Further training sees the same samples: losses agree as closely as those of different world sizes.
                on = self.train(self.config(steps=12, schedule=constant, parallel=parallel,
                                            checkpoint={"dir": f"{name}-on"}), "--resume", source)
                joined = {**first.column("loss"), **on.column("loss")}
                self.assert_close(whole.column("loss"), joined, 1e-5, f"resumed at {workers} workers, stage {stage}")

    def test_periodic_checkpoints_and_keep(self):
        config = self.config(checkpoint={"dir": str(self.work / "kept"), "every_steps": 2, "keep": 2})
        run = self.train(config)
        self.assertEqual([each["step"] for each in run.of("checkpoint")], [2, 4, 6, 8, 10, 12])
        kept = sorted(path.name for path in (self.work / "kept").glob("step-*"))
        self.assertEqual(kept, ["step-00000010", "step-00000012"])
        listed = self.run_command("checkpoint", "list", self.work / "kept")
        self.assertEqual(listed.code, 0, listed.err)
        self.assertIn("12", listed.out)
        self.assertEqual(self.run_command("checkpoint", "verify", self.work / "kept" / "step-00000012").code, 0)


if __name__ == "__main__":
    fleet.main()
