#!/usr/bin/env python3
"""Fine-tuning by init_from: the model is read from the weights it begins with, and the same command, given again, continues the run."""
import json
import os
import shutil
import signal
import time

import fleet


class FineTuningStartsAgain(fleet.FleetTest):
    STEPS = 600  # a second or so: a signal must arrive before the last

    def imported(self):
        """The weights of a short run, exported to a Hugging Face directory and imported."""
        self.train(self.config(checkpoint={"dir": str(self.work / "source")}))
        step_dir = self.work / "imported" / "step-00000000"
        for arguments in (("export", fleet.latest_checkpoint(self.work / "source"), self.work / "hf"),
                          ("import", self.work / "hf", step_dir)):
            command = self.run_command("checkpoint", *arguments)
            self.assertEqual(command.code, 0, command.err)
        return step_dir

    def tuning(self, init_from, **changes):
        """A configuration that does not describe the model."""
        config = self.config(**{"init_from": str(init_from), "steps": self.STEPS,
                                "checkpoint": {"dir": str(self.work / "tuned")}, **changes})
        del config["model"]
        return config

    def train_and_kill_a_worker(self, config, *arguments):
        report = self.work / f"killed-{time.time_ns()}.jsonl"
        process = self.start("train", self.write_config(config), "--report", report, *arguments)
        while process.poll() is None and not fleet.Run(0, "", "", report).column("loss"):
            time.sleep(0.005)
        for pid in self.workers()[:1]:
            os.kill(pid, signal.SIGKILL)
        out, err = process.communicate(timeout=fleet.RUN_SECONDS)
        return fleet.Run(process.returncode, out, err, report)

    def test_the_same_command_begins_and_goes_on(self):
        source = self.imported()
        config = self.tuning(source)
        whole = self.train(self.tuning(source, checkpoint={"dir": str(self.work / "whole")}))
        self.assertIsNone(whole.of("start")[0]["resumed_from"])
        self.assertEqual(whole.of("start")[0]["config"]["model"]["hidden"], 24)
        self.assertIn(f"weights from {source}", whole.err)
        from_seed = self.train(self.config(steps=1, checkpoint={"dir": str(self.work / "seed")}))
        self.assertLess(whole.column("loss")[1], from_seed.column("loss")[1] - 0.1, "it began with other weights")
        for attempt in range(5):  # on a busy machine a run may be over before it receives the signal
            shutil.rmtree(self.work / "tuned", ignore_errors=True)
            stopped = self.train_until(config, 40, signal.SIGTERM)
            if max(stopped.column("loss"), default=0) < self.STEPS:
                break
        self.assertEqual(stopped.code, 143, stopped.err[-2000:])
        self.assert_nothing_left()
        shutil.rmtree(source.parent)  # the run has its own checkpoint and needs nothing else
        again = self.train(config)
        self.assertEqual(again.of("start")[0]["resumed_from"], max(stopped.column("loss")))
        self.assert_same_bits(whole.column("loss"), {**stopped.column("loss"), **again.column("loss")}, "the tuned run")

    def test_a_loss_before_the_first_commit_begins_with_the_same_weights(self):
        source = self.imported()
        whole = self.train(self.tuning(source, checkpoint={"dir": str(self.work / "whole")}))
        config = self.tuning(source)
        for attempt in range(5):  # on a busy machine a run may be over before one of its workers is killed
            shutil.rmtree(self.work / "tuned", ignore_errors=True)
            lost = self.train_and_kill_a_worker(config)
            if lost.of("recovery"):
                break
        self.assertEqual(lost.code, 0, lost.err[-2000:])
        self.assertEqual(lost.of("recovery")[0]["resumed_step"], 0)
        self.assert_same_bits(whole.column("loss"), lost.column("loss"), "a run that began twice")

    def tuning_adapters(self, source, name, **changes):
        config = self.tuning(source, steps=8, batch={"micro_sequences": 2}, reduce={"order": "samples"},
                             checkpoint={"dir": str(self.work / name), "every_steps": 4})
        config["model"] = {"lora": {"rank": 2, "targets": ["c_attn", "mlp.c_proj"]}}
        return fleet.merged(config, changes)

    def test_adapters_have_the_same_bits_everywhere(self):
        source = self.imported()
        plain = self.train(self.tuning_adapters(source, "plain"))
        for name, changes in (("whole", {"parallel": {"zero_stage": 0, "workers": 3}}),
                              ("split", {"parallel": {"zero_stage": 3, "workers": 1}}),
                              ("offloaded", {"offload": {"optimizer": "cpu"}})):
            other = self.train(self.tuning_adapters(source, name, **changes))
            self.assert_same_bits(plain.column("loss"), other.column("loss"), name)
        first = self.train(self.tuning_adapters(source, "cut", steps=4, schedule={"warmup_steps": 4, "decay": "constant"}))
        again = self.train(self.tuning_adapters(source, "cut", schedule={"warmup_steps": 4, "decay": "constant"}))
        whole = self.train(self.tuning_adapters(source, "uncut", schedule={"warmup_steps": 4, "decay": "constant"}))
        self.assertEqual(again.of("start")[0]["resumed_from"], 4)
        self.assert_same_bits(whole.column("loss"), {**first.column("loss"), **again.column("loss")}, "resumed")
        adapters = sum(file.stat().st_size for file in fleet.latest_checkpoint(self.work / "plain").glob("*.safetensors"))
        base = sum(file.stat().st_size for file in source.glob("*.safetensors"))
        self.assertLess(adapters, base / 4)

    def test_adapters_outlive_a_killed_worker_and_their_steps_verify(self):
        source = self.imported()
        settings = {"steps": 200, "checkpoint": {"every_steps": 20, "keep": 20}}
        whole = self.train(self.tuning_adapters(source, "whole", **settings))
        trace = self.work / "trace.json"
        for attempt in range(5):  # on a busy machine a run may be over before one of its workers is killed
            shutil.rmtree(self.work / "killed", ignore_errors=True)
            lost = self.train_and_kill_a_worker(self.tuning_adapters(source, "killed", **settings), "--trace", trace,
                                                "--trace-steps", "199-200")
            if lost.of("recovery"):
                break
        self.assertEqual(lost.code, 0, lost.err[-2000:])
        self.assertEqual(len(lost.of("recovery")), 1)
        self.assert_same_bits(whole.column("loss"), lost.column("loss"), "with a worker that was killed")
        events = json.loads(trace.read_text())["traceEvents"]
        phases = {(e["pid"], e["args"]["step"]) for e in events if e["name"] == "forward"}
        self.assertEqual(phases, {(rank, step) for rank in (0, 1) for step in (199, 200)})
        same = self.run_command("verify-run", self.work / "killed", "--steps", "30-45", "--workers", "1")
        self.assertEqual(same.code, 0, same.err)
        self.assertIn("same: steps 30-45", same.out)
        # Flips a bit in a later checkpoint, which the steps do not start from.
        later = max((self.work / "killed").glob("step-*/rank-*.safetensors"))
        good = later.read_bytes()
        later.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        self.assertEqual(self.run_command("verify-run", self.work / "killed", "--steps", "30-45").code, 3)
        later.write_bytes(good)
        # With another base the losses would differ, so adapters name theirs by its digest.
        shard = next(source.glob("*.safetensors"))
        shard.write_bytes(shard.read_bytes()[:-1] + b"\x01")
        self.assertEqual(self.run_command("verify-run", self.work / "killed", "--steps", "30-45").code, 3)

    def test_adapters_are_merged_and_go_to_peft_and_back(self):
        source = self.imported()
        self.train(self.tuning_adapters(source, "plain"))
        tuned = fleet.latest_checkpoint(self.work / "plain")
        for arguments in (("export", tuned, self.work / "merged"), ("export", tuned, self.work / "peft", "--adapters"),
                          ("import", self.work / "merged", self.work / "a" / "step-00000000"),
                          ("import", self.work / "peft", self.work / "b" / "step-00000000", "--base", source)):
            command = self.run_command("checkpoint", *arguments)
            self.assertEqual(command.code, 0, command.err)
        losses = []
        for step_dir in (tuned, self.work / "a" / "step-00000000", self.work / "b" / "step-00000000"):
            command = self.run_command("eval", "--checkpoint", step_dir, "--data", self.train_file, "--json")
            self.assertEqual(command.code, 0, command.err)
            losses.append(json.loads(command.out)["loss"])
        self.assertEqual(losses[0], losses[2])
        self.assertAlmostEqual(losses[0], losses[1], delta=1e-6 * losses[0])
        shutil.rmtree(source.parent)
        command = self.run_command("eval", "--checkpoint", tuned, "--data", self.train_file)
        self.assertEqual(command.code, 3)
        self.assertIn(f"its frozen weights are those of {source}", command.error_lines()[0])
        # The saved files are whole and no rank is at fault, so no rank is lost.
        resumed = self.train_anyhow(self.tuning_adapters(source, "plain", steps=12))
        self.assertEqual(resumed.code, 3)
        self.assertRegex(resumed.error_lines()[0], f"could not load: init_from: {source}: .*; {tuned} holds what was trained alone")
        self.assertNotIn("lost rank", resumed.err)

    def test_what_does_not_fit_is_refused_in_a_line(self):
        source = self.imported()
        typed = self.train_anyhow(self.tuning(source), "--set", "model.hidden=48")
        self.assertEqual(typed.code, 2)
        self.assertEqual(typed.error_lines(), [f"zerofleet: --set: model.hidden: is 48, and 24 in {source}, from which the run "
                                               "starts; leave it out"])
        frozen = self.train_anyhow(self.tuning(source), "--set", "model.freeze=['*']")
        self.assertEqual((frozen.code, frozen.error_lines()[0].partition("model.freeze: ")[2]), (2, "leaves no tensor to train"))
        hf = self.train_anyhow(self.tuning(self.work / "hf"))
        self.assertEqual(hf.code, 2)
        self.assertIn("checkpoint import", hf.error_lines()[0])
        shard = next(source.glob("*.safetensors"))
        shard.write_bytes(shard.read_bytes()[:-1])
        short = self.train_anyhow(self.tuning(source))
        self.assertEqual(short.code, 3)
        self.assertIn(f"init_from: {shard}", short.error_lines()[0])


if __name__ == "__main__":
    fleet.main()
