#!/usr/bin/env python3
"""With the optimizer's states on the host a run has the bits of one without offload; it can be killed, and can move the states on resume.

What crosses the link is counted to the byte, memory is where the plan says, and a limit that a plan exceeds is refused in one line.
"""
import json
import signal

import fleet


class OffloadIsExact(fleet.FleetTest):
    STEPS = 30

    def named(self, name, offload, **changes):
        return self.config(steps=changes.pop("steps", self.STEPS), offload={"optimizer": "cpu" if offload else "none"},
                           checkpoint={"dir": str(self.work / name)}, **changes)

    def test_the_same_bits_and_four_bytes_per_parameter(self):
        for precision, workers, stage in (("bf16", 2, 2), ("fp16", 3, 3), ("fp32", 2, 1)):
            with self.subTest(precision=precision, workers=workers, stage=stage):
                changes = {"precision": precision, "parallel": {"workers": workers, "zero_stage": stage}}
                on_device = self.train(self.named(f"device-{precision}", False, **changes))
                on_host = self.train(self.named(f"host-{precision}", True, **changes))
                for field in ("loss", "grad_norm"):
                    self.assert_same_bits(on_device.column(field), on_host.column(field), f"{precision}, {field}")
                self.assertEqual(*(fleet.checkpoint_states(fleet.latest_checkpoint(self.work / f"{place}-{precision}"))
                                   for place in ("device", "host")))
                parameters = on_host.of("start")[0]["parameters"]
                ranks = on_host.of("end")[0]["ranks"]
                skipped = sum(norm is None for norm in on_host.column("grad_norm").values())
                each = 4 if precision == "fp32" else 2
                sent = {way: sum(rank["link"][way]["bytes"] for rank in ranks) for way in ("to_host", "to_device")}
                self.assertEqual(sent, {"to_host": each * parameters * self.STEPS,
                                        "to_device": each * parameters * (self.STEPS - skipped)})
                self.assertEqual([rank["link"] for rank in on_device.of("end")[0]["ranks"]], [{}] * workers)
                for rank in ranks:
                    device, host = rank["memory"]["device"], rank["memory"]["host"]
                    self.assertEqual(device["optimizer"]["peak"], 0)
                    self.assertGreaterEqual(host["optimizer"]["peak"], 12 * parameters // workers * 0.9)

    def test_killed_and_resumed_in_another_place(self):
        whole = self.train(self.named("whole", False, steps=600))
        config = self.named("moved", True, steps=600)
        for attempt in range(5):  # on a busy machine a run may be over before it receives the signal
            config = self.named(f"moved-{attempt}", True, steps=600)
            stopped = self.train_until(config, 5, signal.SIGTERM)
            if max(stopped.column("loss"), default=0) < 600:
                break
        done = max(stopped.column("loss"))
        self.assertLess(done, 600, "the signal came too late to stop anything")
        config["offload"]["optimizer"] = "none"
        resumed = self.train(config, "--resume", "auto")
        joined = {**stopped.column("loss"), **resumed.column("loss")}
        self.assert_same_bits(whole.column("loss"), joined, f"moved to the device after step {done}")

    def test_delayed_updates_resume(self):
        """Every checkpoint includes all delayed gradients, so a run that continues from one has the bits of the run that wrote it."""
        def run(name, steps, *arguments):
            config = self.named(name, True, steps=steps, schedule={"decay": "constant"})
            config["offload"]["delayed_update"] = {"after_steps": 5}
            config["checkpoint"]["every_steps"] = 10
            return self.train(config, *arguments)

        whole = run("delayed-whole", 40)
        first = run("delayed", 20)
        rest = run("delayed", 40, "--resume", "auto")
        self.assertEqual(rest.of("start")[0]["resumed_from"], 20)
        joined = {**first.column("loss"), **rest.column("loss")}
        self.assert_same_bits(whole.column("loss"), joined, "delayed updates, resumed")
        self.assertLess(whole.column("loss")[40], whole.column("loss")[1], "the loss does not fall")
        undelayed = self.train(self.named("undelayed", True, steps=40, schedule={"decay": "constant"}))
        self.assertEqual([undelayed.column("loss")[step] for step in range(1, 7)], [whole.column("loss")[step] for step in range(1, 7)])
        self.assertNotEqual(undelayed.column("loss")[8], whole.column("loss")[8])

    def test_limits(self):
        config = self.named("limited", False, memory={"device_limit": "1MiB"})
        refused = self.train_anyhow(config)
        self.assertEqual(refused.code, 2, refused.err)
        self.assertEqual(len(refused.error_lines()), 1, refused.err)
        self.assertRegex(refused.error_lines()[0], r"memory\.device_limit: a worker needs .* more than 1MiB; .*offload\.optimizer: cpu")
        plan = json.loads(self.run_command("plan", self.write_config(self.named("plan", True)), "--json").out)["rank_memory"]
        self.assertEqual(plan["device"]["optimizer"], 0)
        self.assertGreater(plan["host"]["optimizer"], 0)
        needed = sum(plan["device"].values())
        fits = self.named("fits", True, steps=2, memory={"device_limit": f"{needed // 1024 + 1}KiB"})
        self.train(fits)


if __name__ == "__main__":
    fleet.main()
