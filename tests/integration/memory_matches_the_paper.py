#!/usr/bin/env python3
"""Measured bytes of parameters, gradients and optimizer states are those of ZeRO's section 5 (table 1), plus padding under 1%.

A model of 10.8M parameters in bf16: 2 bytes per parameter, 2 per gradient and K of optimizer state (12 with AdamW, 8 with SGD), split
as the stage says. `zerofleet plan` promises the same bytes for rank 0.
Activations have the bytes that the plan lists for each kind of checkpointing, and the losses are the same to the bit.
The process's resident memory agrees with what its arenas reserve and the stated constant of libraries and code.
"""
import json

import fleet

MODEL = {"layers": 6, "hidden": 384, "heads": 6, "context": 32, "vocab": 256}
# Code, gRPC, UCX's transports, oneDNN's kernels and the product that measures the peak, in addition to the arenas: 52 to 65 MiB
# measured on 2 cores (docs/architecture.md); more cores mean more thread stacks, and a busy machine more of malloc's arenas.
PROCESS_CONSTANT_BYTES = 96 << 20


K = {"adamw": 12, "sgd": 8}  # ZeRO's section 3.1: a master weight, and two moments or one momentum


def paper_bytes(stage, parameters, workers, k):
    return {"parameters": 2 * parameters / (workers if stage >= 3 else 1),
            "gradients": 2 * parameters / (workers if stage >= 2 else 1),
            "optimizer": k * parameters / (workers if stage >= 1 else 1)}


class MemoryMatchesThePaper(fleet.FleetTest):
    def test_every_stage(self):
        # One worker splits nothing, and four split differently: the outer stages suffice for these. ZEROFLEET_FULL=1 runs all.
        stages = {1: (0, 3), 2: (0, 1, 2, 3), 4: (1, 3)}
        for workers in stages:
            for stage in (0, 1, 2, 3) if fleet.full_size() else stages[workers]:
                with self.subTest(workers=workers, stage=stage):
                    self.check(stage, workers, "adamw")

    def test_sgd(self):
        for stage in (0, 1, 2, 3) if fleet.full_size() else (0, 2):
            with self.subTest(stage=stage):
                self.check(stage, 2, "sgd")

    def test_checkpointing(self):
        losses, measured = {}, {}
        for kind in ("none", "selective", "{every: 2}", "block"):
            config = self.config(
                model=MODEL, precision="bf16", steps=3, batch={"global_sequences": 4, "micro_sequences": 2},
                parallel={"zero_stage": 3, "workers": 2},
                activation={"checkpointing": {"every": 2} if kind == "{every: 2}" else kind},
                checkpoint={"dir": str(self.work / f"checkpointing-{kind}"), "keep": 1})
            run = self.train(config)
            planned = self.run_command("plan", self.write_config(config), "--json")
            self.assertEqual(planned.code, 0, planned.err)
            rows = json.loads(planned.out)["rank_memory"]["checkpointing"]
            chosen = [row for row in rows if row["chosen"]]
            self.assertEqual([row["checkpointing"] for row in chosen], [kind])
            measured[kind] = chosen[0]["activation_bytes"]
            for rank in run.of("end")[0]["ranks"]:
                self.assertEqual(rank["memory"]["device"]["activations"]["peak"], measured[kind], kind)
            losses[kind] = run.column("loss")
            self.assert_same_bits(losses["none"], losses[kind], f"checkpointing {kind}")
        self.assertEqual(sorted(measured, key=measured.get, reverse=True), ["none", "selective", "{every: 2}", "block"])

    def check(self, stage, workers, optimizer):
        config = self.config(
            model=MODEL, precision="bf16", steps=2, batch={"global_sequences": 4, "micro_sequences": 4 // workers},
            parallel={"zero_stage": stage, "workers": workers}, optimizer={"name": optimizer},
            checkpoint={"dir": str(self.work / f"stage-{stage}-{workers}"), "keep": 1})
        run = self.train(config)
        planned = self.run_command("plan", self.write_config(config), "--json")
        self.assertEqual(planned.code, 0, planned.err)
        parameters = run.of("start")[0]["parameters"]
        self.assertGreater(parameters, 10_000_000)
        ranks = run.of("end")[0]["ranks"]
        self.assertEqual([rank["rank"] for rank in ranks], list(range(workers)))
        for rank in ranks:
            device = rank["memory"]["device"]
            for category, wanted in paper_bytes(stage, parameters, workers, K[optimizer]).items():
                measured = device[category]["peak"]
                if rank["rank"] == 0:
                    self.assertEqual(measured, json.loads(planned.out)["rank_memory"]["device"][category], category)
                self.assertGreaterEqual(measured, wanted * 0.9999, category)
                self.assertLess(measured, wanted * 1.01, f"{category}: padding of 1% or more")
            accounted = sum(rank["reserved_bytes"].values())
            together = sum(each["peak"] for space in rank["memory"].values() for each in space.values())
            self.assertLess(accounted, together, "no buffers share memory")
            self.assertLess(abs(rank["rss_peak_bytes"] - accounted), PROCESS_CONSTANT_BYTES,
                            f"rss {rank['rss_peak_bytes'] >> 20} MiB, accounted {accounted >> 20} MiB")


if __name__ == "__main__":
    fleet.main()
