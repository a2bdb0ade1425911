#!/usr/bin/env python3
"""A part of the states on the device, updates ahead of the decision, parameters in host memory, states on disk: each gives
the bits of a run without offload, also after a rank was killed; and a disk that fails or is full is reported in one line."""
import json
import os
import pathlib
import signal
import time

import fleet

STEPS = 12


class OffloadGoesFurther(fleet.FleetTest):
    def named(self, name, **offload):
        """A stage 3 configuration whose gradient norm is around the clipping limit, so that some steps are clipped and some are not."""
        if offload.get("optimizer") == "nvme":
            offload["dir"] = str(self.work / "states")
        config = self.config(steps=STEPS, precision="bf16", parallel={"workers": 2, "zero_stage": 3},
                             checkpoint={"dir": str(self.work / name)}, **({"offload": offload} if offload else {}))
        config["optimizer"]["grad_clip"] = 1.5
        return config

    def states(self, name):
        return fleet.checkpoint_states(fleet.latest_checkpoint(self.work / name))

    def test_the_same_bits(self):
        plain = self.train(self.named("plain"))
        norms = plain.column("grad_norm").values()
        self.assertTrue(min(norms) < 1.5 < max(norms), norms)
        kinds = {"fraction": {"optimizer": "cpu", "fraction": 0.5}, "speculative": {"optimizer": "cpu", "speculative": True},
                 "parameters": {"optimizer": "cpu", "parameters": "cpu"}, "disk": {"optimizer": "nvme", "parameters": "cpu"}}
        for name, offload in kinds.items():
            with self.subTest(name):
                run = self.train(self.named(name, **offload))
                for field in ("loss", "grad_norm"):
                    self.assert_same_bits(plain.column(field), run.column(field), f"{name}, {field}")
                self.assertEqual(self.states(name), self.states("plain"))
        self.assertEqual(os.listdir(self.work / "states"), [])

    def test_states_go_from_disk_to_the_device_and_back(self):
        def run(name, steps, *arguments, **offload):
            config = fleet.merged(self.named(name, **offload), {"steps": steps, "schedule": {"decay": "constant"}})
            return self.train(config, *arguments)

        whole = run("whole", 14)
        first = run("moved", 5, optimizer="nvme", fraction=0.7)
        second = run("moved", 9, "--resume", "auto")
        third = run("moved", 14, "--resume", "auto", optimizer="nvme", parameters="cpu")
        self.assertEqual([each.of("start")[0]["resumed_from"] for each in (second, third)], [5, 9])
        joined = {**first.column("loss"), **second.column("loss"), **third.column("loss")}
        self.assert_same_bits(whole.column("loss"), joined, "from disk to the device and back")

    def test_a_killed_rank_changes_no_bit(self):
        def config(name, **offload):
            return fleet.merged(self.named(name, **offload), {"steps": 60, "checkpoint": {"every_steps": 10},
                                                              "restart": {"heartbeat_timeout_seconds": 3}})
        plain = self.train(config("plain")).column("loss")
        for name, offload in {"disk": {"optimizer": "nvme", "parameters": "cpu"},
                              "ahead": {"optimizer": "cpu", "fraction": 0.4, "speculative": True}}.items():
            with self.subTest(name):
                report = self.work / f"{name}.jsonl"
                process = self.start("train", self.write_config(config(name, **offload)), "--report", report)
                self.wait_for(process, report, '"event":"checkpoint"')
                os.kill(self.workers()[1], signal.SIGKILL)
                out, err = process.communicate(timeout=fleet.RUN_SECONDS)
                run = fleet.Run(process.returncode, out, err, report)
                self.assertEqual(run.code, 0, err[-3000:])
                self.assertEqual(len(run.of("recovery")), 1, err[-3000:])
                self.assert_same_bits(plain, run.column("loss"), name)
        self.assertEqual(os.listdir(self.work / "states"), [])

    def wait_for(self, process, report, text):
        deadline = time.monotonic() + fleet.RUN_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            if report.exists() and text in report.read_text():
                return
            time.sleep(0.005)  # polls a real process at intervals
        self.fail(f"no {text}: {process.poll()}")

    def test_a_model_larger_than_the_devices_memory(self):
        def config(limit=None, **offload):
            config = self.named("large", **offload)
            config.update(steps=2, activation={"checkpointing": "block"}, batch={"global_sequences": 1, "micro_sequences": 1})
            config["model"].update(layers=40, hidden=96, context=8)
            config["parallel"]["workers"] = 1
            config["memory"] = {"device_limit": limit} if limit else {}
            return config

        def planned(config):
            return json.loads(self.run_command("plan", self.write_config(config), "--json").out)["rank_memory"]["device"]

        without, streams = {"optimizer": "cpu"}, {"optimizer": "cpu", "parameters": "cpu"}
        parameters, needed = planned(config(**without))["parameters"], sum(planned(config(**streams)).values())
        self.assertLess(3 * needed, parameters)
        limit = f"{parameters // 1024}KiB"
        refused = self.train_anyhow(config(limit, **without))
        self.assertEqual((refused.code, len(refused.error_lines())), (2, 1), refused.err)
        self.assertRegex(refused.error_lines()[0], r"memory\.device_limit: .*offload\.parameters: cpu")
        run = self.train(config(limit, **streams))
        peaks = run.of("end")[0]["ranks"][0]["memory"]
        self.assertEqual(peaks["device"]["parameters"]["peak"], 0)
        self.assertEqual(peaks["host"]["parameters"]["peak"], parameters)

    def test_a_changed_bit_on_disk_is_named(self):
        # A rank whose own disk is damaged is lost and, since this run has no restarts, the run with it.
        config = fleet.merged(self.named("changed", optimizer="nvme"), {"steps": 100_000, "restart": {"max_per_rank": 0}})
        report = self.work / "changed.jsonl"
        process = self.start("train", self.write_config(config), "--report", report)
        self.wait_for(process, report, '"step":3,')
        self.assertEqual(os.listdir(self.work / "states"), [])
        worker = self.workers()[0]
        names = [entry for entry in pathlib.Path(f"/proc/{worker}/fd").iterdir() if "zerofleet-states-rank-" in os.readlink(entry)]
        self.assertEqual(len(names), 1)
        with open(names[0], "r+b", buffering=0) as states:
            deadline = time.monotonic() + fleet.RUN_SECONDS
            while process.poll() is None and time.monotonic() < deadline:  # until a damaged byte is read before it is overwritten
                states.seek(100)
                byte = states.read(1)[0]
                states.seek(100)
                states.write(bytes([byte ^ 16]))
        out, err = process.communicate(timeout=fleet.RUN_SECONDS)
        run = fleet.Run(process.returncode, out, err, report)
        self.assertEqual(run.code, 3, err[-3000:])
        self.assertRegex(run.error_lines()[0], r"/states/zerofleet-states-rank-\d-\w+: the \d+ bytes at 0, of master, are not those")

    def test_a_full_disk_is_one_line(self):
        disk = self.small_disk("64k")
        config = self.named("full", optimizer="nvme")
        config["offload"]["dir"] = str(disk)
        refused = self.train_anyhow(config)
        self.assertEqual((refused.code, len(refused.error_lines())), (3, 1), refused.err)
        self.assertRegex(refused.error_lines()[0], rf"offload\.dir: {disk}/zerofleet-states-rank-\d-\w+: cannot take .* in {disk}: No space left on device")


if __name__ == "__main__":
    fleet.main()
