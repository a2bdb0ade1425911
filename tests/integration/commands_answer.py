#!/usr/bin/env python3
"""Every command works on a trained model: help, plan, eval, generate, export, import, status."""
import json
import os
import signal
import struct
import subprocess
import time

import fleet

COMMANDS = ("train", "coordinator", "worker", "status", "plan", "checkpoint", "eval", "generate", "bench", "help",
            "completion", "config-schema")


class CommandsAnswer(fleet.FleetTest):
    def ok(self, *arguments):
        run = self.run_command(*arguments)
        self.assertEqual(run.code, 0, f"{arguments}: {run.err[-2000:]}")
        return run

    def test_help_has_an_example(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                self.assertIn(f"zerofleet {command}", self.ok(command, "--help").out)
        self.assertIn("0.2.0", self.ok("--version").out)

    def under_bash(self, script, timeout=60):
        """The exit code and standard error of `script`, in which $zf is the binary."""
        done = subprocess.run(["bash", "-c", script], env={**self.environment(), "zf": fleet.BINARY}, cwd=self.work, text=True,
                              capture_output=True, timeout=timeout)
        return done.returncode, done.stderr

    def test_output_that_cannot_be_written_is_an_error(self):
        for command in ("plan --preset gpt2-124m", "--help", "completion bash", "config-schema"):
            code, err = self.under_bash(f"$zf {command} > /dev/full")
            self.assertEqual(code, 3, f"{command}: {err}")
            self.assertRegex(err, r"^zerofleet: standard output: cannot be written: No space left on device\n$")

    def test_a_reader_that_leaves_is_no_error(self):
        # Covers both a SIGPIPE that ends the process and one that is ignored, as some shells pass it on.
        code, err = self.under_bash("set -o pipefail; $zf completion bash | head -1; echo ${PIPESTATUS[0]}")
        self.assertEqual(err, "")
        code, err = self.under_bash("trap '' PIPE; $zf completion bash | head -c 1 >/dev/null; exit ${PIPESTATUS[0]}")
        self.assertEqual((code, err), (0, ""))

    def terminated(self, *arguments, children=0):
        """Sends SIGTERM a second after the command has `children` processes, which are stopped, so that none ends by itself."""
        process = self.start(*arguments)
        self.addCleanup(self.end_leftovers)
        deadline = time.monotonic() + 60
        while len(self.leftovers()) < 1 + children and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1)
        for pid in self.leftovers():
            if pid != process.pid:
                os.kill(pid, signal.SIGSTOP)
        process.terminate()
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assert_nothing_left()

    def test_a_signal_ends_what_is_measured(self):
        self.terminated("plan", "--preset", "zero-8b", "--measure")  # its products take minutes
        self.terminated("bench", "collectives", "--ranks", "2", children=2)

    def test_no_temporary_directory_is_needed_before_a_bench(self):
        code, err = self.under_bash("TMPDIR=/nonexistent $zf plan --parameters 1B > /dev/null")
        self.assertEqual((code, err), (0, ""))
        code, err = self.under_bash("TMPDIR=/nonexistent $zf bench coordinator")
        self.assertEqual(code, 3, err)
        self.assertRegex(err, r"^zerofleet: [^\n]*/nonexistent[^\n]*\n$")

    def test_the_schema_is_one_that_others_can_read(self):
        schema = json.loads(self.ok("config-schema").out)
        try:
            import jsonschema
            import yaml
        except ImportError:
            self.skipTest("SKIPPED: no jsonschema and yaml for Python here; config_test has a check of its own")
        jsonschema.Draft7Validator.check_schema(schema)
        for path in sorted((fleet.ROOT / "examples").glob("*.yaml")):
            # Python's YAML 1.1 reads 4.0e-3 as a number only because its exponent has a sign, as in the examples.
            jsonschema.validate(yaml.safe_load(path.read_text()), schema)

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

        refused = self.run_command("checkpoint", "export", step_dir, self.work / "model.GGUF")
        self.assertEqual(refused.code, 2, refused.err)
        self.assertIn("GGUF files are written of llama alone", refused.err)

        self.ok("checkpoint", "import", self.work / "hf", self.work / "imported" / "step-00000000")
        back = json.loads(self.ok("eval", "--checkpoint", self.work / "imported" / "step-00000000",
                                  "--data", self.held_file, "--json").out)
        self.assertEqual(held["loss"], back["loss"], "export and import keep every bit")
        self.weights_that_are_not_finite(data, len(header))
        on = self.train(self.config(steps=3, checkpoint={"dir": str(self.work / "on")}), "--resume",
                        self.work / "imported" / "step-00000000")
        self.assertEqual(sorted(on.column("loss")), [1, 2, 3])

    def weights_that_are_not_finite(self, exported, tensors):
        """An import names weights that are not finite; weights whose loss is not finite are an error of eval."""
        path = self.work / "hf" / "model.safetensors"
        begin = 8 + struct.unpack("<Q", exported[:8])[0]
        self.assertGreater(tensors, 1)
        path.write_bytes(exported[:begin] + struct.pack("<f", float("nan")) + exported[begin + 4:])
        refused = self.run_command("checkpoint", "import", self.work / "hf", self.work / "nan" / "step-00000000")
        self.assertEqual(refused.code, 3, refused.err)
        self.assertRegex(refused.err, r"^zerofleet: [^\n]*tensor '[\w.]+': element 0 is nan[^\n]*\n$")
        floats = (len(exported) - begin) // 4
        path.write_bytes(exported[:begin] + struct.pack("<f", 3e38) * floats)
        self.ok("checkpoint", "import", self.work / "hf", self.work / "huge" / "step-00000000")
        lost = self.run_command("eval", "--checkpoint", self.work / "huge" / "step-00000000", "--data", self.held_file)
        self.assertEqual((lost.code, lost.out), (3, ""), lost.err)
        self.assertRegex(lost.err, r"^zerofleet: --data: the loss of [^\n]* is -?(nan|inf): [^\n]*\n$")

    def test_token_files_train_like_the_text_they_hold(self):
        tokens = self.work / "train.u16"
        text = self.train_file.read_bytes()
        tokens.write_bytes(struct.pack(f"<{len(text)}H", *text))
        from_text = self.train(self.config(checkpoint={"dir": str(self.work / "text")}))
        from_tokens = self.train(self.config(data={"train": [str(tokens)], "format": "tokens_u16"}, model={"vocab": 256},
                                             checkpoint={"dir": str(self.work / "tokens")}))
        self.assert_same_bits(from_text.column("loss"), from_tokens.column("loss"), "text and its tokens")
        refused = self.run_command("eval", "--checkpoint", self.work / "tokens", "--data", self.held_file)
        self.assertEqual(refused.code, 3)
        self.assertIn("is text, but the model was trained on tokens", refused.err)
        self.ok("eval", "--checkpoint", self.work / "tokens", "--data", tokens)


if __name__ == "__main__":
    fleet.main()
