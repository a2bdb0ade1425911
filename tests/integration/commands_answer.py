#!/usr/bin/env python3
"""Every command does its work on a trained model: help, plan, eval, generate, export, import, status."""
import json
import struct

import fleet

COMMANDS = ("train", "coordinator", "worker", "status", "plan", "checkpoint", "eval", "generate", "bench")


class CommandsAnswer(fleet.FleetTest):
    def ok(self, *arguments):
        run = self.run_command(*arguments)
        self.assertEqual(run.code, 0, f"{arguments}: {run.err[-2000:]}")
        return run

    def test_help_has_an_example(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                self.assertIn(f"zerofleet {command}", self.ok(command, "--help").out)
        self.assertIn("0.1.0", self.ok("--version").out)

    def test_a_checkpoint_is_used(self):
        config = self.config(data={"validation": [str(self.held_file)]}, evaluate={"every_steps": 12, "batches": 2})
        run = self.train(config)
        self.assertEqual([each["step"] for each in run.of("evaluate")], [12])
        step_dir = fleet.latest_checkpoint(self.work / "checkpoints")

        held = json.loads(self.ok("eval", "--checkpoint", step_dir, "--data", self.held_file, "--json").out)
        self.assertLess(abs(held["loss"] - run.of("evaluate")[0]["loss"]), 0.3)

        generate = ("generate", "--checkpoint", step_dir, "--prompt", "Ba", "--tokens", "20", "--seed", "3")
        once, again = self.ok(*generate), self.ok(*generate)
        self.assertTrue(once.out.startswith("Ba"))
        self.assertEqual(once.out, again.out, "the same seed gives the same text")

        self.ok("checkpoint", "export", step_dir, self.work / "hf")
        data = (self.work / "hf" / "model.safetensors").read_bytes()
        header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
        hidden = config["model"]["hidden"]
        self.assertEqual(header["transformer.h.0.attn.c_attn.weight"]["shape"], [hidden, 3 * hidden])
        self.assertEqual(json.loads((self.work / "hf" / "config.json").read_text())["model_type"], "gpt2")

        self.ok("checkpoint", "import", self.work / "hf", self.work / "imported" / "step-00000000")
        back = json.loads(self.ok("eval", "--checkpoint", self.work / "imported" / "step-00000000",
                                  "--data", self.held_file, "--json").out)
        self.assertEqual(held["loss"], back["loss"], "export and import keep every bit")
        on = self.train(self.config(steps=3, checkpoint={"dir": str(self.work / "on")}), "--resume",
                        self.work / "imported" / "step-00000000")
        self.assertEqual(sorted(on.column("loss")), [1, 2, 3])

    def test_token_files_train_like_the_text_they_hold(self):
        tokens = self.work / "train.u16"
        text = self.train_file.read_bytes()
        tokens.write_bytes(struct.pack(f"<{len(text)}H", *text))
        from_text = self.train(self.config(checkpoint={"dir": str(self.work / "text")}))
        from_tokens = self.train(self.config(data={"train": [str(tokens)], "format": "tokens_u16"}, model={"vocab": 256},
                                             checkpoint={"dir": str(self.work / "tokens")}))
        self.assert_same_bits(from_text.column("loss"), from_tokens.column("loss"), "text and its tokens")


if __name__ == "__main__":
    fleet.main()
