#!/usr/bin/env python3
"""1, 2 and 4 workers with the same global batch see the same data and agree to 1e-5 over 50 steps in fp32."""
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

    def test_same_run_twice_gives_the_same_bits(self):
        first = self.train(self.config(checkpoint={"dir": str(self.work / "first")}))
        second = self.train(self.config(checkpoint={"dir": str(self.work / "second")}))
        self.assert_same_bits(first.column("loss"), second.column("loss"), "a run and its repetition")


if __name__ == "__main__":
    fleet.main()
