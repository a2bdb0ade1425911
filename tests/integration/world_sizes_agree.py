#!/usr/bin/env python3
"""1, 2 and 4 workers with the same global batch see the same data and agree to 1e-5 over 50 steps in fp32.

With `reduce.order: samples` any number of workers, in any stage, gives the same bits: losses, norms, evaluations, weights.
"""
import fleet


class WorldSizesAgree(fleet.FleetTest):
    def test_losses(self):
        runs = {}
        for world in (1, 2, 4):
            runs[world] = self.train(self.config(parallel={"workers": world}, steps=50, batch={"micro_sequences": 3},
                                                 checkpoint={"dir": str(self.work / f"world-{world}")}))
            self.assertEqual(runs[world].of("start")[0]["world_size"], world)
        for world in (2, 4):
            self.assert_close(runs[1].column("loss"), runs[world].column("loss"), 1e-5, f"{world} workers against one")

    STEPS = 6

    def in_sample_order(self, workers, stage, name, **changes):
        """A run of 6 micro-batches of 2 sequences: with 4 and 5 workers some have none in the last round."""
        base = {"parallel": {"workers": workers, "zero_stage": stage}, "steps": self.STEPS, "precision": "bf16",
                "reduce": {"order": "samples"}, "batch": {"micro_sequences": 2}, "schedule": {"warmup_steps": 2},
                "data": {"validation": [str(self.held_file)]}, "evaluate": {"every_steps": 3, "batches": 1},
                "checkpoint": {"dir": str(self.work / name)}}
        return self.config(**fleet.merged(base, changes))

    def assert_same_run(self, wanted, got, what):
        for field in ("loss", "grad_norm"):
            self.assert_same_bits(wanted.column(field), got.column(field), f"{what}, {field}")
        losses = [[each["loss"] for each in run.of("evaluate")] for run in (wanted, got)]
        self.assertEqual(losses[0], losses[1], f"{what}: evaluations")

    def test_in_the_order_of_samples_they_are_equal(self):
        alone = self.train(self.in_sample_order(1, 2, "alone"))
        self.assertEqual(len(alone.of("evaluate")), 2)
        self.assertLess(alone.column("loss")[self.STEPS], alone.column("loss")[1], "the loss does not fall")
        states = fleet.checkpoint_states(fleet.latest_checkpoint(self.work / "alone"))
        for workers, stage in ((2, 3), (3, 1), (4, 0), (5, 3)):
            name = f"{workers}-{stage}"
            self.assert_same_run(alone, self.train(self.in_sample_order(workers, stage, name)), name)
            self.assertEqual(fleet.checkpoint_states(fleet.latest_checkpoint(self.work / name)), states, name)

    def test_a_checkpoint_goes_on_with_fewer_workers(self):
        constant = {"precision": "fp16", "schedule": {"decay": "constant"}}
        whole = self.train(self.in_sample_order(4, 2, "whole", **constant))
        half = self.in_sample_order(4, 2, "half", steps=self.STEPS // 2, **constant)
        first = self.train(half)
        rest = self.train(fleet.merged(half, {"steps": self.STEPS, "parallel": {"workers": 3, "zero_stage": 3}}))
        for field in ("loss", "grad_norm"):
            self.assert_same_bits(whole.column(field), {**first.column(field), **rest.column(field)}, f"4, then 3: {field}")

    def test_same_run_twice_gives_the_same_bits(self):
        first = self.train(self.config(checkpoint={"dir": str(self.work / "first")}))
        second = self.train(self.config(checkpoint={"dir": str(self.work / "second")}))
        self.assert_same_bits(first.column("loss"), second.column("loss"), "a run and its repetition")


if __name__ == "__main__":
    fleet.main()
