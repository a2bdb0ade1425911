#!/usr/bin/env python3
"""An exported checkpoint loads in Hugging Face transformers and gives the loss that `zerofleet eval` gives.

Needs torch and transformers, which scripts/oracle_venv.sh brings and `make test` runs; where that fails the test says so and is
skipped.
"""
import os
import subprocess

import fleet

VENV_PYTHON = fleet.ROOT / "build" / "oracle-venv" / "bin" / "python3"


class HuggingFaceReadsTheExport(fleet.FleetTest):
    def test_same_loss(self):
        if not os.access(VENV_PYTHON, os.X_OK):
            self.skipTest("SKIPPED: Hugging Face transformers is not installed; scripts/oracle_venv.sh installs it in "
                          "build/oracle-venv")
        self.train(self.config())
        step_dir = fleet.latest_checkpoint(self.work / "checkpoints")
        export = self.work / "hf"
        self.assertEqual(self.run_command("checkpoint", "export", step_dir, export).code, 0)
        checked = subprocess.run([str(VENV_PYTHON), str(fleet.ROOT / "tests" / "oracle" / "check_hf_export.py"), str(export),
                                  "--checkpoint", str(step_dir), "--data", str(self.held_file),
                                  "--zerofleet", fleet.BINARY], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


if __name__ == "__main__":
    fleet.main()
