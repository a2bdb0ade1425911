#!/usr/bin/env python3
"""Tensor parallelism, with whole and with divided sequences: a model in parts has the losses of the whole model, any degree continues from any
other's checkpoint, inputs of blocks come back from their parts and from the host, and a tensor group that has lost a rank forms again."""
import json
import os
import pathlib
import signal
import time

import fleet

STEPS = 30


class TensorGroups(fleet.FleetTest):
    def in_parts(self, data, tensor, name, **changes):
        """A run of `data` tensor groups of `tensor` ranks. Heads and width divide by 4; the vocabulary is padded."""
        base = {"model": {"heads": 4, "vocab": 257}, "parallel": {"workers": data * tensor, "tensor": tensor}, "steps": STEPS,
                "batch": {"micro_sequences": 3}, "optimizer": {"learning_rate": 1e-3},
                "checkpoint": {"dir": str(self.work / name)}}
        return self.config(**fleet.merged(base, changes))

    def test_losses_are_those_of_the_whole_model(self):
        whole = self.train(self.in_parts(1, 1, "whole"))
        for data, tensor, stage in ((1, 2, 1), (1, 4, 2), (2, 2, 3)):
            parts = self.train(self.in_parts(data, tensor, f"{data}x{tensor}", parallel={"zero_stage": stage}))
            what = f"{data} groups of {tensor} in stage {stage}"
            self.assert_close(whole.column("loss"), parts.column("loss"), 1e-5, f"loss of {what}")
            self.assert_close(whole.column("grad_norm"), parts.column("grad_norm"), 1e-5, f"norm of {what}")
            # Per block two sums forward and two backward, and the embedding's and the logits', for the sequences that the group trains on.
            sums = 10 * (STEPS * 12 // data * 32 * 24 * 4)
            for rank in parts.of("end")[0]["ranks"]:
                sent = {(each["operation"], each["group"]): each["bytes"] for each in rank["collectives"]}
                self.assertEqual(sent["all_reduce", "tensor"], 2 * sums * (tensor - 1) // tensor, what)
        self.assert_nothing_left()

    def test_divided_sequences(self):
        def train(sequence, stage=2, **changes):
            return self.train(self.in_parts(2, 2, f"{sequence}-{stage}", parallel={"zero_stage": stage, "sequence": sequence}, **changes))

        def sent_to_group(run):
            return [sum(each["bytes"] for each in rank["collectives"] if each["group"] == "tensor")
                    for rank in run.of("end")[0]["ranks"]]

        whole, alone, divided = self.train(self.in_parts(1, 1, "whole")), train(False), train(True)
        self.assert_close(whole.column("loss"), divided.column("loss"), 1e-5, "loss")
        self.assert_close(whole.column("grad_norm"), divided.column("grad_norm"), 1e-5, "gradient norm")
        # The bytes of the norms' gradients, in fp32: of 2 blocks and the head, summed for each of 2 micro-batches.
        norms = STEPS * 2 * (4 * 2 + 2) * 24 * 4
        for before, sent in zip(sent_to_group(alone), sent_to_group(divided)):
            self.assertEqual(sent - before, norms)
        again = train(True, 3, activation={"checkpointing": "block", "offload": "cpu"})
        self.assert_same_bits(divided.column("loss"), again.column("loss"), "losses with block, offloaded, in stage 3")
        self.assert_nothing_left()

    def test_inputs_in_parts_and_on_the_host(self):
        def train(partition, offload):
            return self.train(self.in_parts(1, 2, f"{partition}-{offload}", model={"layers": 5}, activation={
                "checkpointing": "block", "partition": partition, "offload": offload}))

        whole = train(False, "none")
        moved = STEPS * 12 * 32 * 24 * 4  # bytes of one block's inputs
        for partition, offload, inputs in ((True, "none", 4), (False, "cpu", 3), (True, "cpu", 3)):
            run, what = train(partition, offload), f"partition {partition}, offload {offload}"
            self.assert_same_bits(whole.column("loss"), run.column("loss"), what)
            for rank, before in zip(run.of("end")[0]["ranks"], whole.of("end")[0]["ranks"]):
                gathered, before = ({(each["operation"], each["group"]): each["bytes"] for each in one["collectives"]}
                                    ["all_gather", "tensor"] for one in (rank, before))
                self.assertEqual(gathered - before, inputs * moved // 2 if partition else 0, what)
                copied = inputs * moved // (2 if partition else 1) if offload == "cpu" else 0
                for direction in ("to_host", "to_device"):
                    self.assertEqual(rank["link"].get(direction, {"bytes": 0})["bytes"], copied, what)
        self.assert_nothing_left()

    def test_any_degree_goes_on_from_any_other(self):
        whole = self.train(self.in_parts(1, 1, "whole", schedule={"decay": "constant"}))
        losses = {}
        order = [(2, 2, 2, True), (1, 1, 0, False), (1, 4, 3, True), (4, 1, 1, False), (1, 2, 2, False)]
        for leg, (data, tensor, stage, sequence) in enumerate(order, 1):
            last = STEPS * leg // len(order)
            run = self.train(self.in_parts(data, tensor, "legs", parallel={"zero_stage": stage, "sequence": sequence}, steps=last,
                                           schedule={"decay": "constant"}), *(["--resume", "auto"] if leg > 1 else []))
            losses.update(run.column("loss"))
            step_dir = self.work / "legs" / f"step-{last:08}"
            verified = self.run_command("checkpoint", "verify", step_dir)
            self.assertEqual(verified.code, 0, verified.err)
            manifest = json.loads((step_dir / "manifest.json").read_text())
            self.assertEqual(manifest["format_version"], 4 if tensor > 1 else 3)
        self.assert_close(whole.column("loss"), losses, 1e-5, "one run in five layouts")

    def test_a_group_that_lost_a_rank_forms_again(self):
        for name, sequence, saves in (("commits", False, {"every_steps": 10}),
                                      ("copies", True, {"every_steps": 100, "snapshot_every_steps": 5, "replicate": 1})):
            with self.subTest(name):
                parallel = {"sequence": sequence}
                undisturbed = self.train(self.in_parts(2, 2, f"{name}-undisturbed", steps=150, parallel=parallel))
                run = self.train_and_kill(self.in_parts(2, 2, name, steps=150, parallel=parallel, checkpoint=saves,
                                                        restart={"max_per_rank": 5, "heartbeat_timeout_seconds": 3}),
                                          [(20, 1), (80, 2)])
                self.assertGreaterEqual(len(run.of("recovery")), 1)
                self.assert_same_bits(undisturbed.column("loss"), run.column("loss"), "a run that lost ranks")

    def train_and_kill(self, config, kills):
        """Trains; after each step of `kills`, [(step, place), ...], kills the worker in that place in the order of ranks."""
        report = pathlib.Path(config["checkpoint"]["dir"] + ".jsonl")
        process = self.start("train", self.write_config(config), "--report", report)
        deadline = time.monotonic() + fleet.RUN_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            text = report.read_text() if report.exists() else ""
            steps = [json.loads(line)["step"] for line in text.splitlines() if '"event":"step"' in line and line.endswith("}")]
            if kills and steps and steps[-1] >= kills[0][0] and len(self.workers()) == 4:
                os.kill(self.workers()[kills.pop(0)[1]], signal.SIGKILL)
            time.sleep(0.01)  # polls a real process at intervals
        _, err = process.communicate(timeout=fleet.RUN_SECONDS)
        self.assertEqual(process.returncode, 0, err[-3000:])
        self.assertEqual(kills, [], "a rank was not killed in time")
        return fleet.Run(process.returncode, "", err, report)

    def test_what_does_not_divide_is_refused_with_what_would_fit(self):
        config = self.in_parts(1, 3, "refused")
        run = self.train_anyhow(config)
        self.assertEqual(run.code, 2, run.err)
        self.assertEqual(len(run.error_lines()), 1, run.err)
        self.assertIn("parallel.tensor: cannot be 3 with model.heads 4", run.err)
        self.assertIn("1, 2, 4 fit", run.err)


if __name__ == "__main__":
    fleet.main()
