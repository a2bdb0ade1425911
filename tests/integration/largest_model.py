#!/usr/bin/env python3
"""Under a limit on device memory the largest model grows from configuration to configuration as in the ZeRO paper.

Plain data parallelism < P_os < P_os+g < P_os+g+p (ZeRO section 5, table 2), and C1 < C2 < C4 < C5 (table 3, figure 6). The largest model
is the one that `zerofleet plan` predicts: it trains and leaves less than 3% of the limit free, and with one layer more it is refused, in one
line that says what is short and what would help; the first remedy named trains the refused model. The models are small, and so is the limit.
"""
import json
import re

import fleet

LIMIT_BYTES = 20 << 20
PAPER = {"DP": 0, "P_os": 1, "P_os+g": 2, "P_os+g+p": 3}
CONFIGURATIONS = {"C1": (1, {}), "C2": (1, {"partition": True}), "C3": (2, {}), "C4": (2, {"partition": True}),
                  "C5": (2, {"partition": True, "offload": "cpu"})}


class LargestModel(fleet.FleetTest):
    def limits(self, name):
        return {"memory": {"device_limit": f"{LIMIT_BYTES >> 10}KiB"}, "checkpoint": {"dir": str(self.work / name)}}

    def states_config(self, stage, layers):
        """A configuration in which the model's states are most of the memory."""
        return self.config(model={"layers": layers, "hidden": 48, "heads": 4, "context": 16, "vocab": 256}, precision="bf16", steps=1,
                           parallel={"zero_stage": stage, "workers": 2}, batch={"global_sequences": 2, "micro_sequences": 1},
                           **self.limits(f"stage-{stage}-{layers}"))

    def inputs_config(self, name, layers):
        """A configuration with tensor groups of two and a batch whose kept inputs are larger than a rank's gradients when whole, and smaller
        when partitioned. Where inputs are larger, gradients lie in their memory, and splitting gradients makes no difference."""
        stage, activation = CONFIGURATIONS[name]
        return self.config(model={"layers": layers, "hidden": 48, "heads": 4, "context": 32, "vocab": 256}, precision="bf16", steps=1,
                           parallel={"zero_stage": stage, "workers": 4, "tensor": 2}, activation={"checkpointing": "block", **activation},
                           batch={"global_sequences": 24, "micro_sequences": 12}, **self.limits(f"{name}-{layers}"))

    def planned(self, config):
        plan = self.run_command("plan", self.write_config(config), "--json")
        self.assertEqual(plan.code, 0, plan.err)
        document = json.loads(plan.out)
        return sum(document["rank_memory"]["device"].values()), document["parameters"]

    def largest(self, make):
        """The layers and parameters of the largest model. A layer's memory depends on the others, with which it shares."""
        fits, too_many = 1, 256
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            if self.planned(make(middle))[0] <= LIMIT_BYTES:
                fits = middle
            else:
                too_many = middle
        return fits, self.planned(make(fits))[1]

    def check_largest(self, name, make, layers):
        run = self.train(make(layers))
        for rank in run.of("end")[0]["ranks"]:
            used = rank["reserved_bytes"]["device"]
            self.assertLessEqual(used, LIMIT_BYTES, name)
            self.assertGreater(used, 0.97 * LIMIT_BYTES, f"{name}: more would fit")
        self.refused(make(layers + 1))

    def refused(self, config):
        refused = self.train_anyhow(config)
        self.assertEqual(refused.code, 2, refused.err)
        lines = refused.error_lines()
        self.assertEqual(len(lines), 1, refused.err)
        self.assertRegex(lines[0], rf"memory\.device_limit: a worker needs .* more than {LIMIT_BYTES >> 10}KiB; raise it, or use ")
        return lines[0]

    def assert_order(self, sizes, *names):
        ordered = [sizes[name] for name in names]
        self.assertEqual(ordered, sorted(set(ordered)), f"{names}: {ordered}")

    def test_stages(self):
        layers, sizes = {}, {}
        for name, stage in PAPER.items():
            layers[name], sizes[name] = self.largest(lambda count: self.states_config(stage, count))
        self.assert_order(sizes, "DP", "P_os", "P_os+g", "P_os+g+p")
        for name in PAPER if fleet.full_size() else ("DP", "P_os+g"):
            self.check_largest(name, lambda count: self.states_config(PAPER[name], count), layers[name])
        line = self.refused(self.states_config(PAPER["DP"], layers["P_os+g+p"]))
        helps = re.search(r"or use parallel\.zero_stage: (\d)", line)
        self.assertIsNotNone(helps, line)
        helped = self.states_config(int(helps[1]), layers["P_os+g+p"])
        helped["checkpoint"]["dir"] += "-helped"
        self.train(helped)

    def test_configurations(self):
        layers, sizes = {}, {}
        for name in CONFIGURATIONS:
            layers[name], sizes[name] = self.largest(lambda count: self.inputs_config(name, count))
        self.assert_order(sizes, "C1", "C2", "C4", "C5")
        self.assertLessEqual(sizes["C1"], sizes["C3"], "whole gradients may lie where activations were as well as split ones")
        self.assert_order(sizes, "C3", "C4")
        for name in CONFIGURATIONS if fleet.full_size() else ("C1", "C5"):
            self.check_largest(name, lambda count: self.inputs_config(name, count), layers[name])


if __name__ == "__main__":
    fleet.main()
