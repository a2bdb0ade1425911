#!/usr/bin/env python3
"""A step sends as much as ZeRO's section 7 states: 2Ψ(N-1)/N elements per rank in stages 0 to 2, 3Ψ(N-1)/N in stage 3.

The bytes are the difference between a run of 6 steps and one of 2, so that set-up and the final checkpoint drop out. The loss
and the gradient norm may add bytes, not kilobytes. Four workers run two stages; ZEROFLEET_FULL=1 runs all.
"""
import fleet

MODEL = {"layers": 4, "hidden": 192, "heads": 4, "context": 32, "vocab": 256}
SHORT, LONG = 2, 6


def sent_by_operation(run, rank):
    return {(each["operation"], each["group"]): each["bytes"] for each in run.of("end")[0]["ranks"][rank]["collectives"]}


class TrafficMatchesThePaper(fleet.FleetTest):
    def bytes_per_step(self, stage, workers, precision):
        runs = [self.train(self.config(
            model=MODEL, precision=precision, steps=steps, batch={"global_sequences": workers, "micro_sequences": 1},
            parallel={"zero_stage": stage, "workers": workers},
            checkpoint={"dir": str(self.work / f"{stage}-{workers}-{precision}-{steps}")})) for steps in (SHORT, LONG)]
        parameters = runs[0].of("start")[0]["parameters"]
        for rank in range(workers):
            few, many = (sent_by_operation(run, rank) for run in runs)
            yield parameters, {key: (many[key] - few.get(key, 0)) / (LONG - SHORT) for key in many}

    def check(self, stage, workers, precision, element_bytes):
        for parameters, sent in self.bytes_per_step(stage, workers, precision):
            large = sum(value for (operation, _), value in sent.items() if operation in ("all_gather", "reduce_scatter"))
            small = sum(sent.values()) - large
            wanted = (3 if stage == 3 else 2) * parameters * (workers - 1) / workers * element_bytes
            self.assertGreaterEqual(large, wanted * 0.9999)
            self.assertLess(large, wanted * 1.01 + 1024, f"stage {stage}, {workers} workers, {precision}")
            self.assertLess(small, 1024, f"the loss and the norm send {small} bytes per step")

    def test_bf16(self):
        stages = {2: (0, 1, 2, 3), 4: (1, 3)}
        for workers in stages:
            for stage in (0, 1, 2, 3) if fleet.full_size() else stages[workers]:
                with self.subTest(workers=workers, stage=stage):
                    self.check(stage, workers, "bf16", 2)

    def test_fp32(self):
        for stage in (0, 3):
            with self.subTest(stage=stage):
                self.check(stage, 3, "fp32", 4)


if __name__ == "__main__":
    fleet.main()
