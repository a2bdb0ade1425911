#!/usr/bin/env python3
"""A Llama of odd sizes trains as Hugging Face transformers and PyTorch train it: losses, gradient norms and weights.

Needs torch and transformers, which scripts/oracle_venv.sh brings and `make test` runs; where that fails the test says so and is
skipped.
"""
import os
import subprocess

import fleet

VENV_PYTHON = fleet.ROOT / "build" / "oracle-venv" / "bin" / "python3"
RUNS = (["--precision", "fp32"],
        ["--precision", "bf16", "--model", "grouped"],
        ["--model", "grouped", "--set", "parallel.tensor=2", "--set", "parallel.zero_stage=2"],
        ["--model", "head-norms", "--set", "parallel.tensor=2", "--set", "activation.checkpointing=selective"],
        ["--model", "wide-heads", "--set", "parallel.tensor=2", "--set", "parallel.sequence=true",
         "--set", "buffers.bucket_bytes=65536", "--set", "activation.checkpointing=block"])


class LlamaIsTransformers(fleet.FleetTest):
    def test_five_steps(self):
        if not os.access(VENV_PYTHON, os.X_OK):
            self.skipTest("SKIPPED: Hugging Face transformers is not installed; scripts/oracle_venv.sh installs it in "
                          "build/oracle-venv")
        for number, options in enumerate(RUNS):
            checked = subprocess.run([str(VENV_PYTHON), str(fleet.ROOT / "tests" / "oracle" / "check_llama.py"), "--zerofleet",
                                      fleet.BINARY, "--work", str(self.work / str(number)), *options],
                                     capture_output=True, text=True)
            self.assertEqual(checked.returncode, 0, f"{options}: {checked.stdout}{checked.stderr}")


if __name__ == "__main__":
    fleet.main()
